"""The optimized order of partitions equals that of Java's maps, step by step."""

from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, copied_map_capacity
from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import TopicPartition
from quorate.coordinator.consumer.owned import Order, as_target, copied_set, grown_map, topics_in_order

MAPS = Order(jdk=17)
numbers = st.one_of(st.integers(0, 60), st.integers(0, 5).map(lambda number: number * 16), st.integers(0, 200_000))
partitions = st.lists(numbers, unique=True, max_size=40)


def java_order(given_keys: list[int], capacity: int | None = None) -> list[int]:
    made: JavaHashMap[int, None] = JavaHashMap(capacity)
    for key in given_keys:
        made.put(key, None)
    return list(made)


@given(partitions)
def test_maps_and_sets_are_those_of_java(keys: list[int]) -> None:
    copied = java_order(keys, copied_map_capacity(len(keys)) if keys else None)
    assert list(grown_map(keys)) == java_order(keys)
    assert list(MAPS.copied(keys)) == copied
    assert list(copied_set(keys, 17)) == list(JavaHashSet.of(keys))


@given(partitions, st.data())
def test_copy_with_removed_and_added_partitions_is_that_of_java(before: list[int], data: st.DataObject) -> None:
    kept = [one for one in before if data.draw(st.booleans())]
    added = [one for one in data.draw(partitions) if one not in before]
    made: JavaHashMap[int, None] = JavaHashMap(copied_map_capacity(len(before)) if before else None)
    for key in before:
        made.put(key, None)
    for key in before:
        if key not in kept:
            made.remove(key)
    for key in added:
        made.put(key, None)
    assert list(MAPS.kept_and_added(before, kept, added)) == list(made)


@given(st.lists(st.binary(min_size=16, max_size=16).map(Uuid), unique=True, max_size=30))
def test_topics_are_in_the_order_of_javas_map(topic_ids: list[Uuid]) -> None:
    made: JavaHashSet[Uuid] = JavaHashSet()
    for topic_id in topic_ids:
        made.add(topic_id)
    assert topics_in_order(topic_ids) == list(made)


def test_records_are_read_into_maps_of_maps_and_targets_into_maps_of_sets() -> None:
    topic_id = Uuid(bytes(16))
    listed = tuple(range(11, 23))
    # Twelve elements fill a map of 16 buckets to its limit; a set copied from it has 32.
    assert list(MAPS.loaded({topic_id: dict.fromkeys(listed, 5)})[topic_id]) == [*range(16, 23), *range(11, 16)]
    target = as_target([TopicPartition(topic_id=topic_id, partitions=listed)], 17)
    assert list(target[topic_id]) == list(listed)
