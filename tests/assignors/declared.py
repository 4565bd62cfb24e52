"""The causes for which our client-side assignors deviate from Kafka's.

test_declared.py keeps the list and the table in docs/explanation/client-assignors.md equal.

`sticky` and `cooperative-sticky` may assign partitions that a member did not subscribe to, or that
do not exist, or throw. Our assignors give a valid assignment in these cases. All other cases must
have Kafka's result.
"""

from collections.abc import Callable, Mapping
from typing import Any

from quorate.codecs.sticky_user_data import decode_cooperative_sticky_user_data, decode_sticky_user_data
from tests.assignors.cases import Case, topic_partition

OwnedPartitions = tuple[list[tuple[str, int]], int | None]
"""Owned partitions, and the generation if there is one."""


def causes(case: Case) -> list[str]:
    """Return the rows of the table that apply to a case."""
    return [name for name, applies in DECLARED.items() if applies(case)]


def _numbers(case: Case) -> dict[str, set[int]]:
    found: dict[str, set[int]] = {}
    for partition in case["partitions"]:
        found.setdefault(partition["topic"], set()).add(partition["partition"])
    return found


def _owned_by(case: Case, consumer: Mapping[str, Any]) -> OwnedPartitions:
    """Return a member's owned partitions as the assignor reads them."""
    generation = consumer.get("generationId", -1)
    data = consumer.get("userData")
    if case["assignor"] == "sticky":
        message = decode_sticky_user_data(bytes.fromhex(data or ""))
        owned = [(one.topic, number) for one in message.previous_assignment for number in one.partitions]
        return owned, message.generation
    owned = [topic_partition(one) for one in consumer.get("ownedPartitions") or ()]
    if generation >= 0:
        return owned, generation
    message_or_none = decode_cooperative_sticky_user_data(None if data is None else bytes.fromhex(data))
    return owned, None if message_or_none is None else message_or_none.generation


def _lacks_partitions(case: Case) -> bool:
    return any(numbers != set(range(len(numbers))) for numbers in _numbers(case).values())


def _owns_what_is_not_there(case: Case) -> bool:
    numbers = _numbers(case)
    owned = [one for consumer in case["consumers"].values() for one in _owned_by(case, consumer)[0]]
    return _sticky(case) and any(topic in numbers and number not in numbers[topic] for topic, number in owned)


def _subscribes_to_nothing(case: Case) -> bool:
    subscriptions = [bool(consumer["topics"]) for consumer in case["consumers"].values()]
    return _sticky(case) and any(subscriptions) and not all(subscriptions)


def _older_and_not_subscribed(case: Case) -> bool:
    owned_by = {name: _owned_by(case, consumer) for name, consumer in case["consumers"].items()}
    newest = max([-1 if generation is None else generation for _, generation in owned_by.values()], default=-1)
    return _sticky(case) and any(
        (generation is None or generation < newest) and topic not in case["consumers"][name]["topics"]
        for name, (owned, generation) in owned_by.items()
        for topic, _ in owned
    )


def _names_twice(case: Case) -> bool:
    return _sticky(case) and any(
        len(set(consumer["topics"])) < len(consumer["topics"]) for consumer in case["consumers"].values()
    )


def _sticky(case: Case) -> bool:
    return "sticky" in case["assignor"]


DECLARED: dict[str, Callable[[Case], bool]] = {
    "metadata lacks partitions of a topic": _lacks_partitions,
    "a member owns partitions that the topic no longer has": _owns_what_is_not_there,
    "a member subscribes to nothing": _subscribes_to_nothing,
    "a member of an older generation is no longer subscribed": _older_and_not_subscribed,
    "a subscription names a topic twice": _names_twice,
}
"""The first column of the table → a function that returns whether it applies to a case."""
