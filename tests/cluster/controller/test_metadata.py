"""Records of `__cluster_metadata`: encoding, decoding and replay."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cluster.controller.records import (
    config_records,
    credential_record,
    feature_records,
    quota_records,
    registration_record,
    snapshot,
    topic_records,
)
from quorate.cluster.controller.state import BrokerRegistration, ClusterState
from quorate.cluster.scram import Credential
from quorate.cluster.topics import PartitionState, TopicState
from quorate.codecs import DecodeError, Uuid
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.message import Message
from quorate.codecs.metadata_records import (
    ConfigRecord,
    PartitionChangeRecord,
    ProducerIdsRecord,
    RemoveTopicRecord,
    UnknownMetadata,
    UnregisterBrokerRecord,
    decode_metadata,
    encode_metadata,
)

VERSIONS = {
    "RegisterBrokerRecord": 3,
    "PartitionRecord": 1,
    "PartitionChangeRecord": 1,
    "BrokerRegistrationChangeRecord": 2,
}

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
configs = st.dictionaries(texts, texts, max_size=3)
uuids = st.binary(min_size=16, max_size=16).map(Uuid)
ids = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(tuple)
levels = st.dictionaries(texts, st.integers(1, 9), max_size=2)
quotas = st.dictionaries(texts, st.floats(allow_nan=False), min_size=1, max_size=2)
entities = st.frozensets(st.tuples(texts, st.none() | texts), min_size=1)
credentials = st.builds(
    Credential,
    salt=st.binary(max_size=3),
    stored_key=st.binary(max_size=3),
    server_key=st.binary(max_size=3),
    iterations=st.integers(4096, 16384),
)
brokers = st.builds(
    BrokerRegistration,
    id=st.integers(0, 9),
    rack=st.none() | texts,
    host=texts,
    port=st.integers(0, 65535),
    directory=uuids,
    fenced=st.booleans(),
    epoch=st.integers(0, 99),
)


def through_bytes(records: list[Message]) -> list[Message]:
    read = [decode_metadata(encode_metadata(record, VERSIONS.get(type(record).__name__, 0))) for record in records]
    assert read == records
    return read  # type: ignore[return-value]


def replayed(records: list[Message], state: ClusterState | None = None) -> ClusterState:
    state = state or ClusterState()
    for record in through_bytes(records):
        state.replay(record)
    return state


def snapshot_of(state: ClusterState) -> list[Message]:
    return list(snapshot(state))


@given(data=st.data())
def test_a_decoded_snapshot_replays_to_the_same_state(data: st.DataObject) -> None:
    draw = data.draw
    records: list[Message] = list(feature_records({}, draw(levels)))
    registered = {one.id: one for one in draw(st.lists(brokers, max_size=3))}
    records += map(registration_record, registered.values())
    names = draw(st.lists(texts, max_size=4, unique=True))
    for name, topic_id in zip(names, draw(st.lists(uuids, min_size=4, max_size=4, unique=True)), strict=False):
        topic = TopicState(name, topic_id, [], draw(configs))
        topic.partitions = [
            PartitionState(name, index, draw(ids), draw(ids), draw(st.integers(-1, 9)), draw(st.integers(0, 5)))
            for index in range(draw(st.integers(0, 3)))
        ]
        records += topic_records(topic, registered)
    for group, config in draw(st.dictionaries(texts, configs, max_size=2)).items():
        records += config_records(ConfigResourceType.GROUP, group, {}, config)
    for entity, values in draw(st.dictionaries(entities, quotas, max_size=2)).items():
        records += quota_records(entity, {}, values)
    for (user, mechanism), one in draw(
        st.dictionaries(st.tuples(texts, st.integers(1, 2)), credentials, max_size=3)
    ).items():
        records.append(credential_record(user, mechanism, one))
    records.append(ProducerIdsRecord(broker_id=min(registered, default=0), next_producer_id=draw(st.integers(1, 9))))
    state = replayed(records)
    assert snapshot_of(state) == sorted(records, key=snapshot_of(state).index)
    assert snapshot_of(replayed(snapshot_of(state))) == snapshot_of(state)
    assert state.partition_count == sum(len(topic.partitions) for topic in state.topics.values())


@given(levels, levels, configs, configs, quotas, quotas)
def test_the_records_of_a_change_replay_to_the_new_state(
    old_levels: dict[str, int],
    new_levels: dict[str, int],
    old: dict[str, str],
    new: dict[str, str],
    old_quotas: dict[str, float],
    new_quotas: dict[str, float],
) -> None:
    entity = frozenset({("user", None)})
    state = replayed(
        [
            *feature_records({}, old_levels),
            *config_records(ConfigResourceType.GROUP, "g", {}, old),
            *quota_records(entity, {}, old_quotas),
        ]
    )
    changes = [
        *feature_records(old_levels, new_levels),
        *config_records(ConfigResourceType.GROUP, "g", old, new),
        *quota_records(entity, old_quotas, new_quotas),
    ]
    replayed(changes, state)
    assert (state.features, state.group_configs.get("g", {}), state.quotas[entity]) == (new_levels, new, new_quotas)
    delta = state.take_delta()
    assert delta.group_configs == ({"g"} if old or new else set())
    assert delta.features is bool(old_levels or new_levels)


def test_partition_change_records_are_replayed_until_the_topic_is_removed() -> None:
    topic_id = Uuid(b"t" * 16)
    topic = TopicState("a.b", topic_id, [PartitionState("a.b", 0, (1, 2), (1, 2), 1, 4)])
    state = replayed(list(topic_records(topic, {})))
    assert state.same_metric_name("a_b") == {"a.b"}
    assert state.take_delta().topics == {topic_id: state.topics["a.b"]}
    (partition,) = state.topics["a.b"].partitions
    replayed([PartitionChangeRecord(partition_id=0, topic_id=topic_id, isr=(2,), leader=2)], state)
    assert (partition.replicas, partition.in_sync, partition.leader, partition.leader_epoch) == ((1, 2), (2,), 2, 5)
    delta = state.take_delta()
    assert (list(delta.led), list(delta.topics)) == ([topic_id], [])
    replayed([PartitionChangeRecord(partition_id=0, topic_id=topic_id, replicas=(2, 3))], state)
    assert (partition.replicas, partition.in_sync, partition.leader, partition.leader_epoch) == ((2, 3), (2,), 2, 5)
    replayed(
        [ConfigRecord(resource_type=ConfigResourceType.TOPIC, resource_name="a.b", name="retention.ms", value="1")],
        state,
    )
    assert state.topics["a.b"].config == {"retention.ms": "1"}
    assert state.has(partition)
    state.take_delta()
    replayed([RemoveTopicRecord(topic_id=topic_id)], state)
    assert (state.topics, state.topics_by_id, state.partition_count) == ({}, {}, 0)
    assert not state.same_metric_name("a_b")
    assert not state.has(partition)
    (removed,) = state.take_delta().removed
    assert removed.partitions == [partition]
    for record in (
        RemoveTopicRecord(topic_id=topic_id),
        PartitionChangeRecord(partition_id=0, topic_id=topic_id, leader=1),
        UnregisterBrokerRecord(broker_id=1, broker_epoch=0),
    ):
        with pytest.raises(KeyError):
            state.replay(record)


def test_unknown_records_are_decoded_as_bytes_and_truncated_ones_are_rejected() -> None:
    data = encode_metadata(ConfigRecord(resource_type=2, resource_name="t", name="a", value=None), 0)
    assert decode_metadata(bytes((1, 99, 0)) + b"rest") == UnknownMetadata(99, 0, bytes((1, 99, 0)) + b"rest")
    assert decode_metadata(bytes((1, 4, 7)) + data[3:]) == UnknownMetadata(4, 7, bytes((1, 4, 7)) + data[3:])
    for damaged in (b"", b"\x01", b"\x02" + data[1:], data[:-3]):
        with pytest.raises(DecodeError):
            decode_metadata(damaged)
