"""Requests for which Kafka fails and quorate does not; generators leave them out."""

from typing import Any

__all__ = ["BEYOND_ITS_TOPIC", "declared"]

BEYOND_ITS_TOPIC = "a classic member owns partitions that its recreated topic does not have"
"""As docs/explanation/consumer-groups.md has it. The uniform assignor then throws, each of its two
algorithms in its own way.
"""

_THROWN = {
    ("ArrayIndexOutOfBoundsException", None),
    ("UnknownServerException", "PartitionAssignorException: Partitions were left unassigned"),
}


def declared(kafka: dict[str, Any]) -> str | None:
    """Return which of them a response of Kafka is; `None` if it is none."""
    errors = [event.get("error") or {} for event in kafka.get("events", ())]
    thrown = {(error.get("class"), error.get("cause")) for error in errors}
    return BEYOND_ITS_TOPIC if thrown & _THROWN else None
