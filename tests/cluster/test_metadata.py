"""Records of `__cluster_metadata`: bytes and back, and states that differences lead to."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.cluster.scram import Credential
from quorate.cluster.storage.metadata_state import (
    BrokerFacts,
    MetadataState,
    PartitionFacts,
    TopicFacts,
    difference,
)
from quorate.codecs import DecodeError, Uuid
from quorate.codecs.metadata_records import ConfigRecord, UnknownMetadata, decode_metadata, encode_metadata

VERSIONS = {
    "RegisterBrokerRecord": 3,
    "PartitionRecord": 1,
    "PartitionChangeRecord": 1,
    "BrokerRegistrationChangeRecord": 2,
}

texts = st.text(st.characters(codec="utf-8"), min_size=1, max_size=5)
settings_ = st.dictionaries(texts, texts, max_size=3)
uuids = st.binary(min_size=16, max_size=16).map(Uuid)
ids = st.lists(st.integers(0, 9), min_size=1, max_size=3, unique=True).map(tuple)
partitions = st.builds(
    PartitionFacts, replicas=ids, in_sync=ids, leader=st.integers(-1, 9), leader_epoch=st.integers(0, 5)
)
topics = st.builds(TopicFacts, name=texts, partitions=st.lists(partitions, max_size=4), config=settings_)
brokers = st.builds(
    BrokerFacts, rack=st.none() | texts, host=texts, port=st.integers(0, 65535), directory=uuids, fenced=st.booleans()
)


credentials = st.builds(
    Credential,
    salt=st.binary(max_size=3),
    stored_key=st.binary(max_size=3),
    server_key=st.binary(max_size=3),
    iterations=st.integers(4096, 16384),
)


quotas = st.dictionaries(texts, st.floats(allow_nan=False), min_size=1, max_size=2)


@st.composite
def states(draw: st.DrawFn) -> MetadataState:
    named = {topic.name: topic for topic in draw(st.lists(topics, max_size=4))}
    return MetadataState(
        features=draw(st.dictionaries(texts, st.integers(1, 9), max_size=2)),
        brokers=draw(st.dictionaries(st.integers(0, 9), brokers, max_size=3)),
        topics={draw(uuids): topic for topic in named.values()},
        groups=draw(st.dictionaries(texts, settings_.filter(bool), max_size=2)),
        next_producer_id=draw(st.integers(0, 9)),
        quotas=draw(
            st.dictionaries(st.frozensets(st.tuples(texts, st.none() | texts), min_size=1), quotas, max_size=2)
        ),
        credentials=draw(st.dictionaries(st.tuples(texts, st.integers(1, 2)), credentials, max_size=3)),
    )


def without_epochs(state: MetadataState) -> MetadataState:
    return replace(state, brokers={number: replace(one, epoch=-1) for number, one in state.brokers.items()})


@given(first=states(), second=states(), data=st.data())
def test_the_difference_of_two_states_leads_from_one_to_the_other_through_bytes(
    first: MetadataState, second: MetadataState, data: st.DataObject
) -> None:
    for topic_id in first.topics:
        second.topics.pop(topic_id, None)  # ids are not used again
        if data.draw(st.booleans(), label="goes on"):
            topic = first.topics[topic_id]
            if topic.name in {one.name for one in second.topics.values()}:
                continue
            more = [*topic.partitions, *data.draw(st.lists(partitions, max_size=2))]
            changed = [replace(one, leader_epoch=one.leader_epoch + data.draw(st.integers(0, 2))) for one in more]
            second.topics[topic_id] = TopicFacts(topic.name, changed, data.draw(settings_))
    state = MetadataState()
    offset = 0
    for wanted in (first, second):
        records = list(difference(state, wanted, offset))
        for record in records:
            read = decode_metadata(encode_metadata(record, VERSIONS.get(type(record).__name__, 0)))
            assert read == record
            state.apply(read, offset)
            offset += 1
        assert without_epochs(state) == without_epochs(wanted)
        assert not list(difference(state, wanted, offset))


def test_what_is_not_declared_comes_back_as_bytes_and_what_is_cut_off_is_refused() -> None:
    data = encode_metadata(ConfigRecord(resource_type=2, resource_name="t", name="a", value=None), 0)
    assert decode_metadata(bytes((1, 99, 0)) + b"rest") == UnknownMetadata(99, 0, bytes((1, 99, 0)) + b"rest")
    assert decode_metadata(bytes((1, 4, 7)) + data[3:]) == UnknownMetadata(4, 7, bytes((1, 4, 7)) + data[3:])
    for damaged in (b"", b"\x01", b"\x02" + data[1:], data[:-3]):
        with pytest.raises(DecodeError):
            decode_metadata(damaged)
