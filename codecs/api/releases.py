"""What brokers of each release of Kafka tell clients that they can: the last version of each API, and the levels of features (ApiVersions).

Facts of the schemas in each release's kafka-clients jar (`listeners`, `latestVersionUnstable`), seen to be what running brokers of 3.9.2, 4.0.2 and 4.3.1 tell. First
versions are not kept: up to 3.9 they are 0, from 4.0 on those of the declarations here. Nothing here knows what is answered.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

__all__ = ["FEATURES", "RELEASES", "Features", "last_versions"]

Release = tuple[int, int]
"""Major and minor number: patches of a release do not differ."""

RELEASES: Final[tuple[Release, ...]] = ((3, 9), (4, 0), (4, 1), (4, 2), (4, 3))
"""The releases that are known, oldest first."""

_NONE = -1
"""In a row below: brokers of that release do not tell of the API."""

# API key: the last version in 3.9, 4.0, 4.1, 4.2, 4.3. Rows of one number are the same in all of them.
_LAST: Final[Mapping[int, tuple[int, ...]]] = {
    0: (11, 12, 13, 13, 13),  # Produce: 12 transactions of KIP-890, 13 topic ids
    1: (17, 17, 18, 18, 18),  # Fetch
    2: (9, 10, 10, 11, 11),  # ListOffsets
    3: (12, 13, 13, 13, 13),  # Metadata
    8: (9, 9, 9, 10, 10),  # OffsetCommit: 10 topic ids
    9: (9, 9, 9, 10, 10),  # OffsetFetch
    10: (6,),
    11: (9,),
    12: (4,),
    13: (5,),
    14: (5,),
    15: (5, 6, 6, 6, 6),  # DescribeGroups
    16: (5,),
    17: (1,),
    18: (4,),
    19: (7,),
    20: (6,),
    21: (2,),
    22: (5,),  # InitProducerId: 6, two-phase commit (KIP-939), is not stable in any
    23: (4,),
    24: (5,),
    25: (4,),
    26: (4, 5, 5, 5, 5),  # EndTxn: 5 KIP-890
    27: (1, 1, 1, 2, 2),  # WriteTxnMarkers
    28: (4, 5, 5, 5, 5),  # TxnOffsetCommit: 5 KIP-890
    29: (3,),
    30: (3,),
    31: (3,),
    32: (4,),
    33: (2,),
    34: (2,),
    35: (4, 4, 4, 4, 5),  # DescribeLogDirs
    36: (2,),
    37: (3,),
    38: (3,),
    39: (2,),
    40: (2,),
    41: (3,),
    42: (2,),
    43: (2,),
    44: (1,),
    45: (0, 0, 1, 1, 1),  # AlterPartitionReassignments
    46: (0,),
    47: (0,),
    48: (1,),
    49: (1,),
    50: (0,),
    51: (0,),
    55: (2,),
    57: (1, 2, 2, 2, 2),  # UpdateFeatures
    60: (1, 2, 2, 2, 2),  # DescribeCluster
    61: (0,),
    64: (0,),
    65: (0,),
    66: (1, 1, 2, 2, 2),  # ListTransactions
    68: (0, 1, 1, 1, 1),  # ConsumerGroupHeartbeat: 1 expressions
    69: (0, 1, 1, 1, 1),  # ConsumerGroupDescribe
    74: (0, 0, 1, 1, 1),  # ListConfigResources
    75: (0,),
    76: (_NONE, _NONE, 1, 1, 1),  # share groups (KIP-932): the APIs of 3.9 and 4.0 were not stable
    77: (_NONE, _NONE, 1, 1, 1),
    78: (_NONE, _NONE, 1, 2, 2),
    79: (_NONE, _NONE, 1, 2, 2),
    80: (0, 0, 0, 1, 1),  # AddRaftVoter
    81: (0,),
    83: (_NONE, _NONE, 0, 0, 0),
    84: (_NONE, _NONE, 0, 0, 0),
    85: (_NONE, _NONE, 0, 1, 1),
    86: (_NONE, _NONE, 0, 0, 0),
    87: (_NONE, _NONE, 0, 1, 1),
    88: (_NONE, _NONE, _NONE, 0, 0),  # streams groups (KIP-1071)
    89: (_NONE, _NONE, _NONE, 0, 0),
    90: (_NONE, _NONE, 0, 1, 1),
    91: (_NONE, _NONE, 0, 0, 0),
    92: (_NONE, _NONE, 0, 0, 0),
}

Features = Mapping[str, tuple[int, int, int]]
"""Name → the lowest level that brokers support, the highest, and the one that a new cluster has agreed on (0: none)."""

FEATURES: Final[Mapping[Release, Features]] = {
    (3, 9): {"kraft.version": (0, 1, 0), "metadata.version": (1, 21, 21)},
    (4, 0): {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 25, 25),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 0),
    },
    (4, 1): {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 27, 27),
        "share.version": (0, 1, 0),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
    (4, 2): {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 29, 29),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
    (4, 3): {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 30, 30),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
}
"""The features of each release (KIP-584, KIP-1022). `kraft.version` is agreed on elsewhere, where voters are fixed as in `controller.quorum.voters` it is 0."""


@lru_cache(maxsize=len(RELEASES))
def last_versions(release: Release) -> Mapping[int, int]:
    """API key → the last version that brokers of a release tell of, for all APIs that they tell clients of. Raises `KeyError` for a release that is not in `RELEASES`."""
    if release not in RELEASES:
        raise KeyError(release)
    column = RELEASES.index(release)
    found = {key: row[min(column, len(row) - 1)] for key, row in _LAST.items()}
    return {key: last for key, last in found.items() if last != _NONE}
