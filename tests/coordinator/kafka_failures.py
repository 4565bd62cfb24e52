"""Requests for which Kafka fails and quorate does not. Generated histories end there."""

from typing import Any

BEYOND_ITS_TOPIC = "a classic member owns partitions that its recreated topic does not have"
"""A heading of docs/explanation/consumer-groups.md.

Each of the two algorithms of Kafka's uniform assignor then throws an exception of its own.
"""

_THROWN = {
    ("ArrayIndexOutOfBoundsException", None),
    ("UnknownServerException", "PartitionAssignorException: Partitions were left unassigned"),
}


def known_failure(kafka: dict[str, Any]) -> str | None:
    """Return the name of the known failure in Kafka's response, or `None`."""
    errors = [event.get("error") or {} for event in kafka.get("events", ())]
    thrown = {(error.get("class"), error.get("cause")) for error in errors}
    return BEYOND_ITS_TOPIC if thrown & _THROWN else None
