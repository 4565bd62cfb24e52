"""Conditions on events, for `Observer.wait_for`."""

from collections.abc import Callable
from typing import TypeAlias

from quorate.coordinator.history.facts import Fact
from quorate.watch.model import EventKind, WatchEvent

Condition: TypeAlias = Callable[[WatchEvent], bool]


def rebalance(
    *, group: str | None = None, cause: type[Fact] | None = None, epoch: int | None = None, began: bool = False
) -> Condition:
    """Return a condition for the end of a rebalance, or with `began` its begin.

    `cause`: one of its causes is of this class. `epoch`: the group epoch or generation.
    """
    kind = EventKind.REBALANCE_BEGAN if began else EventKind.REBALANCE_ENDED
    one = event(kind, group=group, cause=cause)
    return lambda found: one(found) and epoch in (None, found.epoch)


def event(kind: EventKind | None = None, *, group: str | None = None, cause: type[Fact] | None = None) -> Condition:
    """Return a condition for an event of this kind, group and cause."""

    def matches(found: WatchEvent) -> bool:
        return (
            kind in (None, found.kind)
            and group in (None, found.group_id)
            and (cause is None or any(isinstance(one, cause) for one in found.causes))
        )

    return matches
