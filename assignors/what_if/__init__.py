"""What-if analysis: reads a group, changes it, and compares the assignments of several assignors.

`GroupSituation` is a group before an assignment; `read_description` reads one from YAML or JSON.
`without_members` and the other functions of `changes` return a changed copy. `outcomes` runs
assignors on it. Nothing is printed, and no cluster is contacted.
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
