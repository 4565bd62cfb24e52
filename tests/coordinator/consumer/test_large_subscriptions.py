"""Subscriptions of many topics: the order of Kafka's maps, and the cost (issue 14)."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors.java_order import JavaHashSet, TimelineMap
from quorate.codecs import Uuid
from quorate.coordinator.share import subscriptions
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.share import ShareGroup
from tests.coordinator.scripts import Duel
from tests.oracle.client import Oracle

Counts = TimelineMap[str, tuple[int, int]]


@pytest.mark.parametrize("seed", range(4))
def test_random_subscriptions_of_many_topics_equal_kafkas(oracle: Oracle, seed: int) -> None:
    """Records of share groups have the order of Kafka's map of all names, most of them unknown."""
    random = Random(seed)
    duel = Duel(oracle, note=f"seed {seed}")
    duel.op("config", **{"group.share.assignment.interval.ms": 0, "group.consumer.assignment.interval.ms": 0})
    names = [f"topic{number}" for number in range(700)]
    epochs = {"m1": 0, "m2": 0, "m3": 0}
    kinds = {"ShareGroupHeartbeat": "s", "ConsumerGroupHeartbeat": "c"}
    known = dict.fromkeys(kinds.values(), epochs)
    for step in range(10):
        existing = random.sample(names, random.choice((1, 3, 20, 60)))
        ids = [str(Uuid((step * 1_000 + number + 1).to_bytes(16, "big"))) for number in range(len(existing))]
        topics = [{"name": name, "id": one, "partitions": 2} for name, one in zip(existing, ids, strict=True)]
        duel.op("image", brokers=[{"id": 0}], topics=topics)
        for api, group in kinds.items():
            member = random.choice(list(epochs))
            chosen = random.sample(names, random.choice((0, 200, 385, 500, 700)))
            joins = known[group][member] == 0
            more = {"rebalanceTimeoutMs": 1_000, "topicPartitions": []} if api.startswith("Consumer") else {}
            found = duel.request(
                api,
                groupId=group,
                memberId=member,
                memberEpoch=known[group][member],
                subscribedTopicNames=chosen,
                **(more if joins else {}),
            )
            epoch = found["response"]["memberEpoch"] if not found["response"]["errorCode"] else 0
            known = {**known, group: {**known[group], member: epoch}}


@given(st.randoms(use_true_random=False))
def test_bulk_count_of_topics_equals_counting_each(random: Random) -> None:
    consumers, share = ConsumerGroup("g"), ShareGroup("s")
    expected: Counts = TimelineMap()
    expected_share: TimelineMap[str, int] = TimelineMap()
    subscribed: dict[str, tuple[str, ...]] = {}
    for _ in range(12):
        member = random.choice("mno")
        before = subscribed.get(member, ())
        names = tuple(f"t{number}" for number in random.sample(range(120), random.choice((0, 3, 40, 90))))
        after = random.choice((before, before[1:], (*before[:20], *names), names))
        subscribed[member] = after
        consumers._count(consumers.recount_names(before, after))
        count_each(expected, before, after)
        share._recount(before, after)
        count_each_as_share_groups_do(expected_share, before, after)
        assert list(consumers.topic_subscribers.items()) == list(expected.items())
        assert consumers.topic_subscribers.slots == expected.slots
        assert list(share.topic_subscribers.items()) == list(expected_share.items())
        assert share.topic_subscribers.slots == expected_share.slots


def count_each(counts: Counts, old: tuple[str, ...], new: tuple[str, ...]) -> None:
    for change, names, others in ((-1, old, new), (1, new, old)):
        for name in dict.fromkeys(names):
            if name not in others:
                count = counts.get(name, (0, 0))[0] + change
                if count > 0:
                    counts[name] = count, 0
                else:
                    counts.pop(name, None)


def count_each_as_share_groups_do(counts: TimelineMap[str, int], old: tuple[str, ...], new: tuple[str, ...]) -> None:
    for name in JavaHashSet.of(old):
        if counts[name] > 1:
            counts[name] -= 1
        else:
            del counts[name]
    for name in JavaHashSet.of(new):
        counts[name] = counts.get(name, 0) + 1


@given(st.randoms(use_true_random=False), st.sampled_from([17, 21]))
def test_selected_topics_of_a_share_group_are_in_map_order(random: Random, jdk: int) -> None:
    group = ShareGroup("s")
    first, other, new = (
        tuple(f"t{number}" for number in random.sample(range(900), random.choice((0, 190, 193, 384, 386, 700))))
        for _ in range(3)
    )
    group._recount((), first)
    group._recount((), other)
    size = len(subscriptions.subscribers(group, first, new))
    ordered = list(subscriptions._counted(group, first, new, jdk))
    assert size == len(ordered)
    some = set(random.sample(ordered, min(size, 4)))
    found = subscriptions.in_map_order(group, first, new, some, size=size, jdk=jdk)
    assert found == [name for name in ordered if name in some]
