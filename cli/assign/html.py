"""The page of `quorate assign --html`: the racks that each member reads from.

One file without scripts or external resources, in light and dark mode. Local and remote partitions
differ in words and hatching as well as in colour. Names of groups, members, topics and racks are
data: `_e` escapes every text.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from quorate.assignors.explanations import WHY, MemberFacts, RemoteReason
from quorate.assignors.what_if import Outcome
from quorate.cli.assign.comparison import Comparison, percent
from quorate.cli.output import html_page
from quorate.codecs.printable import printable

MAX_CHIPS = 1_000
"""Number of partitions up to which each is listed by name."""

UNKNOWN = "?"
"""The column of replicas in unknown racks."""


def _e(text: object) -> str:
    return escape(printable(str(text)), quote=True)


@dataclass(frozen=True, slots=True)
class _Partition:
    """A partition of a member.

    `source` is the rack that it is read from: the member's own if it has a replica, else the
    leader's. `came` is whether the member did not own it before.
    """

    name: str
    source: str
    kind: str
    came: bool
    racks: str
    reason: RemoteReason | None


def page(comparison: Comparison, *, limit: int | None = None) -> str:
    """Return the whole page, with at most `limit` members in each picture (`None`: all)."""
    title = comparison.before.group_id or comparison.before.source
    style = files("quorate.cli.assign").joinpath("page.css").read_text(encoding="utf-8")
    return html_page(f"{printable(title)}: assignments", style, _body(comparison, title, limit))


def _body(comparison: Comparison, title: str, limit: int | None) -> Iterator[str]:
    yield f"<h1>{_e(title)}</h1>"
    yield f"<p>{_e(comparison.summary)}</p>"
    yield f'<p class="dim">from {_e(comparison.before.source)}</p>'
    if comparison.changes:
        yield f"<p><strong>What if:</strong> {_e(', '.join(comparison.changes))}</p>"
    yield from _legend(comparison)
    yield from _overview(comparison)
    for number, outcome in enumerate(comparison.outcomes):
        yield from _outcome(comparison, outcome, number, limit)
    remarks = [*comparison.before.notes, *comparison.remarks()]
    if remarks:
        yield "<h2>Remarks</h2><ul>"
        yield from (f"<li>{_e(remark)}</li>" for remark in remarks)
        yield "</ul>"
    yield '<p class="dim">Made by quorate assign.</p>'


def _legend(comparison: Comparison) -> Iterator[str]:
    yield '<ul class="legend">'
    if comparison.racks:
        yield '<li><span class="chip local">3 local</span> read in the member\'s own rack</li>'
        yield (
            '<li><span class="chip remote">3 remote</span> <span class="chip remote">orders-0 (b)</span> '
            "read from the leader's rack</li>"
        )
    yield '<li><span class="chip unknown">3</span> racks unknown</li>'
    if comparison.moves:
        yield '<li><span class="chip unknown came">+orders-0</span> the member did not own it before</li>'
    yield "</ul>"


def _overview(comparison: Comparison) -> Iterator[str]:
    yield '<div class="scroll"><table><caption>All assignments</caption><thead><tr><th>assignor</th>'
    yield '<th class="n">partitions of a member</th>'
    if comparison.racks:
        yield "<th>local</th>"
    if comparison.lags:
        yield '<th class="n">lag of a member</th>'
    if comparison.moves:
        yield '<th class="n">moved</th>'
    yield "</tr></thead><tbody>"
    for number, outcome in enumerate(comparison.outcomes):
        facts = outcome.explanation
        yield f'<tr><th scope="row"><a href="#a{number}">{_e(outcome.label)}</a></th>'
        yield f'<td class="n">{facts.balance.min:,} to {facts.balance.max:,}</td>'
        if comparison.racks:
            share = facts.local_share or 0.0
            yield (
                f'<td><span class="bar unknown"><span style="width:{100 * share:.1f}%"></span></span>'
                f"{percent(facts.local_share)}</td>"
            )
        if comparison.lags:
            lag = facts.lag_balance
            yield f'<td class="n">{"" if lag is None else f"{lag.min:,} to {lag.max:,}"}</td>'
        if comparison.moves:
            moved = "–" if outcome.choice is None or facts.moved is None else f"{facts.moved:,} of {facts.partitions:,}"
            yield f'<td class="n">{moved}</td>'
        yield "</tr>"
    yield "</tbody></table></div>"


def _outcome(comparison: Comparison, outcome: Outcome, number: int, limit: int | None) -> Iterator[str]:
    facts = outcome.explanation
    members = [member for member in comparison.members if member in facts.members]
    shown = members if limit is None else members[:limit]
    reasons = _reasons_of(outcome)
    read = {
        member_id: list(_partitions(comparison, outcome, facts.members[member_id], reasons.get(member_id, {})))
        for member_id in members
    }
    racks = _columns(read)
    chips = facts.partitions <= MAX_CHIPS
    yield f'<section><h2 id="a{number}">{_e(outcome.label)}</h2>'
    yield f"<p>{_e(_sentence(comparison, outcome))}</p>"
    yield '<div class="scroll"><table>'
    yield f"<caption>{'Where each member reads from' if racks else 'What each member owns'}</caption>"
    yield '<thead><tr><th scope="col">member</th><th scope="col">rack</th>'
    yield from (f'<th scope="col">{"from rack " + _e(one) if one != UNKNOWN else "unknown"}</th>' for one in racks)
    heads = ["partitions" if column == "parts" else column for column in comparison.columns]
    yield from _figures(comparison, outcome, heads, 'th scope="col"')
    if chips:
        yield '<th scope="col">which</th>'
    yield "</tr></thead><tbody>"
    for member_id in shown:
        one = facts.members[member_id]
        yield f'<tr><th scope="row" title="{_e(member_id)}">{_e(comparison.name_of(member_id))}</th>'
        yield f"<td>{_e(one.rack or '–')}</td>"
        yield from _cells(read[member_id], racks)
        yield from _figures(comparison, outcome, comparison.member_cells(outcome, member_id))
        if chips:
            yield f'<td><div class="chips">{"".join(map(_chip, read[member_id]))}</div></td>'
        yield "</tr>"
    yield "</tbody>"
    if racks:
        yield "<tfoot>"
        for rack in facts.racks:
            where = "without a rack" if rack.rack is None else "in " + _e(rack.rack)
            yield f'<tr><th scope="row">all {where} ({rack.members:,})</th><td>{percent(rack.local_share)} local</td>'
            of_rack = [member for member in members if facts.members[member].rack == rack.rack]
            yield from _cells([partition for member_id in of_rack for partition in read[member_id]], racks)
            yield from _figures(comparison, outcome, comparison.rack_cells(outcome, rack.rack))
            yield f"{'<td></td>' if chips else ''}</tr>"
        yield "</tfoot>"
    yield "</table></div>"
    if len(shown) < len(members):
        yield f'<p class="dim">{len(members) - len(shown):,} more members; --limit 0 shows all</p>'
    yield from _reasons(comparison, outcome)
    yield "</section>"


def _sentence(comparison: Comparison, outcome: Outcome) -> str:
    facts = outcome.explanation
    parts = [f"{facts.partitions:,} partitions, {facts.balance.min:,} to {facts.balance.max:,} for each member"]
    if comparison.racks:
        parts.append(f"{percent(facts.local_share)} of them local")
    if comparison.moves and outcome.choice is not None:
        parts.append(f"{facts.moved or 0:,} moved")
    return "; ".join(parts)


def _partitions(
    comparison: Comparison, outcome: Outcome, one: MemberFacts, reasons: Mapping[tuple[str, int], RemoteReason]
) -> Iterator[_Partition]:
    assignment = outcome.assignment
    topology = assignment.topology
    numbers = assignment.numbers(one.member_id)
    before = None
    if comparison.moves and outcome.choice is not None:
        before = set(map(tuple, comparison.before.current.get(one.member_id, ())))
    for at, racks_number in zip(
        topology.topic_partitions(numbers), topology.replica_racks_of[numbers].tolist(), strict=True
    ):
        racks = [rack for rack in topology.replica_racks[racks_number] if rack]
        local = one.rack is not None and one.rack in racks
        if local:
            source, kind = one.rack or "", "local"
        elif racks and one.rack:
            source, kind = racks[0], "remote"
        else:
            source, kind = racks[0] if racks else UNKNOWN, "unknown"
        yield _Partition(
            name=f"{at.topic}-{at.partition}",
            source=source,
            kind=kind,
            came=before is not None and tuple(at) not in before,
            racks=", ".join(dict.fromkeys(racks)),
            reason=reasons.get((at.topic, at.partition)),
        )


def _reasons_of(outcome: Outcome) -> dict[str, dict[tuple[str, int], RemoteReason]]:
    """Return member → its remote partitions → the reason."""
    found: dict[str, dict[tuple[str, int], RemoteReason]] = {}
    for one in outcome.explanation.remote:
        found.setdefault(one.member_id, {})[one.topic, one.partition] = one.reason
    return found


def _columns(read: dict[str, list[_Partition]]) -> list[str]:
    """Return the racks that are read from, sorted; none if no rack is known."""
    sources = {partition.source for partitions in read.values() for partition in partitions}
    known = sorted(sources - {UNKNOWN})
    return [*known, UNKNOWN] if known and UNKNOWN in sources else known


def _cells(partitions: Sequence[_Partition], racks: Sequence[str]) -> Iterator[str]:
    counts = Counter((partition.source, partition.kind) for partition in partitions)
    for rack in racks:
        kinds = [kind for kind in ("local", "remote", "unknown") if counts[rack, kind]]
        if not kinds:
            yield '<td class="cell nothing">·</td>'
            continue
        words = " + ".join(
            f'{counts[rack, kind]:,} <span class="w">{"" if kind == "unknown" else kind}</span>' for kind in kinds
        )
        yield f'<td class="cell {kinds[-1]}">{words}</td>'


def _figures(comparison: Comparison, outcome: Outcome, cells: Sequence[str], tag: str = "td") -> Iterator[str]:
    """Return the cells except locality, which the rack columns show."""
    for name, cell in zip(comparison.columns, cells, strict=True):
        if name != "local" and (name != "moved" or outcome.choice is not None):
            yield f'<{tag} class="n">{cell}</{tag.partition(" ")[0]}>'


def _chip(partition: _Partition) -> str:
    about = [f"{partition.name}: replicas in {partition.racks or 'unknown racks'}"]
    about.append(partition.kind if partition.kind != "unknown" else "locality unknown")
    if partition.came:
        about.append("new to this member")
    if partition.kind == "remote" and partition.reason is not None:
        about.append(WHY[partition.reason])
    came = (" came", "+") if partition.came else ("", "")
    name = f"{came[1]}{partition.name}{f' ({partition.source})' if partition.kind == 'remote' else ''}"
    return f'<span class="chip {partition.kind}{came[0]}" title="{_e("; ".join(about))}">{_e(name)}</span>'


def _reasons(comparison: Comparison, outcome: Outcome) -> Iterator[str]:
    facts = outcome.explanation
    if not comparison.racks or not facts.reasons:
        return
    yield f"<p>Why {sum(facts.reasons.values()):,} are remote:</p><ul>"
    for reason, number in facts.reasons.items():
        yield f"<li>{number:,}: {_e(WHY[reason])}</li>"
    yield "</ul>"
