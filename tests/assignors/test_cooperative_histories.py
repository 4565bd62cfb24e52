"""Cooperative rebalancing (KIP-429) with `cooperative-sticky` over histories: safe, and it ends."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors import GroupSpec, Member, Topology
from quorate.assignors.adapters.leader import hold_back
from quorate.assignors.sticky import CooperativeStickyAssignor
from tests.assignors.client_differential import kafka, ours
from tests.assignors.read_cases import read_case

RACKS = ("a", "b", "c")
SETTLED_AFTER = 12

randoms = st.randoms(use_true_random=False)


@dataclass
class Consumer:
    """A member between rebalances."""

    topics: Sequence[str]
    rack: str | None = None
    owned: Sequence[tuple[str, int]] = ()
    generation: int = -1


@dataclass
class Play:
    """A group and its history.

    `away`: members that miss rebalances and return with their old partitions; none without `stale`.
    `careful`: apply what adapters add to every cooperative assignor.
    """

    topics: dict[str, list[list[str]]]
    consumers: dict[str, Consumer]
    generation: int = 0
    away: dict[str, Consumer] = field(default_factory=dict)
    stale: bool = True
    careful: bool = False

    def rebalance(self) -> bool:
        """Rebalance once; return whether a member revoked a partition."""
        members = {
            name: Member(topics=one.topics, rack=one.rack, owned=one.owned, generation=one.generation)
            for name, one in self.consumers.items()
        }
        group = GroupSpec(members, Topology.of(self.topics))
        assignment = CooperativeStickyAssignor().assign_group(group)
        if self.careful:
            assignment = hold_back(assignment, group)
        self.check_safe(assignment)
        again = any(set(one.owned) - set(assignment[name]) for name, one in self.consumers.items())
        self.generation += 1
        for name, one in self.consumers.items():
            one.owned, one.generation = assignment[name], self.generation
        return again

    def check_safe(self, assignment: Mapping[str, Sequence[tuple[str, int]]]) -> None:
        """Check that no partition is assigned while another member owns it.

        A member that missed the last rebalance has lost its partitions, whatever it claims.
        """
        holder = {
            partition: name
            for name, one in self.consumers.items()
            if one.generation == self.generation
            for partition in one.owned
        }
        given_to: dict[tuple[str, int], str] = {}
        for name, partitions in assignment.items():
            for partition in partitions:
                assert partition not in given_to, f"{partition} has two owners"
                given_to[partition] = name
                assert holder.get(partition, name) == name, (
                    f"{name} gets {partition}, which {holder[partition]} still has"
                )
                assert partition[0] in self.consumers[name].topics

    def settle(self) -> int:
        """Rebalance until no member revokes a partition; return the number of rebalances."""
        for times in range(1, SETTLED_AFTER + 1):
            if not self.rebalance():
                self.check_settled()
                return times
        raise AssertionError(f"not converged after {SETTLED_AFTER} rebalances: {self}")

    def check_settled(self) -> None:
        """Check that subscribed partitions have owners, and counts are balanced if they can be."""
        subscribed = {topic for consumer in self.consumers.values() for topic in consumer.topics}
        wanted = {(topic, number) for topic in subscribed for number in range(len(self.topics.get(topic, ())))}
        assert {partition for consumer in self.consumers.values() for partition in consumer.owned} == wanted
        if len({frozenset(consumer.topics) for consumer in self.consumers.values()}) == 1:
            sizes = [len(consumer.owned) for consumer in self.consumers.values()]
            assert max(sizes) - min(sizes) <= 1

    def change(self, rng: Random, *, same: bool) -> None:
        """Make a change that causes a rebalance."""
        names = list(self.consumers)
        match rng.randrange(6):
            case 0:
                for _ in range(rng.randint(1, 3)):
                    like = self.consumers[rng.choice(names)]
                    self.consumers[f"m{rng.randrange(10**6)}"] = Consumer(like.topics, like.rack)
            case 1 if len(names) > 1:
                del self.consumers[rng.choice(names)]
            case 2 if len(names) > 1 and self.stale:
                name = rng.choice(names)
                self.away[name] = self.consumers.pop(name)
            case 3 if self.away:
                name = rng.choice(list(self.away))
                self.consumers[name] = self.away.pop(name)
            case 4:
                topic = rng.choice(list(self.topics))
                self.topics[topic].append(rng.choice(self.topics[topic]))
            case _:
                chosen = rng.sample(list(self.topics), rng.randint(1, len(self.topics)))
                for consumer in (
                    [*self.consumers.values(), *self.away.values()] if same else [self.consumers[rng.choice(names)]]
                ):
                    consumer.topics = chosen


def played(rng: Random, *, same: bool, racks: bool, stale: bool = True, careful: bool = False) -> Play:
    topics = {
        f"t{number}": [rng.sample(RACKS, rng.randint(1, 2)) if racks else [] for _ in range(rng.randint(1, 8))]
        for number in range(rng.randint(1, 4))
    }
    names = list(topics)
    return Play(
        topics,
        {
            f"m{number}": Consumer(
                names if same else rng.sample(names, rng.randint(1, len(names))),
                rng.choice((*RACKS, None)) if racks else None,
            )
            for number in range(rng.randint(1, 7))
        },
        stale=stale,
        careful=careful,
    )


@given(randoms, st.booleans())
def test_groups_with_equal_subscriptions_converge_safely(rng, racks):
    play = played(rng, same=True, racks=racks)
    for _ in range(6):
        assert play.settle() <= 3
        play.change(rng, same=True)


@given(randoms, st.booleans())
def test_groups_with_different_subscriptions_converge_safely(rng, stale):
    """Members of older generations need the check of the adapters: see below."""
    play = played(rng, same=False, racks=False, stale=stale, careful=stale)
    for _ in range(6):
        play.settle()
        play.change(rng, same=False)


@given(randoms)
def test_groups_with_different_subscriptions_and_racks_are_safe(rng):
    """They may not converge: see below."""
    play = played(rng, same=False, racks=True, stale=False)
    for _ in range(12):
        play.rebalance()
        play.change(rng, same=False)


@given(randoms)
def test_members_may_request_a_rebalance_during_another(rng):
    play = played(rng, same=True, racks=False)
    for _ in range(8):
        play.rebalance()
        play.change(rng, same=True)
    play.settle()


def test_the_second_rebalance_assigns_partitions_revoked_in_the_first():
    play = Play({"t": [[]] * 6}, {"m0": Consumer(["t"]), "m1": Consumer(["t"])})
    assert play.settle() == 1
    play.consumers["m2"] = Consumer(["t"])
    assert play.rebalance()
    assert [len(consumer.owned) for consumer in play.consumers.values()] == [2, 2, 0]
    assert not play.rebalance()
    assert [len(consumer.owned) for consumer in play.consumers.values()] == [2, 2, 2]


@pytest.mark.oracle
def test_a_former_owner_may_get_its_partition_back_while_another_member_owns_it(oracle):
    """KIP-429 forbids it, but Kafka counts claims of any generation; adapters withhold it."""
    case = {
        "op": "clientAssign",
        "assignor": "cooperative-sticky",
        "partitions": [{"topic": "t", "partition": number} for number in range(4)],
        "consumers": {
            "owner": {"topics": ["t"], "ownedPartitions": [f"t-{number}" for number in range(4)], "generationId": 5},
            "former": {"topics": ["t", "u"], "ownedPartitions": ["t-0"], "generationId": 4},
        },
    }
    assert "t-0" in kafka(oracle, case)["assignment"]["former"]
    assert ours(case) == kafka(oracle, case)
    group = GroupSpec(*read_case(case))
    held_back = hold_back(CooperativeStickyAssignor().assign_group(group), group)
    assert ("t", 0) not in held_back["former"]


@pytest.mark.oracle
def test_with_racks_and_different_subscriptions_kafkas_assignor_may_never_converge(oracle):
    """Two partitions alternate between members for ever; our result is the same."""
    topics = {"t0": "bac", "t1": "b", "t2": "cbccbbb"}
    consumers = {"m0": (["t0", "t2"], "a"), "m1": (["t2", "t0", "t1"], None), "m2": (["t2", "t0", "t1"], "b")}
    play = Play(
        {topic: [[rack] for rack in racks] for topic, racks in topics.items()},
        {name: Consumer(subscribed, rack) for name, (subscribed, rack) in consumers.items()},
    )
    seen = []
    for _ in range(8):
        sent = {
            name: {
                "topics": list(one.topics),
                "ownedPartitions": [f"{topic}-{number}" for topic, number in one.owned],
                "generationId": one.generation,
                "rackId": one.rack,
            }
            for name, one in play.consumers.items()
        }
        partitions = [
            {"topic": topic, "partition": number, "racks": [rack]}
            for topic, racks in topics.items()
            for number, rack in enumerate(racks)
        ]
        theirs = kafka(
            oracle,
            {"op": "clientAssign", "assignor": "cooperative-sticky", "partitions": partitions, "consumers": sent},
        )
        play.rebalance()
        now = {name: [f"{topic}-{number}" for topic, number in one.owned] for name, one in play.consumers.items()}
        assert now == theirs["assignment"]
        seen.append(now)
    assert seen[-1] == seen[-3] == seen[-5] != seen[-2] == seen[-4]


@pytest.mark.parametrize("generation", [-1, 3])
def test_claims_of_an_older_generation_do_not_count_against_the_owner(generation):
    members = {
        "a": Member(topics=["t"], owned=[("t", 0), ("t", 1)], generation=4),
        "old": Member(topics=["t"], owned=[("t", 0), ("t", 1)], generation=generation),
    }
    assignment = CooperativeStickyAssignor().assign(members, Topology.of({"t": 2}))
    assert (assignment["a"], assignment["old"]) == ((("t", 0),), ())
