"""Large requests about topics: they do not block other requests, and are atomic (issue 14)."""

import itertools
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, connection, turns
from quorate.cluster.storage import metadata
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
)
from quorate.codecs.api.broker import (
    AlterConfigsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    MetadataRequest,
    alter_configs,
)
from quorate.codecs.api.broker.create_partitions import CreatePartitionsAssignment, CreatePartitionsTopic
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.message import Message
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.results import RequestContext
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.large_requests import MANY, SampleTurns, assert_metadata_log_is_complete, heartbeats
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_limits import eventually


def new_topic(name: str, partitions: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def encoded_by(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Return a list to which metadata records are added when they are encoded."""
    encoded: list[object] = []
    encode = metadata.encode_metadata

    def encoding(record: Any, version: int) -> bytes:
        encoded.append(record)
        return encode(record, version)

    monkeypatch.setattr(metadata, "encode_metadata", encoding)
    return encoded


def test_topics_of_a_request_are_created_atomically_while_other_requests_are_served(
    cluster: EmbeddedCluster, sample_turns: SampleTurns
) -> None:
    core = cluster.core
    samples = sample_turns(lambda: (len(core.topics), len(core.image.topics)))
    with Wire(core.brokers[1].port) as wire:
        topics = tuple(new_topic(f"t{number}") for number in range(MANY))
        created = wire.request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
        assert [topic.error_code for topic in created.topics] == [0] * MANY
        assert len(samples) > 3 * MANY
        assert set(samples) == {(0, 0), (MANY, MANY)}
        samples.clear()
        deletions = tuple(DeleteTopicState(name=f"t{number}") for number in range(MANY))
        deleted = wire.request(DeleteTopicsRequest(topics=deletions, timeout_ms=1000), 6)
        assert [response.error_code for response in deleted.responses] == [0] * MANY
        assert len(samples) > 2 * MANY
        assert set(samples) == {(0, 0), (MANY, MANY)}


def test_partitions_of_a_request_are_created_atomically(cluster: EmbeddedCluster, sample_turns: SampleTurns) -> None:
    core = cluster.core
    cluster.call(lambda: core.create_topic("t", partitions=1))
    samples = sample_turns(lambda: (len(core.topics["t"].partitions), core.image.topics["t"].partitions))
    with Wire(core.brokers[1].port) as wire:
        growth = CreatePartitionsTopic(name="t", count=900, assignments=None)
        grown = wire.request(CreatePartitionsRequest(topics=(growth,), timeout_ms=1000), 3)
        assert grown.results[0].error_code == ErrorCode.NONE
    assert len(samples) > 4
    assert set(samples) == {(1, 1), (900, 900)}


def test_topic_records_are_encoded_in_turns(
    cluster: EmbeddedCluster, sample_turns: SampleTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Encoding 10,000 topics took 0.4 s in one turn."""
    core = cluster.core
    encoded = encoded_by(monkeypatch)
    samples = sample_turns(lambda: len(encoded))
    with Wire(core.brokers[1].port) as wire:
        topics = (new_topic("large", 900), *(new_topic(f"t{number}") for number in range(MANY)))
        wire.request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
        growth = CreatePartitionsTopic(name="t0", count=900, assignments=None)
        wire.request(CreatePartitionsRequest(topics=(growth,), timeout_ms=1000), 3)
        deletions = tuple(DeleteTopicState(name=topic.name) for topic in topics)
        wire.request(DeleteTopicsRequest(topics=deletions, timeout_ms=1000), 6)
    assert not core.topics
    records = 900 + MANY + 899 + 2 * len(topics)
    assert len(encoded) == (0 if core.data is None else records)
    assert max(later - earlier for earlier, later in itertools.pairwise([*samples, len(encoded)])) <= 200


@pytest.mark.parametrize("times", [1, 10_000], ids=["once", "in each turn"])
def test_leader_changes_while_topics_are_encoded_are_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short_turns: None, times: int
) -> None:
    with EmbeddedCluster(brokers=2, properties=QUICK, data=tmp_path) as cluster:
        core = cluster.core
        original = metadata.MetadataBatch.add
        original_next = turns.Turns._next
        changes: list[int] = []
        encoded = [0]

        def add(self: metadata.MetadataBatch, record: Message) -> None:
            original(self, record)
            encoded[0] += bool(core.controller.changes.pending)

        def next_turn(self: turns.Turns) -> None:
            before = encoded[0]
            original_next(self)
            if encoded[0] > before and core.controller.changes.pending and len(changes) < times:
                changes.append(encoded[0])
                change = core.broker_control.fence if core.brokers[2].alive else core.broker_control.unfence
                change(2)

        monkeypatch.setattr(metadata.MetadataBatch, "add", add)
        monkeypatch.setattr(turns.Turns, "_next", next_turn)

        def check(why: str) -> None:
            assert_metadata_log_is_complete(core)
            assert changes, why
            changes.clear()

        with Wire(core.brokers[1].port) as wire:
            topics = tuple(CreatableTopic(name=f"t{n}", num_partitions=2, replication_factor=2) for n in range(10))
            created = wire.request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
            assert {topic.error_code for topic in created.topics} == {ErrorCode.NONE}
            cluster.call(lambda: check("created"))
            growth = CreatePartitionsTopic(
                name="t0",
                count=250,
                assignments=tuple(CreatePartitionsAssignment(broker_ids=(2, 1)) for _ in range(248)),
            )
            grown = wire.request(CreatePartitionsRequest(topics=(growth,), timeout_ms=1000), 3)
            assert grown.results[0].error_code == ErrorCode.NONE
            cluster.call(lambda: check("grown"))
            wire.request(DeleteTopicsRequest(topics=(DeleteTopicState(name="t0"),), timeout_ms=1000), 6)
            cluster.call(lambda: check("deleted"))
            had = set(core.topics)
        assert core.failure_count == 0
    with EmbeddedCluster(brokers=2, properties=QUICK, data=tmp_path) as again:
        assert set(again.core.topics) == had
        assert again.core.start_notes == ()


def test_a_broker_paused_during_a_request_sends_the_response_after_it_resumes(
    cluster: EmbeddedCluster, sample_turns: SampleTurns
) -> None:
    core = cluster.core
    frozen = sample_turns(lambda: core.topics or core.brokers[1].freeze(True))
    with Wire(core.brokers[1].port) as wire:
        wire.send(
            CreateTopicsRequest(topics=tuple(new_topic(f"t{number}") for number in range(MANY)), timeout_ms=1000), 7
        )
        eventually(lambda: cluster.call(lambda: any(connection._held for connection in core.brokers[1].connections)))
        assert frozen
        wire.socket.setblocking(False)
        with pytest.raises(BlockingIOError):
            wire.socket.recv(1)
        wire.socket.settimeout(10)
        cluster.call(lambda: core.brokers[1].freeze(False))
        wire.receive(CreateTopicsRequest, 7)


def test_topics_use_broker_configs_that_change_during_their_creation(
    cluster: EmbeddedCluster, sample_turns: SampleTurns
) -> None:
    core = cluster.core
    changes = iter([lambda: core.change_configs(ConfigResourceType.BROKER, "", {"message.max.bytes": "1234"})])
    sample_turns(lambda: core.logs._configured and not core.topics and next(changes, lambda: None)())
    with Wire(core.brokers[1].port) as wire:
        topics = tuple(new_topic(f"t{number}") for number in range(MANY))
        wire.request(CreateTopicsRequest(topics=topics, timeout_ms=1000), 7)
    assert not list(changes)
    assert {topic.partitions[0].log.config.max_message_bytes for topic in core.topics.values()} == {1234}


def test_a_name_is_reserved_as_soon_as_a_request_creates_it(cluster: EmbeddedCluster) -> None:
    """Two concurrent requests, as in Kafka's controller, which handles one after another."""
    with Wire(cluster.core.brokers[1].port) as first_wire, Wire(cluster.core.brokers[1].port) as second_wire:
        request = CreateTopicsRequest(topics=tuple(new_topic(f"a.{number}") for number in range(MANY)), timeout_ms=1000)
        first_wire.send(request, 7)
        second_wire.send(replace_names(request), 7)
        first = [topic.error_code for topic in first_wire.receive(CreateTopicsRequest, 7).topics]
        second = [topic.error_code for topic in second_wire.receive(CreateTopicsRequest, 7).topics]
    # Names that differ only in "." and "_" collide in metrics: one topic of each pair is created.
    assert sorted([first, second]) == [[0] * MANY, [ErrorCode.INVALID_TOPIC_EXCEPTION] * MANY]
    assert len(cluster.core.topics) == MANY


def replace_names(request: CreateTopicsRequest) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(new_topic(topic.name.replace(".", "_")) for topic in request.topics), timeout_ms=request.timeout_ms
    )


