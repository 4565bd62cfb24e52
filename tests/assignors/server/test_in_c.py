"""Server-side assignors in C give the same as in Python, for random small groups.

The Python is compared with arrays in `test_server_few`, and with Kafka's in
`test_server_differential`.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors import AssignorError, GroupSpec, Member, Topic, Topology
from quorate.assignors.server import ServerRangeAssignor, UniformAssignor, homogeneous
from quorate.assignors.server.assignor import KafkaServerAssignor
from quorate.assignors.server.homogeneous_few import FewMembers, assign_in_c, assign_lists
from quorate.codecs import Uuid, extension
from quorate.codecs.releases import KafkaVersion
from tests.extent import portion

pytestmark = pytest.mark.skipif(extension.extension() is None, reason="installed without a compiler")


@contextmanager
def in_python() -> Iterator[None]:
    native, extension._extension = extension._extension, None
    try:
        yield
    finally:
        extension._extension = native


class Used:
    """The accelerator; `found`: results of its assignors."""

    def __init__(self) -> None:
        self.native = extension.extension()
        self.found: list[Any] = []

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.found.append(getattr(self.native, name)(*args))
            return self.found[-1]

        return call


@pytest.fixture(scope="module")
def used() -> Iterator[Used]:
    used = Used()
    extension._extension = used
    yield used
    extension._extension = used.native


def topic_id(rng: Random, number: int, kind: str) -> Uuid:
    """Return a topic id: random, or in the same bucket as others in small tables."""
    if kind == "equal hashes":
        return Uuid(rng.randbytes(8) * 2)
    if kind == "few buckets":
        return Uuid(bytes(7) + bytes([number % 3]) + bytes(6) + bytes([number, 0]))
    return Uuid(rng.randbytes(16))


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    """Draw a small group with one subscription, and the previous targets of its members."""
    rng = Random(draw(st.integers(0, 1 << 32)))
    sizes = draw(st.lists(st.integers(0, draw(st.sampled_from([1, 3, 12, 40, 300]))), min_size=1, max_size=40))
    kind = draw(st.sampled_from(["random", "random", "random", "few buckets", "equal hashes"]))
    topics = [
        Topic(name=f"t{number}", partitions=size, id=topic_id(rng, number, kind)) for number, size in enumerate(sizes)
    ]
    share = draw(st.sampled_from([1, 1, 0.7]))
    subscribed = [topic.name for topic in topics if rng.random() < share] or [topics[0].name]
    subscribed += draw(st.sampled_from([[], [], ["missing"], subscribed[:1]]))
    count = draw(st.integers(1, 12))
    ids = {"m": range(count), "é\ue000" if rng.random() < 0.1 else "é": rng.sample(range(1000), count)}
    prefix = draw(st.sampled_from([*ids]))
    owned = previous_targets(rng, topics, [[] for _ in range(count)], draw(st.sampled_from([1, 1, 16])))
    if draw(st.sampled_from([False, False, False, False, True])):
        owned[0].append(("deleted", 0))
    static = draw(st.sampled_from([0, 0, 0.5]))
    members = {
        f"{prefix}{number}": Member(
            topics=subscribed,
            owned=given,
            instance_id=f"i{rng.randrange(1000)}" if rng.random() < static else None,
        )
        for number, given in zip(ids[prefix], owned, strict=True)
    }
    return GroupSpec(members, Topology(topics))


def previous_targets(
    rng: Random, topics: list[Topic], owned: list[list[tuple[str, int]]], step: int
) -> list[list[tuple[str, int]]]:
    """Give partitions to members, perhaps in stripes of `step`; some to none, a few to several."""
    free, several = rng.choice([0, 0.1, 1]), rng.choice([0, 0, 0, 0, 0.02])
    owners = len(owned) if rng.random() < 0.6 else (len(owned) + 2) // 3
    for topic in topics:
        if rng.random() < 0.1:
            continue
        for partition in range(topic.partitions):
            if rng.random() < free:
                continue
            owner = partition // step % owners if rng.random() < 0.9 else rng.randrange(len(owned))
            owned[owner].append((topic.name, partition))
            if rng.random() < several:
                owned[rng.randrange(len(owned))].append((topic.name, partition))
    if rng.random() < 0.5:
        for each in owned:
            rng.shuffle(each)
    return owned


def outcome(assignor: KafkaServerAssignor, group: GroupSpec) -> object:
    """Return who changes, in this order, and the new targets; or the error."""
    fresh = GroupSpec(group.members, group.topology)
    try:
        target = assignor.target(fresh)
    except AssignorError as error:
        return str(error)
    return target.changed.tolist(), [target.assignment.numbers(member).tolist() for member in fresh.member_ids]


VERSIONS = [KafkaVersion.NEWEST, KafkaVersion(4, 0, 0)]


@pytest.mark.parametrize("cls", [UniformAssignor, ServerRangeAssignor])
def test_c_and_python_give_the_same(cls: Any, used: Used) -> None:
    in_c = total = 0

    @settings(max_examples=portion(4000, usual=60))
    @given(groups(), st.sampled_from(VERSIONS), st.sampled_from([17, 21]))
    def same(group: GroupSpec, version: KafkaVersion, jdk: int) -> None:
        nonlocal in_c, total
        if group.size > homogeneous.FEW:
            return
        assignor = cls(version=version, jdk=jdk)
        used.found.clear()
        found = outcome(assignor, group)
        total += 1
        in_c += used.found[-1:] not in ([], [None])
        with in_python():
            assert found == outcome(assignor, group)

    same()
    assert in_c > total / 2


def test_members_of_a_coordinator_get_the_same_from_c_and_from_python(used: Used) -> None:
    in_c = total = 0

    @settings(max_examples=portion(4000, usual=60))
    @given(groups(), st.booleans(), st.sampled_from([17, 21]))
    def same(group: GroupSpec, stable: bool, jdk: int) -> None:
        nonlocal in_c, total
        few = homogeneous._few_members(group, jdk)
        if len(set(group.listings[0]) & group.topology.index.keys()) < len(group.topology):
            return  # the coordinator's topics are all subscribed to
        counts = [few.counts[member] for member in few.order]
        previous = [group.owned_lists[member] for member in few.order]
        if any(-1 in numbers for numbers in previous):
            return
        own = FewMembers(
            few.topics,
            few.subscribed,
            range(len(counts)),
            counts,
            counts,
            few.unowned.copy(),
            few.total,
            lambda place: homogeneous.previous_of(group, jdk, few.order[place]),
        )
        found = assign_in_c(few.topics, counts, few.unowned, previous.__getitem__, jdk, stable=stable)
        total += 1
        if found is not None:
            in_c += 1
            assert [(member, [*target]) for member, target in found] == assign_lists(own, jdk, stable=stable)

    same()
    assert in_c > total / 2
