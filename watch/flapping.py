"""Clients that leave a group and come back, again and again."""

from collections.abc import Iterator

from quorate.codecs.printable import duration_text, time_text
from quorate.coordinator.history import Event, GroupView
from quorate.coordinator.history.facts import MemberJoined, MemberReplaced
from quorate.watch.limits import WatchLimits


class Joins:
    """The recent joins of a group's clients: `joins` has times, `flapping` the reported clients."""

    def __init__(self, limits: WatchLimits) -> None:
        self.joins: dict[str, list[int]] = {}
        self.flapping: dict[str, int] = {}
        self._limits = limits

    def note(self, event: Event, view: GroupView | None) -> Iterator[tuple[str, tuple[str, ...]]]:
        """Note the joins of a write. Yields a sentence and facts for each client that flaps."""
        for fact in event.facts:
            if not isinstance(fact, MemberJoined | MemberReplaced):
                continue
            member_id = fact.member_id if isinstance(fact, MemberJoined) else fact.after
            member = None if view is None else view.members.get(member_id)
            who = fact.instance_id or (
                f"{member.client_id} on {member.client_host}" if member is not None else member_id
            )
            since = event.timestamp_ms - self._limits.flapping_ms
            times = [*(at for at in self.joins.get(who, ()) if at > since), event.timestamp_ms]
            self.joins[who] = times
            if len(times) >= self._limits.flapping_joins and self._is_new(who, times, view):
                self.flapping[who] = event.timestamp_ms
                sentence = f"{who} joined {len(times):,} times within {duration_text(self._limits.flapping_ms)}"
                yield sentence, tuple(f"joined at {time_text(at)}" for at in times)
        for who in [
            who for who, times in self.joins.items() if times[-1] <= event.timestamp_ms - self._limits.flapping_ms
        ]:
            del self.joins[who]
            self.flapping.pop(who, None)

    def _is_new(self, who: str, times: list[int], view: GroupView | None) -> bool:
        """Return whether to report it: once, until it has been quiet for as long.

        Several instances of a client with the same id on a host that start together are not one
        client that comes back: as many of them are members at the same time.
        """
        if who in self.flapping or view is None:
            return False
        now = sum(
            who in (member.instance_id, f"{member.client_id} on {member.client_host}")
            for member in view.members.values()
        )
        return len(times) - now + 1 >= self._limits.flapping_joins
