"""Permissions for large requests are checked in turns, between which others are served (issue 14).

Each step is a turn of its own here, so that counts do not depend on the machine.
"""

import re
from collections.abc import Callable, Iterator

import pytest

from quorate.cluster import EmbeddedCluster, turns
from quorate.cluster.authorizer import CLASS_NAME, Acl, Operation, PatternType, Permission, ResourceType
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    DeleteGroupsRequest,
    DescribeGroupsRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
)
from quorate.codecs.api.broker import (
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeTransactionsRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
)
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.message import Message
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire

MANY = 300
NAMES = tuple(f"n{number}" for number in range(MANY))
_FETCHED = tuple(OffsetFetchRequestTopics(name=name, partition_indexes=(0,)) for name in NAMES)
REQUESTS: list[tuple[Message, int]] = [
    (MetadataRequest(topics=tuple(MetadataRequestTopic(name=name) for name in NAMES)), 9),
    (DescribeGroupsRequest(groups=NAMES), 5),
    (DeleteGroupsRequest(groups_names=NAMES), 2),
    (FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES), 4),
    (DescribeTransactionsRequest(transactional_ids=NAMES), 0),
    (
        ListOffsetsRequest(
            topics=tuple(ListOffsetsTopic(name=name, partitions=(ListOffsetsPartition(),)) for name in NAMES)
        ),
        7,
    ),
    (CreateTopicsRequest(topics=tuple(CreatableTopic(name=name) for name in NAMES)), 7),
    (DeleteTopicsRequest(topics=tuple(DeleteTopicState(name=name) for name in NAMES)), 6),
    (
        DescribeConfigsRequest(
            resources=tuple(DescribeConfigsResource(resource_type=2, resource_name=name) for name in NAMES)
        ),
        4,
    ),
    (OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=name) for name in NAMES)), 8),
    (OffsetFetchRequest(groups=(OffsetFetchRequestGroup(group_id="g", topics=_FETCHED),)), 8),
    (
        OffsetCommitRequest(
            group_id="g",
            topics=tuple(
                OffsetCommitRequestTopic(name=name, partitions=(OffsetCommitRequestPartition(),)) for name in NAMES
            ),
        ),
        9,
    ),
    (
        ConsumerGroupHeartbeatRequest(
            group_id="g", member_id="AAAAAAAAAAAAAAAAAAAAAA", member_epoch=0, subscribed_topic_names=NAMES
        ),
        1,
    ),
]


@pytest.fixture
def cluster(short_turns: None) -> Iterator[EmbeddedCluster]:
    rights = {"authorizer.class.name": CLASS_NAME, "super.users": "User:admin"}
    with EmbeddedCluster(properties=QUICK | rights) as made:
        yield made


@pytest.fixture
def count(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[], int]:
    """Return a function that returns how many turns large requests took."""
    seen: list[None] = []
    unwatched = turns.Turns._next

    def watched(self: turns.Turns) -> None:
        seen.append(None)
        unwatched(self)

    monkeypatch.setattr(turns.Turns, "_next", watched)
    return lambda: len(seen)


def allow(
    cluster: EmbeddedCluster, *resources: ResourceType, name: str = "*", permission: Permission = Permission.ALLOW
) -> None:
    core = cluster.core
    for resource in resources:
        acl = Acl(
            resource_type=resource,
            name=name,
            pattern_type=PatternType.LITERAL,
            principal="User:*",
            host="*",
            operation=Operation.ALL,
            permission=permission,
        )
        cluster.call(lambda acl=acl: core.state.acls.add(core.new_uuid(), acl))


@pytest.mark.parametrize(
    ("requested", "version"), REQUESTS, ids=[f"{type(one).__name__} {at}" for at, (one, _) in enumerate(REQUESTS)]
)
def test_permissions_are_denied_in_turns(
    cluster: EmbeddedCluster, count: Callable[[], int], requested: Message, version: int
) -> None:
    with Wire(cluster.core.brokers[1].port) as wire:
        if "group_id='g'" in repr(requested):
            allow(cluster, ResourceType.GROUP)
            wire.request(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
        if isinstance(requested, ConsumerGroupHeartbeatRequest):  # fails at the first topic that may not be described
            allow(cluster, ResourceType.TOPIC)
            allow(cluster, ResourceType.TOPIC, name=NAMES[-1], permission=Permission.DENY)
        found = wire.request(requested, version)
    assert re.search(r"error_code=(29|30|53)\b", repr(found))
    assert count() >= MANY
    assert not cluster.core.failures


@pytest.mark.parametrize(
    ("requested", "version", "field"),
    [
        (FindCoordinatorRequest(key_type=0, coordinator_keys=NAMES), 4, "coordinators"),
        (DescribeTransactionsRequest(transactional_ids=NAMES), 0, "transaction_states"),
    ],
    ids=lambda one: type(one).__name__,
)
def test_responses_are_merged_in_turns(
    cluster: EmbeddedCluster, count: Callable[[], int], requested: Message, version: int, field: str
) -> None:
    """The names are passed twice before the handler, which visits each, and once after it."""
    allow(cluster, ResourceType.GROUP, ResourceType.TRANSACTIONAL_ID)
    with Wire(cluster.core.brokers[1].port) as wire:
        found = wire.request(requested, version)
    assert len(getattr(found, field)) == MANY
    assert count() >= 4 * MANY
