"""`quorate assign --json`: one object with the group as it was read, the changes, and each outcome with its facts."""

from typing import Any

from quorate.cli.assign.describe import described
from quorate.cli.assign.facts import Comparison
from quorate.cli.assign.run import Outcome

__all__ = ["as_plain"]


def as_plain(comparison: Comparison, *, remote: bool) -> dict[str, Any]:
    """`input` is a description that `quorate assign` reads; `remote` adds the list of remote partitions to each outcome."""
    return {
        "group": comparison.before.group_id,
        "source": comparison.before.source,
        "notes": list(comparison.before.notes),
        "input": described(comparison.before),
        "changes": list(comparison.told),
        "outcomes": [_outcome(one, remote) for one in comparison.outcomes],
    }


def _outcome(outcome: Outcome, remote: bool) -> dict[str, Any]:
    choice = outcome.choice
    assignment = outcome.assignment
    return {
        "name": outcome.label if choice is None else choice.text,
        "side": None if choice is None else choice.side,
        "took_ms": None if outcome.took_ms is None else round(outcome.took_ms, 3),
        "rebalances": outcome.rebalances,
        **outcome.explanation.to_json(remote=remote),
        "assignment": {member_id: assignment.by_topic(member_id) for member_id in assignment},
    }