def test_topics_created_by_metadata_are_created_atomically(cluster: EmbeddedCluster, sample_turns: SampleTurns) -> None:
    """Creating 18,000 topics one by one took more than half a minute."""
    core = cluster.core
    samples = sample_turns(lambda: len(core.topics))
    requested = (*(MetadataRequestTopic(name=f"t{number}") for number in range(MANY)), MetadataRequestTopic(name="t.1"))
    with Wire(core.brokers[1].port) as wire:
        reported = wire.request(MetadataRequest(topics=requested), 9)
    assert {topic.error_code for topic in reported.topics} == {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}
    assert len(samples) > 2 * MANY
    assert set(samples) == {0, MANY + 1}


def test_requests_that_arrive_together_are_served_in_turns(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch, sample_turns: SampleTurns
) -> None:
    """10,000 AlterConfigs requests in one TCP segment took more than half a minute in one turn."""
    monkeypatch.setattr(connection, "_SERVED_S", -1)
    samples = sample_turns(lambda: None)
    with Wire(cluster.core.brokers[1].port) as wire:
        together, real = bytearray(), wire.socket
        wire.socket = SimpleNamespace(sendall=together.extend)  # type: ignore[assignment]
        for _ in range(MANY):
            wire.send(MetadataRequest(topics=()), 12)
        wire.socket = real
        wire.socket.sendall(together)
        last = wire.correlation_id
        for wire.correlation_id in range(1, last + 1):
            wire.receive(MetadataRequest, 12)
    assert len(samples) >= MANY - 2


