"""Helpers of the tests of large requests."""

import sys
from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

from quorate.cluster import EmbeddedCluster
from quorate.cluster.controller.records import snapshot
from quorate.cluster.controller.state import ClusterState
from quorate.cluster.core import ClusterCore
from quorate.codecs.api import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupHeartbeatRequest,
    ShareGroupDescribeRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import read_batches
from quorate.codecs.message import TRANSACTION_STATE, Message
from quorate.codecs.metadata_records import decode_metadata
from quorate.coordinator.errors import ApiError
from quorate.coordinator.transactions.records import Status

MANY = 30


SampleTurns: TypeAlias = Callable[[Callable[[], Any]], list[Any]]


def assert_metadata_log_is_complete(core: ClusterCore) -> None:
    """Check that replaying the metadata log results in the cluster's state."""
    assert core.data is not None
    replayed = ClusterState()
    for stored in core.data.metadata.log:
        for record in next(read_batches(stored.data)).records():  # type: ignore[union-attr]
            replayed.replay(decode_metadata(record.value or b""))  # type: ignore[union-attr]
    assert list(snapshot(replayed)) == list(snapshot(core.state))


def calls_in(cluster: EmbeddedCluster, function: Callable[[], Any]) -> tuple[int, Any]:
    """Return a function's number of Python calls in the cluster's loop, and its result."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    def profiled() -> Any:
        sys.setprofile(count)
        try:
            return function()
        finally:
            sys.setprofile(None)

    result = cluster.call(profiled)
    return calls, result


def heartbeats(kind: type[Message], count: int) -> Iterator[Message]:
    """Return requests of two members with many topics: join, resubscribe, leave, describe."""
    names = tuple(f"t{number}" for number in range(count))
    joining = {"rebalance_timeout_ms": 1_000, "topic_partitions": ()} if kind is ConsumerGroupHeartbeatRequest else {}
    for member, subscribed in (
        ("m1", names),
        ("m2", names[::-1]),
        ("m2", (*names, "x")),
        ("m2", names[::2]),
        ("m2", tuple(f"u{number}" for number in range(count))),
        ("m1", names),
    ):
        yield kind(group_id="g", member_id=member, member_epoch=0, subscribed_topic_names=subscribed, **joining)
    yield (ConsumerGroupDescribeRequest if joining else ShareGroupDescribeRequest)(group_ids=("g",))
    yield kind(group_id="g", member_id="m2", member_epoch=-1)


PARTITIONS = 450


def status(core: ClusterCore, name: str = "x") -> Status | None:
    """Return the status of a transaction; `None` if it is missing, or its coordinator loads."""
    try:
        transaction = core.transactions.find(name)
    except ApiError as error:
        if error.code == ErrorCode.COORDINATOR_LOAD_IN_PROGRESS:
            return None
        raise
    return None if transaction is None else transaction.status


def core_with_topics(cluster: EmbeddedCluster, partitions: int = PARTITIONS) -> ClusterCore:
    core = cluster.core
    cluster.call(lambda: core.internal_topic(TRANSACTION_STATE))
    cluster.call(lambda: core.create_topic("t", partitions=partitions))
    return core
