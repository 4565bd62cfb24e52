"""Minimises a group with different results, and prints it."""

import json
from collections.abc import Callable, Iterator

from tests.assignors.cases import Case


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
    one_less = smaller or _smaller
    left = attempts
    shrunk = True
    while shrunk and left > 0:
        shrunk = False
        for candidate in one_less(case):
            left -= 1
            if fails(candidate):
                case, shrunk = candidate, True
                break
            if left <= 0:
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    """Yield cases with one part removed, large parts first."""
    for topic in dict.fromkeys(partition["topic"] for partition in case["partitions"]):
        yield case | {"partitions": [partition for partition in case["partitions"] if partition["topic"] != topic]}
    consumers: dict[str, Case] = case["consumers"]
    for name in consumers:
        if len(consumers) > 1:
            yield case | {"consumers": {other: consumer for other, consumer in consumers.items() if other != name}}
    for number in reversed(range(len(case["partitions"]))):
        yield case | {"partitions": case["partitions"][:number] + case["partitions"][number + 1 :]}
    for name, consumer in consumers.items():
        for field in consumer:
            if field != "topics":
                rest = {key: value for key, value in consumer.items() if key != field}
                yield case | {"consumers": consumers | {name: rest}}
        for field in ("topics", "ownedPartitions"):
            for number in range(len(consumer.get(field, ()))):
                rest = consumer[field][:number] + consumer[field][number + 1 :]
                yield case | {"consumers": consumers | {name: consumer | {field: rest}}}
    for number, one in enumerate(case["partitions"]):
        for field in ("isr", "leader", "replicas"):
            if field in one and not (field == "replicas" and len(one["replicas"]) < 2):
                rest = {key: value for key, value in one.items() if key != field}
                if field == "replicas":
                    rest = one | {"replicas": one["replicas"][:-1]}
                elif field == "isr":
                    rest.pop("leader", None)
                yield case | {
                    "partitions": [*case["partitions"][:number], rest, *case["partitions"][number + 1 :]],
                }


def show(case: Case) -> str:
    """Return the case as a line for `python -m tests.differential`."""
    return json.dumps(case, ensure_ascii=True)
