"""Client-side assignors give the same with lists, with arrays, and in C.

They are compared with Kafka's in `test_differential_client`. `test_small_groups` has more groups
for C.
"""

import os
from collections.abc import Callable
from random import Random
from typing import Any

import pytest

from quorate.assignors import Assignor, RangeAssignor
from quorate.assignors import range as by_range
from quorate.assignors import roundrobin as in_turn
from quorate.assignors.roundrobin import RoundRobinAssignor
from quorate.assignors.sticky import CooperativeStickyAssignor, StickyAssignor
from quorate.assignors.sticky import assignor as sticky
from quorate.codecs.releases import KafkaVersion
from tests.assignors.cases import next_round
from tests.assignors.client_differential import case_of, is_odd
from tests.assignors.read_cases import read_case
from tests.conftest import CI
from tests.extent import is_full

START = 0 if CI else int.from_bytes(os.urandom(4), "big")
ASSIGNORS: dict[str, tuple[Any, Callable[..., Assignor]]] = {
    "range": (by_range, RangeAssignor),
    "roundrobin": (in_turn, lambda version: RoundRobinAssignor()),  # the same in all releases
    "sticky": (sticky, StickyAssignor),
    "cooperative-sticky": (sticky, CooperativeStickyAssignor),
}


@pytest.mark.parametrize("name", ASSIGNORS)
@pytest.mark.parametrize("version", [KafkaVersion.NEWEST, KafkaVersion(3, 6)])
def test_lists_arrays_and_c_give_the_same_assignment(
    name: str, version: KafkaVersion, monkeypatch: pytest.MonkeyPatch
) -> None:
    module, cls = ASSIGNORS[name]
    by_lists = 0
    own: Callable[..., Any] = module.assign_few

    def counted(*args: Any, **options: Any) -> Any:
        nonlocal by_lists
        found = own(*args, **options)
        by_lists += found is not None
        return found

    monkeypatch.setattr(module, "assign_few", counted)
    assignor: Any = cls(version=version)
    in_c = getattr(assignor, "_in_c", None)
    count = 1500 if is_full() else 150
    for seed in range(START, START + count):
        case, rng = case_of(name, seed), Random(seed)
        for number in range(3):
            members, topology = read_case(case)
            results = []
            for few, native in ((1 << 40, None), (-1, None), *([(1 << 40, in_c)] if in_c else [])):
                monkeypatch.setattr(module, "FEW", few)
                monkeypatch.setattr(assignor, "_in_c", native, raising=False)
                results.append({member: list(given) for member, given in assignor.assign(members, topology).items()})
            assert all(result == results[0] for result in results), f"seed {seed}, round {number}: {case}"
            if is_odd(seed):
                break
            given = {member: [f"{topic}-{one}" for topic, one in owned] for member, owned in results[0].items()}
            case = next_round(rng, case, given, number + 1)
    assert by_lists > count / 10
