"""The assignors of small groups in C give the same as those in Python, or leave a group to them.

Generated cases of Kafka's own classes are in `test_differential_client`, where the assignments in C
are used, too.
"""

from collections import ChainMap
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from quorate.assignors import Assignor, GroupSpec, Member, RangeAssignor, Topic, TopicPartition, Topology
from quorate.assignors.java_order.few import few_strings_in_order, is_crowded, spread_of
from quorate.assignors.small_groups import small_groups_in_c
from quorate.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from quorate.codecs import is_accelerated
from quorate.codecs.messages import ProtocolTopicPartition, StickyAssignorUserData
from quorate.codecs.releases import KafkaVersion
from quorate.codecs.sticky_user_data import encode_sticky_user_data
from tests.extent import portion

pytestmark = pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not installed: make .venv/.dev")

ASSIGNORS: dict[str, Callable[..., Any]] = {
    "range": RangeAssignor,
    "sticky": StickyAssignor,
    "cooperative-sticky": CooperativeStickyAssignor,
}
VERSIONS = (KafkaVersion.NEWEST, KafkaVersion(3, 6), KafkaVersion(3, 2))
# "Aa" and "BB" have the same hash, and so have sequences of them: of 16 keys, nine are a tree.
SAME_HASH = tuple(
    f"{a}{b}{c}{d}" for a in ("Aa", "BB") for b in ("Aa", "BB") for c in ("Aa", "BB") for d in ("Aa", "BB")
)
# Not ASCII; the last two sort differently by code points and by UTF-16 units. And a lone surrogate.
NOT_ASCII = ("gr\u00fcn", "m-\uff5e", "m-\U0001f680", "\ud83d")
NAMES = ("t1", "t10", "t2", "orders", "a.b", "Z", "", *SAME_HASH[:3])


def in_c(assignor: Any, members: Any, topology: Topology) -> list[tuple[int, ...]] | None:
    """Return the lists of an assignor in C; `None` if it leaves the group to Python."""
    native = small_groups_in_c()
    assert native is not None
    given = members, topology.index, topology.starts
    if isinstance(assignor, RangeAssignor):
        return native.range(*given)
    return native.sticky(*given, assignor.name == "cooperative-sticky", assignor.version >= KafkaVersion(3, 7))


def in_python(assignor: Assignor, members: Any, topology: Topology) -> list[list[TopicPartition]]:
    assigned = assignor.assign_group(GroupSpec(members, topology))
    return [[*assigned[member]] for member in members]


def compare(assignor: Any, members: dict[str, Member], topology: Topology) -> bool:
    """Compare C with Python; return whether C assigned."""
    lists = in_c(assignor, members, topology) if topology.is_plain else None
    expected = in_python(assignor, members, topology)
    if lists is not None:
        assert [[*topology.few_partitions(numbers)] for numbers in lists] == expected
    assert [[*given] for given in assignor.assign(members, topology).values()] == expected
    return lists is not None


# ---- groups that are assigned in C


@st.composite
def topologies(draw: st.DrawFn, gaps: bool = False, names: tuple[str, ...] = NAMES) -> Topology:
    topics = []
    for name in draw(st.lists(st.sampled_from(names), unique=True, max_size=8)):
        count = draw(st.integers(0, 9))
        numbers = tuple(range(1, count + 1)) if gaps and draw(st.booleans()) else None
        topics.append(Topic(name=name, partitions=count, numbers=numbers))
    return Topology(topics)


def pairs_of(topology: Topology) -> list[tuple[str, int]]:
    return [*topology.few_partitions(range(topology.partition_count))]


def user_data(owned: list[tuple[str, int]], version: int = 1) -> bytes:
    """Encode owned partitions in their order: equal topics that follow each other are one entry."""
    entries: list[tuple[str, list[int]]] = []
    for topic, partition in owned:
        if not entries or entries[-1][0] != topic:
            entries.append((topic, []))
        entries[-1][1].append(partition)
    previous = tuple(ProtocolTopicPartition(topic=topic, partitions=tuple(numbers)) for topic, numbers in entries)
    return encode_sticky_user_data(StickyAssignorUserData(previous_assignment=previous, generation=3), version)


