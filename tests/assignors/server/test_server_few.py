"""Server-side assignors give the same with lists as with arrays.

Both are compared with Kafka's in `test_server_differential`.
"""

import os
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from quorate.assignors import GroupSpec, Member, Topic, Topology, small_groups
from quorate.assignors.java_order import JavaHashSet, copied_set_capacity
from quorate.assignors.java_order.few import changed_numbers_in_order
from quorate.assignors.server import UniformAssignor, homogeneous
from quorate.assignors.server import range as by_range
from quorate.codecs import Uuid, extension
from tests.assignors.server_cases import next_server_round, server_case
from tests.assignors.server_differential import SIZES, ours
from tests.conftest import CI
from tests.extent import portion

START = 0 if CI else int.from_bytes(os.urandom(4), "big")


class Counted:
    """Assignors in C, and how many groups they assigned."""

    def __init__(self, native: Any) -> None:
        self.native, self.assigned = native, 0

    def __getattr__(self, name: str) -> Any:
        def counted(*args: Any) -> Any:
            found = getattr(self.native, name)(*args)
            self.assigned += found is not None
            return found

        return counted


@pytest.fixture
def accelerator() -> dict[str, Any]:
    if extension.extension() is None:
        pytest.skip("installed without a compiler")
    return {"uniform": Counted(extension.extension()), "range": Counted(small_groups.small_groups_in_c())}


@pytest.mark.parametrize(("name", "module"), [("uniform", homogeneous), ("range", by_range)])
@pytest.mark.parametrize("in_c", [True, False])
def test_lists_and_arrays_give_the_same_records(
    name: str, module: Any, in_c: bool, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    by_lists = 0
    own = module.assign_few

    def counted(*args: object, **options: object) -> object:
        nonlocal by_lists
        found = own(*args, **options)
        by_lists += found is not None
        return found

    native = request.getfixturevalue("accelerator") if in_c else {"uniform": None, "range": None}
    monkeypatch.setattr(extension, "_extension", native["uniform"])
    monkeypatch.setattr(small_groups, "_small_groups", native["range"])
    monkeypatch.setattr(module, "assign_few", counted)
    count = portion(600)
    for seed in range(START, START + count):
        rng = Random(seed)
        case = server_case(rng, name, size=SIZES[seed % len(SIZES)])
        for number in range(3):
            monkeypatch.setattr(module, "FEW", 1 << 40)
            lists = ours(case)
            monkeypatch.setattr(module, "FEW", -1)
            arrays = ours(case)
            assert lists == arrays, f"seed {seed}, round {number}: {case}"
            if "error" in arrays:
                break
            case = next_server_round(rng, case, arrays["assignment"])
    assert by_lists > count
    if in_c:
        assert native[name].assigned > by_lists / 2


def test_deleted_topics_count_in_the_order_of_the_others(monkeypatch: pytest.MonkeyPatch) -> None:
    others = 0
    for seed in range(START, START + 30):
        rng = Random(seed)
        topology = Topology(Topic(name=f"t{number}", partitions=3, id=Uuid(rng.randbytes(16))) for number in range(6))
        topics = tuple(topology.index)
        kept = [(name, partition) for name in topics for partition in range(3)]
        results = []
        for deleted in (0, 7):  # with 13 topics, the map of a target has 32 buckets instead of 16
            owned = (*kept, *((f"deleted{number}", 0) for number in range(deleted)))
            group = GroupSpec({"a": Member(topics=topics, owned=owned), "b": Member(topics=topics)}, topology)
            for few in (1 << 40, -1):
                monkeypatch.setattr(homogeneous, "FEW", few)
                results.append(UniformAssignor().target(group).assignment.partitions.tolist())
        assert results[0] == results[1], f"seed {seed}"
        assert results[2] == results[3], f"seed {seed}"
        others += results[0] != results[2]
    assert others


def test_targets_of_topics_with_equal_hashes_are_read_into_the_smallest_table(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(START, START + 30):
        rng = Random(seed)
        ids = [Uuid(rng.randbytes(8) * 2) for _ in range(14)]  # equal halves: all hashes are 0
        topology = Topology(Topic(name=f"t{number}", partitions=3, id=each) for number, each in enumerate(ids))
        owned = [(name, partition) for name in topology.index for partition in range(3)]
        rng.shuffle(owned)
        topics = tuple(topology.index)
        group = GroupSpec({"a": Member(topics=topics, owned=owned), "b": Member(topics=topics)}, topology)
        results = []
        for few in (1 << 40, -1):
            monkeypatch.setattr(homogeneous, "FEW", few)
            results.append(UniformAssignor().target(group).assignment.partitions.tolist())
        assert results[0] == results[1], f"seed {seed}"


def test_a_first_assignment_by_ranges_is_that_by_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(homogeneous, "FEW", -1)
    descents = 0
    for seed in range(START, START + portion(1000, usual=150)):
        rng = Random(seed)
        count, most = rng.choice([1, 3, 30, 300]), rng.choice([1, 5, 40, 400])
        ids = [rng.randbytes(16) for _ in range(count)]
        if seed % 4 == 0:  # halves are equal, so all hashes are 0, and buckets are crowded
            ids = [each[:8] * 2 for each in ids]
        topology = Topology(
            Topic(name=f"t{number}", partitions=rng.randrange(most + 1), id=Uuid(each))
            for number, each in enumerate(ids)
        )
        member = Member(topics=tuple(topology.index))
        members = dict.fromkeys(map(str, rng.sample(range(10_000), rng.choice([1, 2, 7, 50, 400]))), member)
        results = []
        for by_ranges in (True, False):
            monkeypatch.setattr(Topology, "has_short_ranges", by_ranges)
            target = UniformAssignor().target(GroupSpec(members, topology))
            numbers = target.assignment.partitions.tolist()
            results.append((target.changed.tolist(), target.assignment.offsets.tolist(), numbers))
        assert results[0] == results[1], f"seed {seed}"
        descents += sum(after < before for before, after in pairwise(numbers))
    assert descents > 1000


@pytest.mark.parametrize("jdk", [17, 21])
def test_sets_are_in_the_order_of_a_hash_set(jdk: int) -> None:
    for seed in range(START, START + portion(2000)):
        rng = Random(seed)
        most, step = rng.choice([(20, 1), (100, 1), (200, 16), (100_000, 1), (60, 16)])
        given = rng.sample(range(0, most * step, step), rng.randrange(min(most, 30)))
        made = JavaHashSet.of(given, jdk=jdk)
        before = list(made)
        kept = before[: rng.randrange(len(given) + 1)]
        added = rng.sample(range(0, most * step, step), rng.randrange(min(most, 20)))
        copy = JavaHashSet.of(before, jdk=jdk)
        for partition in before:
            if partition not in kept:
                copy.discard(partition)
        for partition in added:
            copy.add(partition)
        found = changed_numbers_in_order(before, kept, added, copied_set_capacity(len(before), jdk))
        assert list(found) == list(copy), f"seed {seed}"
