"""Making a group for which answers differ as small as it can be, and showing it."""

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
    """The smallest case found that still fails, by leaving things out one after the other for at most `attempts` tries.

    `smaller`: the cases with one thing less, of ops other than `clientAssign`.
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
    """Cases with one thing less, the big things first."""
    for topic in dict.fromkeys(one["topic"] for one in case["partitions"]):
        yield case | {"partitions": [one for one in case["partitions"] if one["topic"] != topic]}
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
    """The case as a line for `python -m tests.differential`."""
    return json.dumps(case, ensure_ascii=True)