def test_coordinators_share_the_computed_changes_of_metadata(
    cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 17,000 topics, each coordinator took 25 ms when a broker stopped."""
    core = cluster.core
    cluster.call(lambda: core.internal_topic("__consumer_offsets"))
    for group_id in ("g", "h", "i", "j"):
        context = RequestContext(api_version=1, now_ms=cluster.call(core.clock.now_ms))
        request = replace(next(iter(heartbeats(ConsumerGroupHeartbeatRequest, 1))), group_id=group_id)
        cluster.call(
            lambda request=request, context=context: core.groups.request(1, request.group_id, request, context)
        )
    assert len(core.groups.runtimes()) > 1
    deltas = []
    between = MetadataDelta.between

    def counted(old: MetadataImage, new: MetadataImage) -> MetadataDelta:
        deltas.append(between(old, new))
        return deltas[-1]

    monkeypatch.setattr(MetadataDelta, "between", counted)
    cluster.call(lambda: core.create_topic("t0", partitions=1))
    assert [delta.created for delta in deltas] == [{"t0"}]


def test_configs_of_many_topics_are_written_in_turns(
    cluster: EmbeddedCluster, sample_turns: SampleTurns, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Comparing configs of 10,000 topics took 0.2 s in one turn."""
    core = cluster.core
    for number in range(MANY):
        cluster.call(lambda number=number: core.create_topic(f"t{number}", partitions=1))
    encoded = encoded_by(monkeypatch)
    samples = sample_turns(lambda: len(encoded))
    config = alter_configs.AlterableConfig(name="retention.ms", value="1234")
    with Wire(core.brokers[1].port) as wire:
        resources = tuple(
            alter_configs.AlterConfigsResource(resource_type=2, resource_name=f"t{number}", configs=(config,))
            for number in range(MANY)
        )
        response = wire.request(AlterConfigsRequest(resources=resources), 1)
    assert {resource.error_code for resource in response.responses} == {0}
    assert len(encoded) == (0 if core.data is None else MANY)
    assert max(later - earlier for earlier, later in itertools.pairwise([*samples, len(encoded)])) <= 1
    if core.data is not None:
        assert_metadata_log_is_complete(core)


@pytest.mark.usefixtures("short_turns")
def test_a_stopping_cluster_creates_all_topics_of_a_request_or_none() -> None:
    cluster = EmbeddedCluster(properties=QUICK)
    core = cluster.core
    with cluster, Wire(core.brokers[1].port) as wire:
        wire.send(
            CreateTopicsRequest(topics=tuple(new_topic(f"t{number}") for number in range(500)), timeout_ms=1000), 7
        )
        eventually(lambda: core.turns._waiting or core.topics)
    assert len(core.topics) in (0, 500)
    assert not core.controller.changes.pending
