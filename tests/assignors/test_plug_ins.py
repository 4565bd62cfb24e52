"""Server-side assignors that are plug-ins: what they see, and what is accepted from them."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.assignors import (
    Assignment,
    Assignor,
    AssignorError,
    GroupSpec,
    Member,
    RackAwareUniformAssignor,
    ServerAssignor,
    SubscribedTopicDescriber,
    SubscriptionType,
    Topology,
    server_assignor,
)
from quorate.assignors.plug_ins import as_assignor, checked
from quorate.codecs import Uuid

T, U, GONE = (Uuid(bytes(15) + bytes([number])) for number in (1, 2, 9))
TOPOLOGY = Topology.of({"t": [["a", "b"], ["b", None], []], "u": 2}, ids={"t": T, "u": U})
MEMBERS = {
    "m1": Member(topics=["t"], rack="a", owned=[("t", 2), ("t", 0), ("gone", 1)]),
    "m2": Member(topics=["t", "u", "missing"], instance_id="i", owned=[("u", 1)]),
}


@pytest.fixture
def group() -> GroupSpec:
    return GroupSpec(MEMBERS, TOPOLOGY)


class Fixed:
    """Returns what it was given."""

    name = "fixed"

    def __init__(self, result: Any = None) -> None:
        self.result = result

    def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber) -> Any:
        if isinstance(self.result, BaseException):
            raise self.result
        return self.result


def test_a_plug_in_sees_subscriptions_and_targets_by_topic_id(group: GroupSpec) -> None:
    first, second = (group.member_subscription(member_id) for member_id in group.member_ids)
    assert (first.rack_id, first.instance_id, first.subscribed_topic_ids) == ("a", None, {T})
    assert (second.rack_id, second.instance_id, second.subscribed_topic_ids) == (None, "i", {T, U})
    assert group.member_assignment("m1") == {T: [2, 0]}  # without the topic that does not exist
    assert group.member_assignment("m2") == {U: [1]}
    assert [group.is_partition_assigned(T, partition) for partition in range(4)] == [True, False, True, False]
    assert not group.is_partition_assigned(GONE, 0)
    assert group.subscription_type is SubscriptionType.HETEROGENEOUS
    with pytest.raises(KeyError):
        group.member_subscription("m3")


def test_a_group_with_other_targets_has_them_as_assigned(group: GroupSpec) -> None:
    assert group.is_partition_assigned(U, 1)
    changed = group.with_owned(Assignment.from_lists(TOPOLOGY, group.member_ids, [[1], []]))
    assert [changed.is_partition_assigned(T, partition) for partition in range(3)] == [False, True, False]
    assert not changed.is_partition_assigned(U, 1)
    assert changed.member_assignment("m1") == {T: [1]}


def test_a_describer_has_partitions_and_racks() -> None:
    describer = SubscribedTopicDescriber(TOPOLOGY)
    assert [describer.num_partitions(topic_id) for topic_id in (T, U, GONE)] == [3, 2, -1]
    assert [describer.racks_for_partition(T, partition) for partition in (0, 1, 2, 3, -1)] == [
        {"a", "b"}, {"b"}, set(), set(), set()
    ]  # fmt: skip
    assert describer.racks_for_partition(U, 0) == frozenset()  # no racks known
    assert describer.racks_for_partition(GONE, 0) == frozenset()


def test_topics_are_listed_in_the_order_given_with_ascending_partitions(group: GroupSpec) -> None:
    assigned = checked(as_assignor(Fixed({"m2": {U: {1, 0}, T: (2,)}, "m1": {T: [1, 0]}})), group)
    assert dict(assigned) == {"m1": (("t", 0), ("t", 1)), "m2": (("u", 0), ("u", 1), ("t", 2))}


def test_a_member_without_an_entry_gets_nothing_and_not_all_partitions_must_be_assigned(group: GroupSpec) -> None:
    assert dict(checked(as_assignor(Fixed({"m2": {T: range(1)}})), group)) == {"m1": (), "m2": (("t", 0),)}
    assert dict(checked(as_assignor(Fixed({})), group)) == {"m1": (), "m2": ()}


FAULTS = {
    "returned None": None,
    "returned a value of type list": [],
    "assigned partitions to 'm9', which is not a member of the group": {"m9": {}},
    "returned a value of type list for member m1": {"m1": [T]},
    f"assigned topic id {GONE} to member m1; no such topic is subscribed": {"m1": {GONE: [0]}},
    "assigned topic id 't' to member m1": {"m1": {"t": [0]}},
    "returned a value of type int for topic t of member m1": {"m1": {T: 1}},
    "returned a value of type str for topic t of member m1": {"m1": {T: "0"}},
    "returned '0' as a partition of topic t for member m1": {"m1": {T: ["0"]}},
    "assigned partition 3 of topic t to member m1; it has none": {"m1": {T: [3]}},
    "assigned partition -1 of topic t to member m1; it has none": {"m1": {T: [-1]}},
    "assigned partition a value of type int of topic t to member m1; it has none": {"m1": {T: [10**5000]}},
    "assigned t-1 to members m1 and m2": {"m1": {T: [1, 0]}, "m2": {T: [2, 1]}},
    "assigned t-1 to member m1 twice": {"m1": {T: [1, 1]}},
    "assigned u-0 to member m1, which does not subscribe to the topic": {"m1": {U: [0]}},
    "raised ValueError: no racks here": ValueError("no\nracks here"),
    "raised AssignorError: not today": AssignorError("not today"),
    "raised SystemExit": SystemExit(3),
    "raised RecursionError": RecursionError(),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_an_error_that_names_the_plug_in_and_the_fault(group: GroupSpec, fault: str) -> None:
    with pytest.raises(AssignorError) as raised:
        checked(as_assignor(Fixed(FAULTS[fault]), "mine:Fixed"), group)
    assert str(raised.value).startswith("assignor fixed (mine:Fixed) ")
    assert fault in str(raised.value)
    if isinstance(FAULTS[fault], BaseException):
        assert f"({__file__}, line " in str(raised.value)


def test_an_interrupt_is_no_fault_of_the_plug_in(group: GroupSpec) -> None:
    with pytest.raises(KeyboardInterrupt):
        checked(as_assignor(Fixed(KeyboardInterrupt())), group)


class Arrays(Assignor):
    name = "arrays"

    def __init__(self, lists: Any) -> None:
        self.lists = lists

    def assign_group(self, group: GroupSpec) -> Assignment:
        return Assignment.from_lists(group.topology, group.member_ids, self.lists)


def test_an_assignor_on_arrays_is_checked_as_well(group: GroupSpec) -> None:
    assert dict(checked(Arrays([[2, 0], [4]]), group)) == {"m1": (("t", 0), ("t", 2)), "m2": (("u", 1),)}
    for lists, fault in (
        ([[5], []], "a partition that does not exist"),
        ([[1], [1]], "t-1 to members m1 and m2"),
        ([[3], []], "u-0 to member m1, which does not subscribe"),
        (None, "raised TypeError"),
    ):
        with pytest.raises(AssignorError, match=f"assignor arrays .*{fault}"):
            checked(Arrays(lists), group)


def change_members(group: Any) -> None:
    group.members["m1"].owned.clear()
    group.members.clear()


CHANGES: dict[str, Any] = {
    "members": change_members,
    "member ids": lambda group: setattr(group, "member_ids", ()),
    "owned": lambda group: group.owned.fill(0),
    "hash order": lambda group: group.hash_order.fill(0),
    "subscriptions": lambda group: group.subscriptions.clear(),
    "subscription_of": lambda group: group.subscription_of.fill(0),
}


@pytest.mark.parametrize("what", CHANGES)
def test_a_plug_in_that_changes_its_arguments_changes_a_copy(what: str) -> None:
    class Changes(Fixed):
        def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber) -> Any:
            CHANGES[what](group_spec)
            return {"m1": {T: [1]}, "m2": {U: [1]}}

    members = {
        member_id: Member(topics=one.topics, rack=one.rack, instance_id=one.instance_id, owned=list(one.owned))
        for member_id, one in MEMBERS.items()
    }
    group = GroupSpec(members, TOPOLOGY)
    assert dict(checked(as_assignor(Changes()), group)) == {"m1": (("t", 1),), "m2": (("u", 1),)}
    other = GroupSpec(MEMBERS, TOPOLOGY)
    assert group.member_ids == other.member_ids
    assert list(group.members) == list(other.members)
    for name in ("owned", "owned_offsets", "hash_order", "subscription_of", "subscribes"):
        assert getattr(group, name).tolist() == getattr(other, name).tolist(), name


def test_topics_need_ids() -> None:
    group = GroupSpec({"m": Member(topics=["t"])}, Topology.of({"t": 1}))
    with pytest.raises(AssignorError, match="topic t has no id"):
        checked(as_assignor(Fixed({})), group)


# ---- loading

SOURCE = """
from quorate.assignors import RackAwareUniformAssignor

