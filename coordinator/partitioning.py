"""Which partition of `__consumer_offsets` a group is in, and of `__transaction_state` a transactional id: its leader is the coordinator."""

from functools import lru_cache

from quorate.assignors.java_order import string_hash

__all__ = ["partition_for"]


@lru_cache(maxsize=4096)  # asked with each request, of the same few names
def partition_for(name: str, partitions: int) -> int:
    """The absolute value of Java's hash of the name, modulo the number of partitions; 0 for the one number that has no absolute value in 32 bits."""
    unsigned = string_hash(name)
    signed = unsigned - 2**32 if unsigned >= 2**31 else unsigned
    return (0 if signed == -(2**31) else abs(signed)) % partitions
