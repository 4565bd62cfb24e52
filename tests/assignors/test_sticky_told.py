"""User data that are read from all members of a `sticky` group at once mean what they mean one by one."""

from random import Random

import numpy as np
import pytest

from quorate.assignors import GroupSpec, Member, Topic, Topology
from quorate.assignors.sticky import StickyAssignor, ownership, told
from quorate.codecs.messages import ProtocolTopicPartition, StickyAssignorUserData
from quorate.codecs.sticky_user_data import encode_sticky_user_data

NAMES = ("t", "orders", "orders-2", "a.rather.long.name.of.a.topic", "grün", "緑", "gone", "weg-ü", "gaps", "")
TOPICS = [Topic(name=name, partitions=5) for name in NAMES[:6]] + [Topic(name="gaps", partitions=2, numbers=[0, 3])]


def data(rng):
    """What a member sends: mostly what Java clients write, sometimes something else."""
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


def crowd(seed, members=60):
    rng = Random(seed)
    names = [topic.name for topic in TOPICS]
    owning = {"owned": [("t", 1)], "generation": 3}
    return GroupSpec(
        {
            f"m{number}": Member(topics=names, user_data=data(rng), **(owning if rng.random() < 0.2 else {}))
            for number in range(members)
        },
        Topology(TOPICS),
    )


def claims(group):
    found = ownership.sticky_claims(group)
    topics = group.topology.topics
    total = int(group.topology.first[-1])
    ghosts = found.ghost_topics.tolist()
    return (
        found.member.tolist(),
        # Numbers of partitions that are not there are given as they come.
        [one if one < total else ("not there", topics[ghosts[one - total]].name) for one in found.number.tolist()],
        found.generation.tolist(),
        found.subscription_generation.tolist(),
    )


@pytest.mark.parametrize("seed", range(40))
def test_all_at_once_as_one_by_one(monkeypatch, seed):
    group = crowd(seed)
    monkeypatch.setattr(ownership, "FEW", 10**6)
    one_by_one = claims(group)
    monkeypatch.setattr(ownership, "FEW", 0)
    for few in (1, 8, 32):
        monkeypatch.setattr(told, "FEW", few)
        assert claims(group) == one_by_one
    together = told.read_together(group.user_data, group.topology)
    assert 0 < np.count_nonzero(together.read) < len(group)


def test_names_whose_hashes_meet_are_told_apart(monkeypatch):
    group = crowd(1)
    expected = claims(group)
    monkeypatch.setattr(told, "_MIX", np.uint64(0))
    assert claims(group) == expected
    assert told.read_together(group.user_data, group.topology).read.any()


def test_what_java_clients_write_is_read_at_once():
    topology = Topology.of({f"topic{number}": 40 for number in range(20)})
    members = {f"m{number}": Member(topics=list(topology.index)) for number in range(200)}
    assignment = StickyAssignor().assign(members, topology)
    sent = [StickyAssignor.subscription_user_data(assignment[member], 7) for member in members]
    together = told.read_together(sent, topology)
    assert together.read.all()
    assert set(together.generation.tolist()) == {7}
    assert np.array_equal(np.bincount(together.member), assignment.counts)
    assert sorted(together.number.tolist()) == list(range(800))


@pytest.mark.parametrize("sent", [[], [None], [b""], [b"\x00" * 7], [b"\x7f\xff\xff\xff\x00\x00\x00\x00"] * 50])
def test_next_to_nothing_is_left_to_be_read_one_by_one(sent):
    together = told.read_together(sent, Topology.of({"t": 1}))
    assert not together.read.any()
    assert len(together.member) == 0
