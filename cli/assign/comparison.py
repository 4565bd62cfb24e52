"""Figures of several outcomes of `quorate assign`: as text, for table and page, and as JSON."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from quorate.assignors import Explanation
from quorate.assignors.explanations import MemberFacts, RackFacts
from quorate.assignors.what_if import Outcome, described
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs.printable import counted


def percent(share: float | None) -> str:
    """Format a share as whole percent; only exactly 1 gives 100% and only exactly 0 gives 0%.

    Returns a dash for `None`.
    """
    if share is None:
        return "–"
    rounded = round(100 * share)
    if rounded == 100 and share < 1:
        rounded = 99
    if rounded == 0 and share > 0:
        rounded = 1
    return f"{rounded}%"


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """Outcomes side by side; the current assignment comes first, if it is known.

    `changes` are texts, for headings.
    """

    before: GroupSituation
    after: GroupSituation
    changes: Sequence[str]
    outcomes: Sequence[Outcome]

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns of each outcome."""
        possible = (("parts", True), ("local", self.racks), ("lag", self.lags), ("moved", self.moves))
        return tuple(name for name, wanted in possible if wanted)

    @property
    def racks(self) -> bool:
        """Whether locality can be computed: racks of replicas and of members are known."""
        members = [*self.before.members.values(), *self.after.members.values()]
        return self.before.racks_known and any(member.rack for member in members)

    @property
    def lags(self) -> bool:
        """Whether lags are known."""
        return self.before.lags is not None

    @property
    def moves(self) -> bool:
        """Whether the current assignment is known, to compare with."""
        return any(outcome.explanation.moved is not None for outcome in self.outcomes)

    @cached_property
    def members(self) -> list[str]:
        """Ids of all members, before and after the changes, by rack and then by name."""
        found = {**self.before.members, **self.after.members}
        return sorted(found, key=lambda one: (not found[one].rack, found[one].rack or "", self.name_of(one), one))

    @cached_property
    def rack_names(self) -> list[str | None]:
        """Racks of members, sorted; `None`, for members without a rack, comes last."""
        found = {facts.rack for outcome in self.outcomes for facts in outcome.explanation.racks}
        return sorted(found, key=lambda rack: (rack is None, rack or ""))

    def name_of(self, member_id: str) -> str:
        """Return the name to display for a member."""
        return (self.after if member_id in self.after.members else self.before).name_of(member_id)

    def rack_of(self, member_id: str) -> str:
        """Return a member's rack; if it changed, both the old and the new one."""
        racks = [
            situation.members[member_id].rack or "–"
            for situation in (self.before, self.after)
            if member_id in situation.members
        ]
        return " → ".join(dict.fromkeys(racks)) if any(rack != "–" for rack in racks) else ""

    @property
    def heading(self) -> str:
        """The group and its size in one line."""
        return f"{self.after.group_id or self.after.source}: {self.summary}"

    @property
    def summary(self) -> str:
        """Numbers of members, racks, partitions and topics, and the protocol."""
        situation = self.after
        racks = len({member.rack for member in situation.members.values() if member.rack})
        parts = [
            counted(len(situation.members), "member") + (f" in {counted(racks, 'rack')}" if racks else ""),
            f"{counted(int(situation.topology.first[-1]), 'partition')} of {counted(len(situation.topology), 'topic')}",
        ]
        protocol = {"classic": "classic protocol", "consumer": "consumer protocol (KIP-848)", None: ""}[
            situation.protocol
        ]
        if protocol:
            parts.append(protocol + (f", {situation.assignor}" if situation.assignor else ""))
        return "; ".join(parts)

    def member_cells(self, outcome: Outcome, member_id: str) -> list[str]:
        """Return a member's figures in an outcome; empty cells if the outcome lacks the member."""
        facts = outcome.explanation.members.get(member_id)
        if facts is None:
            return [""] * len(self.columns)
        return self._cells(facts, _moved(facts) if outcome.choice is not None else "")

    def rack_cells(self, outcome: Outcome, rack: str | None) -> list[str]:
        """Return the figures of all members of a rack."""
        facts = next((one for one in outcome.explanation.racks if one.rack == rack), None)
        return [""] * len(self.columns) if facts is None else self._cells(facts, "")

    def sum_cells(self, outcome: Outcome) -> list[str]:
        """Return the figures of the whole group."""
        facts = outcome.explanation
        moved = "" if outcome.choice is None or facts.moved is None else f"{facts.moved:,}"
        return self._cells(facts, moved)

    def least_cells(self, outcome: Outcome) -> list[str]:
        """Return the lowest figures of any member."""
        return self._spread_cells(outcome.explanation, "min")

    def most_cells(self, outcome: Outcome) -> list[str]:
        """Return the highest figures of any member."""
        return self._spread_cells(outcome.explanation, "max")

    def _spread_cells(self, facts: Explanation, which: str) -> list[str]:
        lag = facts.lag_balance
        cells = {
            "parts": f"{getattr(facts.balance, which):,}",
            "local": "",
            "lag": "" if lag is None else f"{getattr(lag, which):,}",
            "moved": "",
        }
        return [cells[column] for column in self.columns]

    def _cells(self, facts: MemberFacts | RackFacts | Explanation, moved: str) -> list[str]:
        cells = {
            "parts": f"{facts.partitions:,}",
            "local": percent(facts.local_share),
            "lag": "" if facts.lag is None else f"{facts.lag:,}",
            "moved": moved,
        }
        return [cells[column] for column in self.columns]

    def remarks(self) -> list[str]:
        """Return remarks on what the figures do not show."""
        found = []
        for outcome in self.outcomes:
            facts = outcome.explanation
            if outcome.rebalances > 1:
                found.append(
                    f"{outcome.label}: after {outcome.rebalances} rebalances; "
                    "partitions that move have no owner in between"
                )
            if facts.unassigned:
                verb = "is" if facts.unassigned == 1 else "are"
                found.append(
                    f"{outcome.label}: {counted(facts.unassigned, 'partition')} of subscribed topics {verb} unassigned"
                )
            if facts.first_assigned and outcome.choice is not None:
                found.append(
                    f"{outcome.label}: {counted(facts.first_assigned, 'partition')} without a previous owner "
                    f"{'is' if facts.first_assigned == 1 else 'are'} not counted as moved"
                )
            if not self.lags and outcome.choice is not None and outcome.choice.name == "lag-aware":
                found.append(f"{outcome.label}: no lags are known, so only numbers of partitions were balanced")
        if self.before.racks_known and not self.racks:
            found.append("no member has a rack, so locality is unknown; --rack MEMBER=RACK tries one")
        unknown = {one.explanation.lag_unknown for one in self.outcomes}
        if self.lags and unknown != {0}:
            found.append(f"lag: that of {counted(max(unknown), 'partition')} is unknown and not in the sums")
        topics = set(self.after.topology.index)
        missing = sorted({topic for member in self.after.members.values() for topic in member.topics} - topics)
        if missing:
            names = f"{', '.join(missing[:5])}{', …' if len(missing) > 5 else ''}"
            found.append(f"subscribed but not among the topics, so not assigned: {names}")
        return found


def _moved(facts: MemberFacts) -> str:
    """Format how many partitions a member gains and loses: `+2 -1`."""
    if facts.moved_in is None or facts.moved_out is None:
        return ""
    return " ".join(f"{sign}{number:,}" for sign, number in (("+", facts.moved_in), ("-", facts.moved_out)) if number)


def as_plain(comparison: Comparison, *, remote: bool) -> dict[str, Any]:
    """Return the comparison as plain values for JSON.

    `input` in the result is a description that `quorate assign` reads. `remote` adds the list of
    remote partitions to each outcome.
    """
    return {
        "group": comparison.before.group_id,
        "source": comparison.before.source,
        "notes": list(comparison.before.notes),
        "input": described(comparison.before),
        "changes": list(comparison.changes),
        "outcomes": [_outcome(outcome, remote) for outcome in comparison.outcomes],
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
