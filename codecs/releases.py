"""Releases of Kafka, and what their brokers report in ApiVersions: API versions and features.

```python
KafkaVersion.parse("4.0.2") < KafkaVersion.NEWEST
```

The tables are from the schemas in each release's kafka-clients jar (`listeners`,
`latestVersionUnstable`), and match the responses of running brokers of 3.9.2, 4.0.2 and 4.3.1. They
have the last version of each API. First versions are 0 up to 3.9, and those of the declarations
here from 4.0 on.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import ClassVar, Final, Self

from quorate.codecs.lazy_dataclass import dataclass

__all__ = ["NAMES", "RELEASES", "Features", "KafkaVersion", "features_of", "last_versions"]


@dataclass(frozen=True, slots=True, order=True)
class KafkaVersion:
    """A release, such as 4.4.0; ordered.

    Functions with a release as parameter default to `KafkaVersion.NEWEST`, the release that the
    tests compare with.
    """

    major: int
    minor: int
    patch: int = 0

    NEWEST: ClassVar["KafkaVersion"]

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse "4.3.1"; "4.3" is 4.3.0. Raises `ValueError`."""
        found = re.fullmatch(r"(\d+)\.(\d+)(?:\.(\d+))?", text.strip(), re.ASCII)
        if found is None:
            raise ValueError(f"{text!r} is not a version of Kafka: write it as {cls.NEWEST}")
        major, minor, patch = found.groups(default="0")
        return cls(int(major), int(minor), int(patch))

    @property
    def line(self) -> "KafkaVersion":
        """The first release of the same line: 4.3.0 for 4.3.1.

        Patch releases contain fixes only.
        """
        return KafkaVersion(self.major, self.minor)

    @property
    def short(self) -> str:
        """The release without the patch: "4.3"."""
        return f"{self.major}.{self.minor}"

    def __str__(self) -> str:
        return f"{self.major}.{self.minor}.{self.patch}"


KafkaVersion.NEWEST = KafkaVersion(4, 4, 0)

_3_9, _4_0, _4_1, _4_2, _4_3, _4_4 = (
    KafkaVersion(*numbers) for numbers in ((3, 9), (4, 0), (4, 1), (4, 2), (4, 3), (4, 4))
)

RELEASES: Final[tuple[KafkaVersion, ...]] = (_3_9, _4_0, _4_1, _4_2, _4_3, _4_4)
"""The release lines in the tables, oldest first."""

_NONE = -1
"""In a row below: brokers of that release do not report the API."""

