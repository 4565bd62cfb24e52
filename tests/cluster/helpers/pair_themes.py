"""Themes of seeds of `pair_requests`: first requests, and the weights of APIs.

Requests that are chosen uniformly rarely reach deep states: a committed transaction takes six that
fit each other. Half of the seeds have a theme, with topics, producers or members created first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from quorate.codecs.api import ConsumerGroupHeartbeatRequest, JoinGroupRequest
from quorate.codecs.api.broker import CreateTopicsRequest, InitProducerIdRequest
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.message import Message
from tests.cluster.helpers.pair_share_values import WEIGHTS, share_members, share_records
from tests.cluster.helpers.pair_streams_values import STREAMS_WEIGHTS, joins

EVERYTHING_ALIKE = 2
"""The weight of other APIs."""


@dataclass(frozen=True, slots=True)
class Theme:
    """A kind of seed.

    `weights`: those of APIs; `others`: the weight of all others; `begins`: the first requests;
    `sober`: few wild fields; `groups`: most requests of all kinds name these.
    """

    name: str
    weights: Mapping[str, int]
    others: float = 0.0
    begins: tuple[str, ...] = ()
    sober: bool = True
    groups: tuple[str, ...] = ()

    def prelude(self, prefix: str) -> list[tuple[Message, int]]:
        """Return the first requests, and their versions."""
        return [one for what in self.begins for one in _BEGINNINGS[what](prefix)]


EVERYTHING = Theme(
    "everything",
    {
        "Produce": 14,
        "Fetch": 10,
        "ListOffsets": 6,
        "Metadata": 4,
        "CreateTopics": 6,
        "InitProducerId": 5,
        "AddPartitionsToTxn": 6,
        "AddOffsetsToTxn": 3,
        "TxnOffsetCommit": 4,
        "EndTxn": 5,
        "JoinGroup": 4,
        "SyncGroup": 4,
        "ConsumerGroupHeartbeat": 6,
        "OffsetCommit": 5,
        "OffsetFetch": 4,
        "IncrementalAlterConfigs": 4,
        "DescribeConfigs": 4,
    },
    others=EVERYTHING_ALIKE,
    sober=False,
)

_THEMES = (
    Theme(
        "transactions",
        {
            "Produce": 16,
            "AddPartitionsToTxn": 8,
            "AddOffsetsToTxn": 3,
            "TxnOffsetCommit": 5,
            "EndTxn": 9,
            "InitProducerId": 3,
            "Fetch": 8,
            "ListOffsets": 4,
            "DescribeTransactions": 3,
            "ListTransactions": 2,
            "DescribeProducers": 3,
            "OffsetFetch": 3,
            "DeleteRecords": 1,
        },
        others=0.1,
        begins=("topics", "transactional producers"),
    ),
    Theme(
        "producers",
        {"Produce": 20, "InitProducerId": 2, "DescribeProducers": 3, "Fetch": 5, "ListOffsets": 3, "DeleteRecords": 2},
        others=0.05,
        begins=("topics", "producers"),
    ),
    Theme(
        "readers",
        {
            "Produce": 10,
            "Fetch": 25,
            "ListOffsets": 8,
            "OffsetForLeaderEpoch": 4,
            "DeleteRecords": 3,
            "CreatePartitions": 1,
            "DeleteTopics": 1,
            "CreateTopics": 1,
            "IncrementalAlterConfigs": 1,
        },
        others=0.05,
        begins=("topics",),
    ),
    Theme(
        "members",
        {
            "JoinGroup": 12,
            "SyncGroup": 12,
            "Heartbeat": 8,
            "LeaveGroup": 4,
            "OffsetCommit": 8,
            "OffsetFetch": 5,
            "TxnOffsetCommit": 2,
            "OffsetDelete": 2,
            "DescribeGroups": 4,
            "ListGroups": 2,
            "DeleteGroups": 1,
            "ConsumerGroupHeartbeat": 10,
            "ConsumerGroupDescribe": 3,
            "ShareGroupHeartbeat": 2,
            "ShareGroupDescribe": 1,
        },
        others=0.05,
        begins=("topics", "members"),
    ),
    Theme(
        "configs",
        {
            "IncrementalAlterConfigs": 14,
            "AlterConfigs": 4,
            "DescribeConfigs": 10,
            "CreateTopics": 8,
            "ListConfigResources": 2,
            "Produce": 2,
            "ConsumerGroupHeartbeat": 2,
        },
        others=0.05,
        begins=("topics",),
    ),
    Theme(
        "lists",
        {
            "ListGroups": 8,
            "FindCoordinator": 8,
            "DescribeTopicPartitions": 8,
            "ConsumerGroupHeartbeat": 8,
            "ShareGroupHeartbeat": 3,
            "JoinGroup": 4,
            "OffsetCommit": 6,
            "OffsetFetch": 6,
            "TxnOffsetCommit": 6,
            "EndTxn": 2,
            "OffsetDelete": 3,
            "DeleteGroups": 4,
            "DescribeGroups": 3,
            "ConsumerGroupDescribe": 3,
            "ShareGroupDescribe": 2,
            "StreamsGroupDescribe": 2,
            "DescribeShareGroupOffsets": 2,
            "AlterShareGroupOffsets": 3,
            "DeleteShareGroupOffsets": 2,
            "CreateTopics": 1,
            "DeleteTopics": 1,
        },
        others=0.05,
        begins=("topics", "members", "transactional producers"),
    ),
)
CONVERSIONS = Theme(
    "conversions",
    {
        "JoinGroup": 10,
        "SyncGroup": 8,
        "Heartbeat": 5,
        "LeaveGroup": 4,
        "ConsumerGroupHeartbeat": 14,
        "ConsumerGroupDescribe": 2,
        "DescribeGroups": 2,
        "ListGroups": 1,
        "OffsetCommit": 4,
        "OffsetFetch": 4,
        "OffsetDelete": 1,
        "DeleteGroups": 1,
        "AddOffsetsToTxn": 5,
        "TxnOffsetCommit": 8,
        "EndTxn": 4,
    },
    others=0.05,
    begins=("topics", "members", "transactional producers"),
    groups=("consumer-0", "classic-0"),
)
"""Members of both protocols in the same groups, which commit offsets, also in transactions."""
SHARES = Theme("shares", WEIGHTS, others=0.05, begins=("topics", "share members", "share records"))
STREAMS = Theme("streams", STREAMS_WEIGHTS, others=0.05, begins=("topics", "streams members"))
"""Not among the themes of releases without share groups, or with other streams groups."""
THEMES: Mapping[str, Theme] = {one.name: one for one in (EVERYTHING, *_THEMES, CONVERSIONS, SHARES, STREAMS)}


def theme_of(random: Random) -> Theme:
    """Return a random theme; every second one includes all APIs."""
    return EVERYTHING if random.random() < 0.5 else random.choice(_THEMES)


def first_topics(prefix: str) -> list[tuple[Message, int]]:
    """Return the request that creates the topics of a theme."""
    compacted = (CreatableTopicConfig(name="cleanup.policy", value="compact"),)
    stamped = (CreatableTopicConfig(name="message.timestamp.type", value="LogAppendTime"),)
    topics = tuple(
        CreatableTopic(name=prefix + name, num_partitions=count, replication_factor=1, configs=configs)
        for name, count, configs in (("a", 2, ()), ("b", 2, ()), ("c", 1, compacted), ("e", 1, stamped))
    )
    return [(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)]


def _transactional_producers(prefix: str) -> list[tuple[Message, int]]:
    return [
        (InitProducerIdRequest(transactional_id=prefix + name, transaction_timeout_ms=60_000), 4) for name in ("x", "y")
    ]


def _producers(prefix: str) -> list[tuple[Message, int]]:
    return [(InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000), 4)] * 2


def _members(prefix: str) -> list[tuple[Message, int]]:
    joins: list[tuple[Message, int]] = [
        (
            JoinGroupRequest(
                group_id=prefix + group,
                session_timeout_ms=60_000,
                rebalance_timeout_ms=300,
                member_id="",
                protocol_type="consumer",
                protocols=(JoinGroupRequestProtocol(name="range", metadata=b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff"),),
            ),
            2,
        )
        for group in ("classic-0", "classic-1")
    ]
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id=prefix + "consumer-0",
        member_id="m",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=(prefix + "a",),
        topic_partitions=(),
    )
    return [*joins, (heartbeat, 0)]


_BEGINNINGS = {
    "topics": first_topics,
    "transactional producers": _transactional_producers,
    "producers": _producers,
    "members": _members,
    "share members": share_members,
    "share records": share_records,
    "streams members": joins,
}
