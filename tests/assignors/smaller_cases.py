"""Minimises a group with different results, and prints it."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

from tests.assignors.cases import Case

T = TypeVar("T")


def minimise(
    case: Case,
    fails: Callable[[Case], bool],
    *,
    attempts: int = 400,
    smaller: Callable[[Case], Iterator[Case]] | None = None,
) -> Case:
    """Return the smallest failing case found by removing parts, in at most `attempts` tries.

    `smaller`: yields the cases with one part removed, for ops other than `clientAssign`.
    """
    left = attempts
    shrunk = True
    while shrunk and left > 0:
        shrunk = False
        for candidate in (smaller or _smaller)(case):
            left -= 1
            if fails(candidate):
                case, shrunk = candidate, True
                break
            if left <= 0:
                break
    return case


def without(items: Mapping[str, Any], *names: str) -> dict[str, Any]:
    """Return a dictionary without some keys."""
    return {name: item for name, item in items.items() if name not in names}


def one_less(items: Sequence[T]) -> Iterator[list[T]]:
    """Yield the list with one item removed."""
    for number in range(len(items)):
        yield [*items[:number], *items[number + 1 :]]


def replaced(items: Sequence[T], number: int, item: T) -> list[T]:
    """Return the list with another item."""
    return [*items[:number], item, *items[number + 1 :]]


def fewer_of(case: Case, field: str) -> Iterator[Case]:
    """Yield cases with one member removed, if there are others."""
    for name in case[field] if len(case[field]) > 1 else ():
        yield case | {field: without(case[field], name)}


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with one part removed, large parts first."""
    for topic in dict.fromkeys(partition["topic"] for partition in case["partitions"]):
        yield case | {"partitions": [partition for partition in case["partitions"] if partition["topic"] != topic]}
    consumers: dict[str, Case] = case["consumers"]
    yield from fewer_of(case, "consumers")
    for left in reversed([*one_less(case["partitions"])]):
        yield case | {"partitions": left}
    for name, consumer in consumers.items():
        for field in consumer:
            if field != "topics":
                yield case | {"consumers": consumers | {name: without(consumer, field)}}
        for field in ("topics", "ownedPartitions"):
            for rest in one_less(consumer.get(field, ())):
                yield case | {"consumers": consumers | {name: consumer | {field: rest}}}
    for number, one in enumerate(case["partitions"]):
        for field in ("isr", "leader", "replicas"):
            if field in one and not (field == "replicas" and len(one["replicas"]) < 2):
                rest = without(one, field)
                if field == "replicas":
                    rest = one | {"replicas": one["replicas"][:-1]}
                elif field == "isr":
                    rest.pop("leader", None)
                yield case | {"partitions": replaced(case["partitions"], number, rest)}


def show(case: Case) -> str:
    """Return the case as a line for `python -m tests.differential`."""
    return json.dumps(case, ensure_ascii=True)
