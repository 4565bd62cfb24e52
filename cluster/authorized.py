"""What may be done with topics, groups and the cluster, in bits (KIP-430). What one client may do of it, where there is an authorizer: `quorate.cluster.authorization`."""

from quorate.cluster.authorizer import Operation

__all__ = ["CLUSTER_OPERATIONS", "GROUP_OPERATIONS", "GROUP_OPERATIONS_BEFORE_4_0", "TOPIC_OPERATIONS", "UNKNOWN"]

UNKNOWN = -(1 << 31)
"""Where nobody asked."""


def _bits(*operations: Operation) -> int:
    return sum(1 << one for one in operations)


GROUP_OPERATIONS_BEFORE_4_0 = _bits(Operation.READ, Operation.DELETE, Operation.DESCRIBE)
_CONFIGS = _bits(Operation.DESCRIBE_CONFIGS, Operation.ALTER_CONFIGS)
GROUP_OPERATIONS = GROUP_OPERATIONS_BEFORE_4_0 | _CONFIGS
TOPIC_OPERATIONS = GROUP_OPERATIONS | _bits(Operation.WRITE, Operation.CREATE, Operation.ALTER)
CLUSTER_OPERATIONS = _CONFIGS | _bits(
    Operation.CREATE, Operation.ALTER, Operation.DESCRIBE, Operation.CLUSTER_ACTION, Operation.IDEMPOTENT_WRITE
)
