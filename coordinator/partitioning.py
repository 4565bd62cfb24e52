"""The partition of `__consumer_offsets` or `__transaction_state` that an id belongs to.

Its leader is the coordinator of the group or transactional id.
"""

from quorate.assignors.java_order import string_hash


def partition_for(name: str, partitions: int) -> int:
    """Return the absolute value of Java's hash of the name, modulo the number of partitions.

    As in Kafka, -2^31 counts as 0, since it has no absolute value in 32 bits.
    """
    unsigned = string_hash(name)
    signed = unsigned - 2**32 if unsigned >= 2**31 else unsigned
    return (0 if signed == -(2**31) else abs(signed)) % partitions