@st.composite
def regular(draw: st.DrawFn) -> tuple[dict[str, Member], Topology]:
    """Return a group with one subscription whose members own different partitions, if any."""
    topology = draw(topologies())
    subscribed = draw(st.lists(st.sampled_from((*NAMES, "unknown", "gone")), unique=True))
    ids = draw(
        st.lists(st.sampled_from((*SAME_HASH[:4], "m", "m-1", "m-10", "M", "consumer-1-f0")), unique=True, min_size=1)
    )
    instances = draw(st.permutations(["", "i", "i1", "AaAa", "BBBB", *[None] * 6]))
    claimed = draw(st.permutations([*pairs_of(topology), ("gone", 0), ("t1", 99), ("t2", 2**70), ("gr\u00fcn", 1)]))
    claimed = claimed[: draw(st.integers(0, len(claimed)))]
    how = draw(st.sampled_from(("evenly", "one", "at random")))
    owned: dict[str, list[tuple[str, int]]] = {member: [] for member in ids}
    for number, pair in enumerate(claimed):
        taker = {"evenly": ids[number % len(ids)], "one": ids[-1], "at random": None}[how]
        owned[draw(st.sampled_from(ids)) if taker is None else taker].append(pair)
    members = {}
    for member, instance in zip(ids, [*instances, *[None] * len(ids)], strict=False):
        names = [bytes(name, "ascii").decode() for name in subscribed]  # equal, and other objects
        listed = draw(st.sampled_from((subscribed, tuple(subscribed), names)))
        data = draw(st.sampled_from((None, b"", "encoded")))
        mine = owned[member]
        if data == "encoded":
            data = user_data([(topic, min(partition, 99)) for topic, partition in mine if topic.isascii()])
            kept = []  # is ignored
        else:
            kept = draw(st.sampled_from((mine, tuple(TopicPartition(*pair) for pair in mine))))
        rack = draw(st.sampled_from((None, "")))
        members[member] = Member(
            topics=listed, rack=rack, instance_id=instance, owned=kept, generation=3, user_data=data
        )
    return members, topology


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=portion(200))
@given(group=regular())
def test_regular_groups_are_assigned_in_c_as_in_python(
    name: str, version: KafkaVersion, group: tuple[dict[str, Member], Topology]
) -> None:
    assert compare(ASSIGNORS[name](version=max(version, KafkaVersion(3, 5)) if name == "range" else version), *group)


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize(
    ("members", "topics"),
    [(1, 1), (700, 1), (1, 300), (400, 40), (3, 100), (1, 12), (1, 13), (1, 24), (1, 25), (1, 768), (1, 800)],
)
def test_larger_groups_are_assigned_in_c_as_in_python(name: str, members: int, topics: int) -> None:
    assignor = ASSIGNORS[name]()
    topology = Topology.of({f"topic-{number}": 1 + number % 5 * (topics < 200) for number in range(topics)})
    names = tuple(topology.index)
    group = {f"consumer-{number * 7919:x}": Member(topics=names) for number in range(members)}
    assert compare(assignor, group, topology)
    before = assignor.assign(group, topology)
    given = {member: Member(topics=names, owned=before[member], generation=1) for member in [*group][: -members // 8]}
    assert compare(assignor, given | {"new": Member(topics=names)}, topology)


# Names that share buckets of small tables: nine in one make a tree.
CROWDED = [name for name in (f"k{number}" for number in range(3000)) if spread_of(name) & 15 == 3][:40]


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@given(ids=st.lists(st.sampled_from([*CROWDED, *(f"m{number}" for number in range(30))]), unique=True, min_size=9))
@example(SAME_HASH[:8])
@example([*(f"m{number}" for number in range(4)), *CROWDED[:9]])  # crowded until the table grows
def test_members_whose_map_may_have_a_tree_are_left_to_python(name: str, ids: list[str]) -> None:
    topology = Topology.of({"t1": 2 * len(ids) + 5})
    pairs = pairs_of(topology)
    members = {one: Member(topics=("t1",), owned=pairs[3 * n : 3 * n + 3]) for n, one in enumerate(ids)}
    assert compare(ASSIGNORS[name](), members, topology) is not is_crowded([*map(spread_of, ids)])


@given(st.dictionaries(st.sampled_from([*CROWDED[:12], *(f"m{n}" for n in range(60))]), st.integers(-1, 2), min_size=5))
@example({f"m{number}": number % 3 - 1 for number in range(60)})
@example({name: int(name < "m") for name in [*CROWDED[:9], *(f"m{number}" for number in range(15))]})
def test_range_lists_topics_in_the_order_of_javas_maps(sizes: dict[str, int]) -> None:
    topology = Topology.of({name: size for name, size in sizes.items() if size >= 0})
    in_map = [name for name in few_strings_in_order([*sizes]) if sizes[name] > 0]  # from the set of all names
    is_tree = any(is_crowded([*map(spread_of, names)]) for names in (sizes, in_map))
    assert compare(RangeAssignor(), {"m": Member(topics=[*sizes])}, topology) is not is_tree
    twice = Member(topics=[*sizes, next(iter(sizes))])
    assert not compare(RangeAssignor(), {"m": twice}, topology)


# ---- groups of any kind


@st.composite
def odd(draw: st.DrawFn) -> tuple[dict[str, Member], Topology]:
    names = (*NAMES, *NOT_ASCII)
    topology = draw(topologies(gaps=draw(st.booleans()), names=names))
    # Any of these may be odd, but not often several of them.
    rarely = st.integers(0, 12).map(lambda number: number == 7)
    ids = draw(
        st.lists(st.sampled_from((*SAME_HASH, *NOT_ASCII, "m", "m-1", "m-10")), unique=True, min_size=1, max_size=14)
    )
    if not draw(rarely):
        ids = [member for member in ids if member.isascii()] or ["m"]
    common = draw(st.lists(st.sampled_from(names if draw(rarely) else NAMES), unique=not draw(rarely), max_size=9))
    if draw(rarely):
        common = [*common, *SAME_HASH]
    pairs = st.tuples(st.sampled_from(names), st.integers(-2, 9))
    disjoint = draw(st.permutations(pairs_of(topology)))
    members = {}
    for member in ids:
        topics: Any = common
        if draw(rarely):
            topics = draw(st.permutations(common)) if draw(st.booleans()) else common[1:]
        owned: Any = [disjoint.pop() for _ in range(min(len(disjoint), draw(st.integers(0, 4))))]
        if draw(rarely):
            owned += draw(st.lists(pairs, max_size=3))
        data = draw(st.sampled_from((None, None, b"", "encoded", "encoded", "older", "damaged", "longer", "other")))
        if isinstance(data, str):
            data = odd_user_data(data, owned, draw(st.integers(0, 40)))
        members[member] = Member(
            topics=topics,
            rack="a" if draw(rarely) else None,
            instance_id=draw(st.sampled_from(("i", "j", "\uff5e", "\U0001f680"))) if draw(rarely) else None,
            owned=owned,
            generation=draw(st.sampled_from((-1, 3, 4))),
            user_data=data,
        )
    return members, topology


def odd_user_data(kind: str, owned: list[tuple[str, int]], cut: int) -> bytes:
    if kind == "other":
        return (b"\x00\x00\x00\x01\xff\xff", b"\xff\xff\xff\xff", b"\x00\x00\x00\x01\x00\x01\xff" + bytes(8))[cut % 3]
    data = user_data([(topic.encode(errors="replace").decode(), number) for topic, number in owned], kind != "older")
    return {"damaged": data[:cut], "longer": data + bytes(cut)}.get(kind, data)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ASSIGNORS)
@settings(max_examples=portion(200))
@given(group=odd())
def test_odd_groups_get_the_same_assignment_with_and_without_c(
    name: str, version: KafkaVersion, group: tuple[dict[str, Member], Topology]
) -> None:
    compare(ASSIGNORS[name](version=max(version, KafkaVersion(3, 5)) if name == "range" else version), *group)


# ---- groups that are left to Python

TOPOLOGY = Topology.of({"t1": 4, "t2": 3})


class OwnMember(Member):
    """A member with attributes of its own."""

    __slots__ = ()


class OwnStr(str):
    """A name with methods of its own."""

    __slots__ = ()


class OwnTuple(tuple[Any, ...]):
    """A tuple with another iterator."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return iter(("t1", 0))


def group_of(*members: Member) -> dict[str, Member]:
    return {f"m{number}": member for number, member in enumerate(members)}


def owner(*owned: Any, **fields: Any) -> Member:
    return Member(topics=("t1",), owned=owned, **fields)


EMPTY = Member(topics=("t1",))
FOR_PYTHON: dict[str, Mapping[str, Member]] = {
    "no members": {},
    "another mapping": MappingProxyType(group_of(EMPTY)),
    "a chain of mappings": ChainMap(group_of(EMPTY)),
    "a subclass of Member": group_of(OwnMember(topics=("t1",))),
    "a member id that is not ASCII": {"gr\u00fcn": EMPTY},
    "a member id with a surrogate": {"\ud83d": EMPTY},
    "a member id of a subclass": {OwnStr("m"): EMPTY},
    "a rack": group_of(EMPTY, Member(topics=("t1",), rack="a")),
    "other topics": group_of(EMPTY, Member(topics=("t2",))),
    "more topics": group_of(EMPTY, Member(topics=("t1", "t2"))),
    "a topic that begins as another one": group_of(EMPTY, Member(topics=("t",))),
    "topics in another order": group_of(Member(topics=("t1", "t2")), Member(topics=("t2", "t1"))),
    "a topic listed twice": group_of(Member(topics=("t1", "t1"))),
    "a topic that is not ASCII": group_of(Member(topics=("gr\u00fcn",))),
    "a topic of a subclass": group_of(Member(topics=(OwnStr("t1"),))),
    "another sequence of topics": group_of(Member(topics=dict.fromkeys(("t1",)))),  # type: ignore[arg-type]
}
FOR_PYTHON_OF_RANGE: dict[str, Mapping[str, Member]] = {
    "a bucket of nine topics": group_of(Member(topics=SAME_HASH[:9])),
    "an instance id twice": group_of(*[Member(topics=("t1",), instance_id="i")] * 2),
    "an instance id that is not ASCII": group_of(Member(topics=("t1",), instance_id="gr\u00fcn")),
}
FOR_PYTHON_OF_STICKY: dict[str, Mapping[str, Member]] = {
    "a bucket of nine members": dict.fromkeys(SAME_HASH[:9], EMPTY),
    "a partition that two members own": group_of(owner(("t1", 0)), owner(("t1", 0))),
    "a partition that a member owns twice": group_of(owner(("t1", 0), ("t1", 0))),
    "a partition of another type": group_of(owner(("t1", True))),
    "a list as a partition": group_of(owner(["t1", 0])),
    "a tuple of another type": group_of(owner(OwnTuple(("t1", 1)))),
    "an owned topic of a subclass": group_of(owner((OwnStr("t1"), 0))),
    "an owned topic with a surrogate": group_of(owner(("\ud83d", 0))),
    "another sequence of partitions": group_of(Member(topics=("t1",), owned=dict.fromkeys([("t1", 0)]))),  # type: ignore[arg-type]
}
FOR_PYTHON_OF_EAGER: dict[str, Mapping[str, Member]] = {
    "user data of another type": group_of(owner(user_data=bytearray(user_data([("t1", 0)])))),  # type: ignore[arg-type]
    "older user data": group_of(owner(user_data=user_data([("t1", 0)], 0))),
    "longer user data": group_of(owner(user_data=user_data([("t1", 0)]) + b"\x00")),
    "shorter user data": group_of(owner(user_data=user_data([("t1", 0)])[:-1])),
    "user data of three bytes": group_of(owner(user_data=bytes(3))),
    "a negative number of topics": group_of(owner(user_data=b"\xff\xff\xff\xff" + bytes(4))),
    "a negative number of partitions": group_of(owner(user_data=b"\0\0\0\1\0\2t1\xff\xff\xff\xff" + bytes(4))),
    "more partitions than bytes": group_of(owner(user_data=b"\0\0\0\1\0\2t1\x7f\xff\xff\xff" + bytes(4))),
    "no bytes of a topic": group_of(owner(user_data=b"\0\0\0\1\0\x7ft1")),
    "a topic that is null": group_of(owner(user_data=b"\0\0\0\1\xff\xff" + bytes(8))),
    "a topic of a negative length": group_of(owner(user_data=b"\0\0\0\1\xff\xfa" + bytes(6))),
    "a topic that is not UTF-8": group_of(owner(user_data=b"\0\0\0\1\0\2\xff\xff" + bytes(8))),
    "claims of two members in user data": group_of(*[owner(user_data=user_data([("t1", 0)]))] * 2),
}
LEFT_TO_PYTHON = {
    "range": FOR_PYTHON | FOR_PYTHON_OF_RANGE,
    "sticky": FOR_PYTHON | FOR_PYTHON_OF_STICKY | FOR_PYTHON_OF_EAGER,
    "cooperative-sticky": FOR_PYTHON | FOR_PYTHON_OF_STICKY,
}


@pytest.mark.parametrize(("name", "what"), [(name, what) for name, groups in LEFT_TO_PYTHON.items() for what in groups])
def test_python_assigns_other_groups(name: str, what: str) -> None:
    assignor, members = ASSIGNORS[name](), LEFT_TO_PYTHON[name][what]
    assert in_c(assignor, members, TOPOLOGY) is None
    expected = in_python(assignor, members, TOPOLOGY)
    assert [[*given] for given in assignor.assign(members, TOPOLOGY).values()] == expected


@pytest.mark.parametrize("name", ASSIGNORS)
def test_python_assigns_topics_with_gaps_and_names_of_a_subclass(name: str) -> None:
    gap = Topology([Topic(name="t1", partitions=2, numbers=(0, 2))])
    own = Topology([Topic(name=OwnStr("t1"), partitions=2)])
    assert not gap.is_plain
    assert not own.is_plain
    members = group_of(owner(("t1", 2)), owner(("t1", 1)))
    for topology in (gap, own):
        compare(ASSIGNORS[name](), members, topology)


@pytest.mark.parametrize("name", ASSIGNORS)
def test_python_assigns_groups_that_are_too_large(name: str) -> None:
    topology = Topology.of({"t1": 1001, "t2": 1})
    assert in_c(ASSIGNORS[name](), group_of(EMPTY), topology) is None
    assert in_c(ASSIGNORS[name](), group_of(*[EMPTY] * 1001), TOPOLOGY) is None
    many = Member(topics=[f"unknown{number}" for number in range(1001)])
    assert in_c(ASSIGNORS[name](), group_of(many), TOPOLOGY) is None
    small = group_of(Member(topics=("t2",)))
    assert in_c(ASSIGNORS[name](), small, topology) is None  # the number of the partition is too large
    assert in_python(ASSIGNORS[name](), small, topology) == [[("t2", 0)]]


@pytest.mark.parametrize("name", ASSIGNORS)
def test_a_member_without_fields_is_left_to_python(name: str) -> None:
    unset = group_of(object.__new__(Member))
    assert in_c(ASSIGNORS[name](), unset, TOPOLOGY) is None
    with pytest.raises(AttributeError):
        ASSIGNORS[name]().assign(unset, TOPOLOGY)


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
@pytest.mark.parametrize("wrong", [(), ("t1",), ("t1", 0, 0)])
def test_a_tuple_that_is_no_partition_is_left_to_python(name: str, wrong: tuple[Any, ...]) -> None:
    members = group_of(owner(("t1", 1), wrong))
    assert in_c(ASSIGNORS[name](), members, TOPOLOGY) is None
    with pytest.raises(ValueError, match="unpack"):
        ASSIGNORS[name]().assign(members, TOPOLOGY)


@pytest.mark.parametrize("cls", ASSIGNORS.values())
def test_a_subclass_of_an_assignor_assigns_itself(cls: Any) -> None:
    class Reversed(cls):  # type: ignore[misc]
        def assign_group(self, group: GroupSpec, **options: Any) -> Any:
            raise LookupError(f"{len(group)} members")

    with pytest.raises(LookupError, match="1 members"):
        Reversed().assign(group_of(EMPTY), TOPOLOGY)


def test_wrong_arguments_are_errors() -> None:
    native: Any = small_groups_in_c()
    for wrong in ((), ({}, {}), ({}, {}, [0], True)):
        with pytest.raises(TypeError, match=f"expected 3 arguments, got {len(wrong)}"):
            native.range(*wrong)
        with pytest.raises(TypeError, match=f"expected 5 arguments, got {len(wrong)}"):
            native.sticky(*wrong)
    with pytest.raises(TypeError, match="no slot topics"):
        type(native)(Topic, TopicPartition)
