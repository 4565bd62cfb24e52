"""Owners of partitions, compared with dictionaries, and values that members share after a load."""

from dataclasses import replace
from random import Random
from uuid import uuid4

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import TopicPartitions
from quorate.codecs.wire import TaggedField
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.state import ConsumerGroup
from quorate.coordinator.state.groups import ReplayError
from quorate.coordinator.state.partition_epochs import LISTED, PartitionEpochs
from quorate.coordinator.state.sharing import share_equal_values
from tests.coordinator.consumer.test_consumer_properties import Watched, described
from tests.coordinator.consumer_scripts import History
from tests.coordinator.single_records import Log, T, U
from tests.extent import portion

PARTITIONS = st.integers(0, 9) | st.sampled_from([-1, LISTED - 1, LISTED, 0x7FFFFFFF])
TOPICS = st.lists(
    st.builds(
        TopicPartitions, topic_id=st.sampled_from([T, U]), partitions=st.lists(PARTITIONS, max_size=4).map(tuple)
    ),
    max_size=3,
)


@given(steps=st.lists(st.tuples(st.booleans(), TOPICS, st.integers(-2, 4)), max_size=20))
@settings(max_examples=portion(300))
def test_owners_are_those_of_a_dictionary(steps: list[tuple[bool, list[TopicPartitions], int]]) -> None:
    found = PartitionEpochs()
    expected: dict[tuple[Uuid, int], int] = {}
    for takes, topics, epoch in steps:
        error = None
        for topic, partition in [(one.topic_id, number) for one in topics for number in one.partitions]:
            owner = expected.get((topic, partition))
            if not takes:
                if owner == epoch:
                    del expected[topic, partition]
            elif owner is not None and owner >= epoch:
                error = f"partition {topic}-{partition} is assigned at epoch {epoch}, but its owner has epoch {owner}"
                break
            else:
                expected[topic, partition] = epoch
        if error is not None:
            with pytest.raises(ReplayError, match=error):
                found.take(topics, epoch)
        elif takes:
            found.take(topics, epoch)
        else:
            found.release(topics, epoch)
        listed = {(topic, number): one for topic, epochs in found.by_topic().items() for number, one in epochs.items()}
        assert listed == expected
        assert {key: found.get(*key) for key in expected} == expected
        assert found.get(T, 5) == expected.get((T, 5))


def test_free_partitions_take_no_memory() -> None:
    epochs = PartitionEpochs()
    topics = [TopicPartitions(topic_id=T, partitions=(7, 500, LISTED, 0))]
    epochs.take(topics, 3)
    epochs.release([TopicPartitions(topic_id=T, partitions=(500,))], 3)
    assert len(epochs._topics[T]) == 8
    epochs.release(topics, 3)
    assert not epochs._topics
    assert not epochs._far


@pytest.mark.parametrize("seed", range(3))
def test_a_load_changes_no_value(seed: int) -> None:
    watched = Watched()
    History(Random(seed), watched).run(80)
    state = watched.side.shard.state
    before = described(state)
    for group in state.groups.values():
        if isinstance(group, ConsumerGroup):
            share_equal_values(group)
    assert described(state) == before


def test_a_load_shares_equal_values() -> None:
    log = Log()
    log.group_at(1_000)
    tags = (TaggedField(tag=5, data=b"x"),)
    for name, partition in (("a", 300), ("b", 301)):
        topic = TopicPartitions(topic_id=T, partitions=(partition,), assignment_epochs=(int("999"),))
        log.current(name, int("1000"), partition)
        value = replace(log.current_value(int("1000")), assigned_partitions=(topic, replace(topic, topic_id=U)))
        log.write("CurrentMemberAssignment", value, "g", name)
    tagged = replace(log.group.members["b"].assigned_partitions[0], unknown_tags=tags)
    object.__setattr__(log.group.members["b"], "assigned_partitions", (tagged,))
    one, other = (log.group.members[name] for name in "ab")
    assert one.epoch is not other.epoch
    share_equal_values(log.group)
    assert one.epoch is other.epoch
    assert one.epoch is log.group.partition_epochs.get(T, 300)
    first, second = one.assigned_partitions
    assert first.partitions is second.partitions
    assert first.assignment_epochs is second.assignment_epochs
    assert other.assigned_partitions == (tagged,)


def test_a_coordinator_shares_equal_values_when_it_is_loaded() -> None:
    log = Log()
    log.group_at(1_000)
    for name, partition in (("a", 1), ("b", 2)):
        log.current(name, int("1000"), partition)
    shard = GroupCoordinatorShard(new_id=uuid4)
    shard.state.groups["g"] = log.group
    shard.loaded(0)
    one, other = (log.group.members[name] for name in "ab")
    assert one.epoch is other.epoch
