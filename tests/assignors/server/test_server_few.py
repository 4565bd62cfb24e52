"""Server-side assignors give the same with lists as with arrays.

Both are compared with Kafka's in `test_server_differential`.
"""

import os
from random import Random
from typing import Any

import pytest

from quorate.assignors.java_order import JavaHashSet, copied_set_capacity
from quorate.assignors.java_order.few import changed_numbers_in_order
from quorate.assignors.server import homogeneous
from quorate.assignors.server import range as by_range
from tests.assignors.server_cases import next_server_round, server_case
from tests.assignors.server_differential import SIZES, ours
from tests.conftest import CI
from tests.extent import portion

START = 0 if CI else int.from_bytes(os.urandom(4), "big")


@pytest.mark.parametrize(("name", "module"), [("uniform", homogeneous), ("range", by_range)])
def test_lists_and_arrays_give_the_same_records(name: str, module: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    by_lists = 0
    own = module.assign_few

    def counted(*args: object, **options: object) -> object:
        nonlocal by_lists
        found = own(*args, **options)
        by_lists += found is not None
        return found

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