class Mine:
    name = "mine"
    def __init__(self, reverse: bool = False):
        self.reverse = reverse
    def assign(self, group_spec, topic_describer):
        return {}

class Other(Mine):
    name = "other"

class Fails:
    name = "fails"
    def __init__(self):
        raise OSError("no such file: weights")

class NoName:
    def assign(self, group_spec, topic_describer):
        return {}

class BadName(Mine):
    name = "a,b"

class NoAssign:
    name = "no-assign"

class Colon(Mine):
    name = "a:b"

class Blank(Mine):
    name = "mine "

class Control(Mine):
    name = "mi\\nne"

class Async(Mine):
    async def assign(self, group_spec, topic_describer):
        return {}

class Yields(Mine):
    def assign(self, group_spec, topic_describer):
        yield "m1", {}

class OneArgument(Mine):
    def assign(self, group_spec):
        return {}

instance = RackAwareUniformAssignor(max_moved=3)
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "plug_in_of_test.py").write_text(SOURCE)
    (tmp_path / "plug_in_that_fails.py").write_text("raise SystemExit('not here')\n")
    info = tmp_path / "mine-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: mine\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        "[quorate.server_assignors]\nboth = plug_in_of_test:Other\n"
        "mine = plug_in_of_test:Mine\nwrong = plug_in_of_test:Other\ngone = plug_in_of_test:Gone\n"
    )
    other = tmp_path / "other-1.0.dist-info"
    other.mkdir()
    (other / "METADATA").write_text("Metadata-Version: 2.1\nName: other\nVersion: 1.0\n")
    (other / "entry_points.txt").write_text("[quorate.server_assignors]\nboth = plug_in_of_test:Mine\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    for name in ("plug_in_of_test", "plug_in_that_fails"):
        sys.modules.pop(name, None)


@pytest.mark.usefixtures("project")
def test_plug_ins_are_loaded_by_entry_point_and_by_path() -> None:
    for text in ("mine", "plug_in_of_test:Mine"):
        loaded: Any = server_assignor(text)
        assert loaded.name == "mine"
        assert isinstance(loaded.plug_in, ServerAssignor)
        assert not loaded.plug_in.reverse
        assert loaded is not server_assignor(text)
    with_option: Any = server_assignor("mine", reverse=True)
    assert with_option.plug_in.reverse
    found = server_assignor("plug_in_of_test:instance")
    assert isinstance(found, RackAwareUniformAssignor)
    assert found.max_moved == 3


@pytest.mark.usefixtures("project")
@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("nope", r"unknown server-side assignor 'nope'; use one of uniform, range, rack-aware-uniform, lag-aware, "
                 r"the installed both, gone, mine, wrong, or MODULE:CLASS"),
        ("wrong", r"entry point wrong \(plug_in_of_test:Other\) has an assignor with the name 'other'"),
        ("gone", r"cannot load gone: AttributeError: .*Gone"),
        ("no.such.module:Mine", r"cannot load no\.such\.module:Mine: ModuleNotFoundError: No module named 'no'$"),
        ("plug_in_that_fails:Mine", r"SystemExit: not here \(.*plug_in_that_fails\.py, line 1\)$"),
        ("plug_in_of_test:Fails", r"OSError: no such file: weights \(.*plug_in_of_test\.py, line 17\)$"),
        ("both", r"packages have an assignor both: plug_in_of_test:Mine, plug_in_of_test:Other; give"),
        ("plug_in_of_test:NoName", r"plug_in_of_test:NoName is no server-side assignor: without name$"),
        ("plug_in_of_test:NoAssign", r"without assign$"),
        ("plug_in_of_test:Colon", r"has the name 'a:b'; give it printable text without commas, colons or spaces"),
        ("plug_in_of_test:Blank", r"has the name 'mine '; give it"),
        ("plug_in_of_test:Control", r"has the name 'mi\\nne'; give it"),
        ("plug_in_of_test:Async", r"Async is no server-side assignor: assign is async; it must return"),
        ("plug_in_of_test:Yields", r"Yields is no server-side assignor: assign has a yield; it must return"),
        ("plug_in_of_test:OneArgument", r"assign\(group_spec\) does not take the two arguments group_spec and topic_d"),
        ("plug_in_of_test:BadName", r"has the name 'a,b'; give it printable text without commas"),
        ("plug_in_of_test:SOURCE", r"cannot load .*AttributeError"),
    ],
)  # fmt: skip
def test_a_plug_in_that_cannot_be_loaded_is_rejected_with_the_reason(text: str, reason: str) -> None:
    with pytest.raises(AssignorError, match=reason):
        server_assignor(text)


def test_a_class_is_no_instance() -> None:
    with pytest.raises(AssignorError, match=r"Fixed is no server-side assignor: a class; give an instance"):
        as_assignor(Fixed)


class Writes(Assignor):
    """Changes arrays before it assigns nothing: those of the group, or of the topology."""

    name = "writes"

    def __init__(self, of_topology: bool) -> None:
        self.of_topology = of_topology

    def assign_group(self, group: GroupSpec) -> Assignment:
        if self.of_topology:
            group.topology.first[:] = 0
        group.subscription_of[:] = 0
        return Assignment.from_lists(group.topology, group.member_ids, [[], []])


def test_an_assignor_on_arrays_cannot_change_those_of_the_coordinator(group: GroupSpec) -> None:
    before = group.subscription_of.tolist(), group.topology.first.tolist()
    assert len(checked(Writes(of_topology=False), group).partitions) == 0
    with pytest.raises(AssignorError, match=r"assignor writes raised ValueError: .*read-only"):
        checked(Writes(of_topology=True), group)
    assert (group.subscription_of.tolist(), group.topology.first.tolist()) == before
