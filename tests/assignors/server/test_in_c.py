"""Server-side assignors in C give the same as in Python, for random small groups.

The Python is compared with arrays in `test_server_few`, and with Kafka's in
`test_server_differential`.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.assignors import AssignorError, GroupSpec, Member, Topic, Topology, small_groups
from quorate.assignors.server import ServerRangeAssignor, UniformAssignor, homogeneous
from quorate.assignors.server.assignor import KafkaServerAssignor
from quorate.assignors.server.homogeneous_few import FewMembers, assign_in_c, assign_lists
from quorate.codecs import Uuid, extension
from quorate.codecs.releases import KafkaVersion
from tests.extent import portion

pytestmark = pytest.mark.skipif(extension.extension() is None, reason="installed without a compiler")


@contextmanager
def replaced(functions: Any, range_: Any) -> Iterator[None]:
    """Replace what assigns in C: `uniform` is a function of the module, `range` is a method."""
    before = extension._extension, small_groups._small_groups
    extension._extension, small_groups._small_groups = functions, range_
    try:
        yield
    finally:
        extension._extension, small_groups._small_groups = before


def in_python() -> AbstractContextManager[None]:
    return replaced(None, None)


class Used:
    """Something in C that assigns; `found`: its results."""

    def __init__(self, native: Any, found: list[Any]) -> None:
        self.native = native
        self.found = found

    def __getattr__(self, name: str) -> Any:
        def call(*args: Any) -> Any:
            self.found.append(getattr(self.native, name)(*args))
            return self.found[-1]

        return call


@pytest.fixture(scope="module")
def used() -> Iterator[Used]:
    used = Used(extension.extension(), [])
    with replaced(used, Used(small_groups.small_groups_in_c(), used.found)):
        yield used


def topic_id(rng: Random, number: int, kind: str) -> Uuid:
    """Return a topic id: random, or in the same bucket as others in small tables."""
    if kind == "equal hashes":
        return Uuid(rng.randbytes(8) * 2)
    if kind == "few buckets":  # in tables of 16; larger ones have more
        return Uuid(bytes(15) + bytes([number * 16 % 256 + number // 16 + 1]))
    if kind == "one bucket of 64" and number < 16:  # a tree, until the table has 128
        return Uuid(bytes(14) + (number * 64 + 1).to_bytes(2, "big"))
    return Uuid(rng.randbytes(16))


@st.composite
def groups(draw: st.DrawFn) -> GroupSpec:
    """Draw a small group with one subscription, and the previous targets of its members."""
    rng = Random(draw(st.integers(0, 1 << 32)))
    # With 12 or 24 keys, tables have another size in each JDK. `PATTERNS` crowd buckets of topics
    # with about 160 partitions.
    most, count = draw(st.sampled_from([(1, 40), (2, 12), (4, 24), (12, 20), (40, 5), (160, 4), (300, 2), (1, 120)]))
    kind = draw(st.sampled_from(["random", "random", "few buckets", "equal hashes", "one bucket of 64"]))
    topics = [
        Topic(name=f"t{number}", partitions=rng.choice([most, rng.randint(0, most)]), id=topic_id(rng, number, kind))
        for number in range(rng.choice([count, rng.randint(1, count)]))
    ]
    share = draw(st.sampled_from([1, 1, 0.7]))
    subscribed = [topic.name for topic in topics if rng.random() < share] or [topics[0].name]
    subscribed += draw(st.sampled_from([[], [], ["missing"], subscribed[:1]]))
    prefixes = draw(st.sampled_from(["m", "m", "m", "mé", "m\ue000\U00010000"]))
    numbers = rng.sample(range(draw(st.sampled_from([12, 100]))), draw(st.integers(1, 12)))
    ids = [f"{rng.choice(prefixes)}{number}" for number in numbers]
    owned = previous_targets(rng, topics, len(ids), draw(st.sampled_from(PATTERNS)))
    if draw(st.sampled_from([False, False, False, False, True])):
        owned[0].append(("deleted", 0))
    static, instances = draw(st.sampled_from([0, 0, 0.5])), draw(st.sampled_from([5, 1000]))
    members = {
        one: Member(
            topics=subscribed,
            owned=given,
            instance_id=f"i{rng.randrange(instances)}" if rng.random() < static else None,
        )
        for one, given in zip(ids, owned, strict=True)
    }
    return GroupSpec(members, Topology(topics))


PATTERNS: list[Callable[[int], int]] = [
    lambda partition: partition,
    lambda partition: partition // 12,
    lambda partition: partition // 24,
    lambda partition: partition % 16,
]
"""Partition → who owns it, if that is a member."""


def previous_targets(
    rng: Random, topics: list[Topic], members: int, pattern: Callable[[int], int]
) -> list[list[tuple[str, int]]]:
    """Give partitions to members; some to none, a few to several."""
    owned: list[list[tuple[str, int]]] = [[] for _ in range(members)]
    free, others, several = rng.choice([0, 0, 0.1, 1]), rng.choice([0, 0, 0.1]), rng.choice([0] * 6 + [0.02])
    owners = rng.choice([members, (members + 2) // 3, 16])
    for topic in topics:
        if rng.random() < 0.1:
            continue
        for partition in range(topic.partitions):
            owner = pattern(partition) % owners if rng.random() >= others else rng.randrange(members)
            if owner >= members or rng.random() < free:
                continue
            owned[owner].append((topic.name, partition))
            if rng.random() < several:
                owned[rng.randrange(members)].append((topic.name, partition))
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

    @settings(max_examples=portion(4000, usual=200))
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
    assert in_c > total / 3


def test_members_of_a_coordinator_get_the_same_from_c_and_from_python(used: Used) -> None:
    in_c = total = 0

    @settings(max_examples=portion(4000, usual=200))
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
    assert in_c > total / 3
