"""What an assignor would make of a group: the group as it is, from a description or elsewhere, changed if asked to, and the outcomes with their facts.

`GroupSituation` is a group before anything is assigned; `read_description` reads one from YAML or
JSON. `without_members` and the other functions of `changes` return a changed one, and `outcomes`
runs assignors on it. Nothing is printed here, and no cluster is known.
"""

from quorate.assignors.what_if.changes import (
    common_topics,
    matching_members,
    with_member,
    with_partitions,
    with_racks,
    without_members,
)
from quorate.assignors.what_if.description import described, read_description, read_topology
from quorate.assignors.what_if.outcomes import CURRENT, Choice, Outcome, Side, outcome_now, outcomes, usual_choices
from quorate.assignors.what_if.situation import GroupSituation, Owned, Protocol

__all__ = [
    "CURRENT",
    "Choice",
    "GroupSituation",
    "Outcome",
    "Owned",
    "Protocol",
    "Side",
    "common_topics",
    "described",
    "matching_members",
    "outcome_now",
    "outcomes",
    "read_description",
    "read_topology",
    "usual_choices",
    "with_member",
    "with_partitions",
    "with_racks",
    "without_members",
]