# API key: its name, and the last version in 3.9, 4.0, 4.1, 4.2, 4.3, 4.4. A single number is that
# of all releases.
_LAST: Final[Mapping[int, tuple[str, *tuple[int, ...]]]] = {
    0: ("Produce", 11, 12, 13, 13, 13, 13),  # 12 transactions of KIP-890, 13 topic ids
    1: ("Fetch", 17, 17, 18, 18, 18, 18),
    2: ("ListOffsets", 9, 10, 10, 11, 11, 11),
    3: ("Metadata", 12, 13, 13, 13, 13, 13),
    8: ("OffsetCommit", 9, 9, 9, 10, 10, 10),  # 10 topic ids
    9: ("OffsetFetch", 9, 9, 9, 10, 10, 10),
    10: ("FindCoordinator", 6),
    11: ("JoinGroup", 9),
    12: ("Heartbeat", 4),
    13: ("LeaveGroup", 5),
    14: ("SyncGroup", 5),
    15: ("DescribeGroups", 5, 6, 6, 6, 6, 6),
    16: ("ListGroups", 5),
    17: ("SaslHandshake", 1),
    18: ("ApiVersions", 4, 4, 4, 4, 4, 5),
    19: ("CreateTopics", 7),
    20: ("DeleteTopics", 6),
    21: ("DeleteRecords", 2),
    22: ("InitProducerId", 5),  # 6, two-phase commit (KIP-939), is stable in none
    23: ("OffsetForLeaderEpoch", 4),
    24: ("AddPartitionsToTxn", 5),
    25: ("AddOffsetsToTxn", 4),
    26: ("EndTxn", 4, 5, 5, 5, 5, 5),  # 5 KIP-890
    27: ("WriteTxnMarkers", 1, 1, 1, 2, 2, 2),
    28: ("TxnOffsetCommit", 4, 5, 5, 5, 5, 6),  # 5 KIP-890, 6 topic ids (KIP-1319)
    29: ("DescribeAcls", 3),
    30: ("CreateAcls", 3),
    31: ("DeleteAcls", 3),
    32: ("DescribeConfigs", 4),
    33: ("AlterConfigs", 2),
    34: ("AlterReplicaLogDirs", 2),
    35: ("DescribeLogDirs", 4, 4, 4, 4, 5, 5),
    36: ("SaslAuthenticate", 2),
    37: ("CreatePartitions", 3),
    38: ("CreateDelegationToken", 3),
    39: ("RenewDelegationToken", 2),
    40: ("ExpireDelegationToken", 2),
    41: ("DescribeDelegationToken", 3),
    42: ("DeleteGroups", 2, 2, 2, 2, 2, 3),
    43: ("ElectLeaders", 2),
    44: ("IncrementalAlterConfigs", 1),
    45: ("AlterPartitionReassignments", 0, 0, 1, 1, 1, 1),
    46: ("ListPartitionReassignments", 0),
    47: ("OffsetDelete", 0),
    48: ("DescribeClientQuotas", 1),
    49: ("AlterClientQuotas", 1),
    50: ("DescribeUserScramCredentials", 0),
    51: ("AlterUserScramCredentials", 0),
    55: ("DescribeQuorum", 2),
    57: ("UpdateFeatures", 1, 2, 2, 2, 2, 2),
    60: ("DescribeCluster", 1, 2, 2, 2, 2, 2),
    61: ("DescribeProducers", 0),
    64: ("UnregisterBroker", 0),
    65: ("DescribeTransactions", 0),
    66: ("ListTransactions", 1, 1, 2, 2, 2, 2),
    68: ("ConsumerGroupHeartbeat", 0, 1, 1, 1, 1, 1),  # 1 regex subscriptions
    69: ("ConsumerGroupDescribe", 0, 1, 1, 1, 1, 1),
    # Brokers handle both, but report them only with a plugin that receives the metrics (KIP-714).
    71: ("GetTelemetrySubscriptions", _NONE),
    72: ("PushTelemetry", _NONE),
    74: ("ListConfigResources", 0, 0, 1, 1, 1, 1),
    75: ("DescribeTopicPartitions", 0),
    76: (
        "ShareGroupHeartbeat",
        _NONE,
        _NONE,
        1,
        1,
        1,
        1,
    ),  # share groups (KIP-932): the APIs of 3.9 and 4.0 were not stable
    77: ("ShareGroupDescribe", _NONE, _NONE, 1, 1, 1, 1),
    78: ("ShareFetch", _NONE, _NONE, 1, 2, 2, 2),
    79: ("ShareAcknowledge", _NONE, _NONE, 1, 2, 2, 2),
    80: ("AddRaftVoter", 0, 0, 0, 1, 1, 1),
    81: ("RemoveRaftVoter", 0),
    83: ("InitializeShareGroupState", _NONE, _NONE, 0, 0, 0, 0),
    84: ("ReadShareGroupState", _NONE, _NONE, 0, 0, 0, 0),
    85: ("WriteShareGroupState", _NONE, _NONE, 0, 1, 1, 1),
    86: ("DeleteShareGroupState", _NONE, _NONE, 0, 0, 0, 0),
    87: ("ReadShareGroupStateSummary", _NONE, _NONE, 0, 1, 1, 1),
    88: ("StreamsGroupHeartbeat", _NONE, _NONE, _NONE, 0, 0, 1),  # streams groups (KIP-1071)
    89: ("StreamsGroupDescribe", _NONE, _NONE, _NONE, 0, 0, 1),
    90: ("DescribeShareGroupOffsets", _NONE, _NONE, 0, 1, 1, 1),
    91: ("AlterShareGroupOffsets", _NONE, _NONE, 0, 0, 0, 0),
    92: ("DeleteShareGroupOffsets", _NONE, _NONE, 0, 0, 0, 0),
    93: ("StreamsGroupTopologyDescriptionUpdate", _NONE, _NONE, _NONE, _NONE, _NONE, 0),  # KIP-1331
    94: ("UnregisterController", _NONE, _NONE, _NONE, _NONE, _NONE, 0),  # KIP-1312
}

NAMES: Final[Mapping[int, str]] = {key: name for key, (name, *_) in _LAST.items()}
"""API key → Kafka's name of the API."""

Features = Mapping[str, tuple[int, int, int]]
"""Name → the lowest and the highest supported level, and the level of a new cluster (0: none)."""

_FEATURES: Final[Mapping[KafkaVersion, Features]] = {
    _3_9: {"kraft.version": (0, 1, 0), "metadata.version": (1, 21, 21)},
    _4_0: {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 25, 25),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 0),
    },
    _4_1: {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 27, 27),
        "share.version": (0, 1, 0),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
    _4_2: {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 29, 29),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
    _4_3: {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 30, 30),
        "share.version": (0, 1, 1),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
    _4_4: {
        "group.version": (0, 1, 1),
        "kraft.version": (0, 1, 0),
        "metadata.version": (7, 33, 33),
        "share.version": (0, 2, 2),
        "streams.version": (0, 1, 1),
        "transaction.version": (0, 2, 2),
        "eligible.leader.replicas.version": (0, 1, 1),
    },
}
"""The features of each release (KIP-584, KIP-1022).

The finalized `kraft.version` is not set here; with static voters (`controller.quorum.voters`) it
is 0.
"""


def features_of(version: KafkaVersion) -> Features:
    """Return the features that brokers of a release support.

    Raises `KeyError` for a release line that is not in `RELEASES`.
    """
    return _FEATURES[version.line]


@lru_cache(maxsize=16)
def last_versions(version: KafkaVersion) -> Mapping[int, int]:
    """Return API key → last version, for the APIs that brokers of a release report to clients.

    Raises `KeyError` like `features_of`.
    """
    if version.line not in RELEASES:
        raise KeyError(version)
    column = RELEASES.index(version.line)
    found = {key: last[min(column, len(last) - 1)] for key, (_, *last) in _LAST.items()}
    return {key: last for key, last in found.items() if last != _NONE}
