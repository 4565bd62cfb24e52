"""Internal errors: each is reported, and closes only the affected connection (issue 14)."""

from collections.abc import Generator
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, connection, request_handler
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.broker import FindCoordinatorRequest, MetadataRequest
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.coordinator.consumer import regexes
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_limits import eventually

NO_TOPICS = MetadataRequest(topics=())


def _fail(*_: object) -> Any:
    raise KeyError("unexpected")


@pytest.mark.parametrize("large_bytes", [0, 1 << 20], ids=["in the thread", "in the loop"])
def test_an_internal_error_in_decoding_a_request(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, large_bytes: int
) -> None:
    with Wire(cluster.core.brokers[1].port) as wire, Wire(cluster.core.brokers[1].port) as other:
        monkeypatch.setattr(request_handler, "_decode", _fail)
        monkeypatch.setattr(request_handler, "_LARGE_BYTES", large_bytes)
        wire.send(NO_TOPICS, 12)
        assert wire.is_closed()
        monkeypatch.undo()
        other.request(NO_TOPICS, 12)
    assert cluster.core.failure_count == 1
    assert any("MetadataRequest failed with an internal error" in note for note in cluster.core.notes)


@pytest.mark.usefixtures("short_turns")
def test_an_internal_error_in_serving_a_connection(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second of two requests, which is served in a later turn."""
    served = connection.Connection._header
    monkeypatch.setattr(connection, "_SERVED_S", -1)
    monkeypatch.setattr(
        connection.Connection, "_header", lambda own, frame: _fail() if b"second" in frame else served(own, frame)
    )
    with Wire(cluster.core.brokers[1].port) as wire, Wire(cluster.core.brokers[1].port) as other:
        second = MetadataRequest(topics=(MetadataRequestTopic(name="second"),))
        both, real = bytearray(), wire.socket
        wire.socket = type("", (), {"sendall": both.extend})()
        wire.send(NO_TOPICS, 12)
        first = wire.correlation_id
        wire.send(second, 12)
        wire.socket = real
        wire.socket.sendall(both)
        wire.correlation_id = first
        wire.receive(MetadataRequest, 12)
        assert wire.is_closed()
        other.request(NO_TOPICS, 12)
    assert cluster.core.failure_count == 1


@pytest.mark.parametrize("in_turns", [False, True])
def test_a_coordinator_runs_its_other_tasks_after_a_failed_one(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, in_turns: bool
) -> None:
    if in_turns:
        request.getfixturevalue("short_turns")

    def matching_topics(*_: object) -> Generator[None, None, Any]:
        yield
        yield
        _fail()

    monkeypatch.setattr(regexes, "matching_topics", matching_topics)
    core = cluster.core
    cluster.call(lambda: core.create_topic("orders"))
    with Wire(core.brokers[1].port) as wire:
        found = wire.request(FindCoordinatorRequest(key_type=0, coordinator_keys=("g",)), 4)
        port = core.brokers[found.coordinators[0].node_id].port

    def heartbeat(wire: Wire, group: str) -> Any:
        joining = ConsumerGroupHeartbeatRequest(
            group_id=group,
            member_id="AAAAAAAAAAAAAAAAAAAAAA",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=(),
            subscribed_topic_regex="ord.*",
            topic_partitions=(),
        )
        return wire.request(joining, 1)

    with Wire(port) as wire:
        assert heartbeat(wire, "g").error_code == 0
        eventually(lambda: core.failure_count == 1)
        monkeypatch.undo()
        eventually(lambda: heartbeat(wire, "g").assignment.topic_partitions)
    assert core.failure_count == 1
    (runtime,) = (one for one in core.groups.runtimes().values() if one.shard.state.groups)
    assert not runtime.shard.tasks
