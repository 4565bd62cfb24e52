"""Decoding the user data of all `sticky` members at once equals decoding it one by one."""

from random import Random

import numpy as np
import pytest

from quorate.assignors import GroupSpec, Member, Topic, Topology
from quorate.assignors.sticky import StickyAssignor, ownership, user_data_batch
from quorate.codecs.messages import ProtocolTopicPartition, StickyAssignorUserData
from quorate.codecs.sticky_user_data import encode_sticky_user_data

NAMES = ("t", "orders", "orders-2", "a.rather.long.name.of.a.topic", "grün", "緑", "gone", "weg-ü", "gaps", "", "t\0")
TOPICS = [Topic(name=name, partitions=5) for name in NAMES[:6]] + [Topic(name="gaps", partitions=2, numbers=[0, 3])]


def user_data(rng):
    """Return a member's user data: mostly what Java clients write, sometimes something else."""
    entries = [
        ProtocolTopicPartition(
            topic=rng.choice(NAMES if rng.random() < 0.2 else NAMES[:4]),
            partitions=tuple(rng.choices(range(5), k=rng.randint(0, 3))) + ((7,) if rng.random() < 0.02 else ()),
        )
        for _ in range(rng.choice((0, 1, 2, 2, 3, 40)))
    ]
    message = StickyAssignorUserData(previous_assignment=tuple(entries), generation=rng.randint(-1, 4))
    whole = encode_sticky_user_data(message, 0 if rng.random() < 0.05 else 1)
    match rng.randrange(12):
        case 0:
            return None
        case 1:
            return whole[: rng.randrange(len(whole) + 1)]
        case 2:
            return whole + bytes(rng.randint(1, 9))
        case 3:
            changed = bytearray(whole)
            changed[rng.randrange(len(changed))] = rng.choice((0, 1, 4, 127, 128, 255))
            return bytes(changed)
    return whole


def group_with_user_data(seed, members=60):
    rng = Random(seed)
    names = [topic.name for topic in TOPICS]
    owned = {"owned": [("t", 1)], "generation": 3}
    return GroupSpec(
        {
            f"m{number}": Member(topics=names, user_data=user_data(rng), **(owned if rng.random() < 0.2 else {}))
            for number in range(members)
        },
        Topology(TOPICS),
    )


def claims(group):
    found = ownership.sticky_claims(group)
    topics = group.topology.topics
    total = int(group.topology.first[-1])
    missing = found.missing_topics.tolist()
    return (
        found.member.tolist(),
        # Partitions that do not exist have numbers in order of appearance.
        [one if one < total else ("missing", topics[missing[one - total]].name) for one in found.number.tolist()],
        found.generation.tolist(),
        found.subscription_generation.tolist(),
    )


@pytest.mark.parametrize("seed", range(40))
def test_batch_equals_one_by_one(monkeypatch, seed):
    group = group_with_user_data(seed)
    monkeypatch.setattr(ownership, "MIN_BATCH", 10**6)
    one_by_one = claims(group)
    monkeypatch.setattr(ownership, "MIN_BATCH", 0)
    for size in (1, 8, 32):
        monkeypatch.setattr(user_data_batch, "MIN_BATCH", size)
        assert claims(group) == one_by_one
    decoded = user_data_batch.decode_user_data(group.user_data, group.topology)
    assert 0 < np.count_nonzero(decoded.complete) < len(group)


def test_names_with_colliding_hashes_are_distinguished(monkeypatch):
    group = group_with_user_data(1)
    expected = claims(group)
    monkeypatch.setattr(user_data_batch, "_MIX", np.uint64(0))
    assert claims(group) == expected
    assert user_data_batch.decode_user_data(group.user_data, group.topology).complete.any()


def test_user_data_of_java_clients_is_decoded_in_the_batch():
    topology = Topology.of({f"topic{number}": 40 for number in range(20)} | {"for-few-members": 10})
    members = {f"m{number}": Member(topics=list(topology.index)) for number in range(200)}
    assignment = StickyAssignor().assign(members, topology)
    sent = [StickyAssignor.subscription_user_data(assignment[member], 7) for member in members]
    decoded = user_data_batch.decode_user_data(sent, topology)
    assert decoded.complete.all()
    assert set(decoded.generation.tolist()) == {7}
    assert np.array_equal(np.bincount(decoded.member), assignment.counts)
    assert sorted(decoded.number.tolist()) == list(range(810))


@pytest.mark.parametrize("sent", [[], [None], [b""], [b"\x00" * 7], [b"\x7f\xff\xff\xff\x00\x00\x00\x00"] * 50])
def test_short_or_damaged_user_data_is_left_out_of_the_batch(sent):
    decoded = user_data_batch.decode_user_data(sent, Topology.of({"t": 1}))
    assert not decoded.complete.any()
    assert len(decoded.member) == 0
