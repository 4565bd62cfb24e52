"""`report`: an HTML page with the results of the jobs.

One file without scripts or external resources, in the reader's light or dark colour scheme. Names
of groups, members, topics and racks are untrusted: every text is escaped by `e`.
"""

import functools
from collections.abc import Iterator, Sequence
from importlib.resources import files
from typing import TYPE_CHECKING, Any, overload

import pyarrow as pa

from quorate.assignors import Topology
from quorate.pipeline.jobs.locality_rows import CURRENT
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.local.log import LocalRows
from quorate.pipeline.local.results import local_results
from quorate.pipeline.report_charts import KINDS, e, human, lag_panel, matrix, seconds_text, time_text, timeline
from quorate.pipeline.report_data import Facts, LagSeries, Row, collect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quorate.pipeline.jobs.locality import Locality
    from quorate.pipeline.local.locality import LocalLocality
    from quorate.pipeline.local.log import Source

__all__ = ["page", "report"]

_POLICY = "default-src 'none'; style-src 'unsafe-inline'"
_KIND_TEXTS = {
    "membership": "members joined or left",
    "subscription": "subscriptions changed",
    "metadata": "topics changed",
    "upgrade": "upgrade, downgrade, conversion",
    "other": "the log does not say",
}
_FINDINGS = {
    "downgraded": "a broker before 4.1 took over",
    "upgraded": "a broker of 4.1 or later took over",
    "converted": "converted to another protocol",
    "converted-back": "converted back to classic",
    "will-bump": "no metadata hash yet",
    "topic-record": "record of type 4 left",
    "hash-differs": "hash is not the topology's",
    "not-convertible": "cannot be converted online",
    "convertible": "can be converted online",
}
assert set(KINDS) == set(_KIND_TEXTS)


@overload
def report(
    rows: "DataFrame",
    *,
    end_offsets: "DataFrame | None" = None,
    topology: Topology | None = None,
    locality: "Locality | None" = None,
    as_of: AsOf | None = None,
    title: str = "Consumer groups",
) -> str: ...
@overload
def report(
    rows: "Source",
    *,
    end_offsets: pa.Table | None = None,
    topology: Topology | None = None,
    locality: "LocalLocality | None" = None,
    as_of: AsOf | None = None,
    title: str = "Consumer groups",
) -> str: ...
def report(
    rows: Any,
    *,
    end_offsets: Any = None,
    topology: Topology | None = None,
    locality: Any = None,
    as_of: AsOf | None = None,
    title: str = "Consumer groups",
) -> str:
    """Return the report as HTML. `rows`, `as_of`: as for `group_state` of the engine.

    Lags are shown with `end_offsets` (see `lag`), racks with the result of `locality`, both of the
    same engine. `topology` is used to compare metadata hashes (see `upgrade_audit`). Runs each job
    once. Spark limits the size of their results, for a history of any size. The page says how much
    is omitted.
    """
    given = {"end_offsets": end_offsets, "topology": topology, "locality": locality, "as_of": as_of}
    facts = functools.partial(
        collect,
        title=title,
        priced=locality is not None and locality.price_per_gb is not None,
        compared_hashes=topology is not None,
    )
    if isinstance(rows, LocalRows | pa.Table):
        return page(facts(local_results(rows, **given)))
    from quorate.pipeline.jobs.results import spark_results

    with spark_results(rows, **given) as results:
        return page(facts(results))


def page(facts: Facts) -> str:
    """Return the report of these facts as HTML."""
    return "\n".join(_page(facts)) + "\n"


def _page(facts: Facts) -> Iterator[str]:
    style = files("quorate.pipeline").joinpath("report.css").read_text(encoding="utf-8")
    yield "<!doctype html>"
    yield '<html lang="en"><head><meta charset="utf-8">'
    yield f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield f"<title>{e(facts.title)}</title><style>\n{style}</style></head><body>"
    yield f"<header><h1>{e(facts.title)}</h1>"
    written = e(time_text(facts.made_at))
    yield f'<p class="dim">from __consumer_offsets; written {written} UTC; all times are UTC</p></header>'
    yield from _tiles(facts)
    yield from _lags(facts)
    yield from _rebalances(facts)
    yield from _racks(facts)
    yield from _audit(facts)
    yield from _groups(facts)
    yield '<footer class="dim">Written by quorate pipeline report.</footer></body></html>'


def _tiles(facts: Facts) -> Iterator[str]:
    tiles = [
        (human(facts.group_count), "groups"),
        (human(facts.members), "members"),
        (human(facts.offsets), "committed offsets"),
        (human(facts.rebalance_count), "rebalances"),
        (human(len(facts.storms)), "rebalance storms"),
    ]
    if facts.lags:
        tiles.append((human(sum(lag.points[-1][1] for lag in facts.lags if lag.points)), "records of lag at the end"))
    if facts.racks:
        now = [row for row in facts.racks if row["assignor"] == CURRENT]
        known = sum(row["partitions"] - row["unknown"] for row in now)
        crossing = sum(row["crossing"] for row in now)
        tiles.append((f"{100 * crossing / known:.0f} %" if known else "–", "of partitions cross racks"))
    warnings = sum(
        facts.finding_counts.get(kind, 0) for kind in ("will-bump", "topic-record", "hash-differs", "not-convertible")
    )
    tiles.append((human(warnings), "findings before an upgrade"))
    yield '<ul class="tiles">'
    yield from (f"<li><b>{e(number)}</b><span>{e(name)}</span></li>" for number, name in tiles)
    yield "</ul>"
    if facts.skipped:
        yield f'<p class="dim">{facts.skipped:,} records contradict earlier ones and were skipped.</p>'


def _lags(facts: Facts) -> Iterator[str]:
    yield "<section><h2>Lag over time</h2>"
    if facts.lags is None:
        yield '<p class="dim">Lags need end offsets, which __consumer_offsets does not contain.</p></section>'
        return
    if not facts.lags:
        yield '<p class="dim">No group had committed an offset of these partitions before the snapshots.</p></section>'
        return
    shown = (
        f"The {len(facts.lags)} groups with the highest peaks of {facts.lag_groups:,}. "
        if facts.lag_groups > len(facts.lags)
        else ""
    )
    yield f'<p class="dim">{shown}Lag in records over all partitions of a group; each chart has its own scale.</p>'
    yield '<div class="panels">'
    times = [at for lag in facts.lags for at, _ in lag.points]
    for lag in facts.lags:
        yield lag_panel(lag.group, lag.points, _lag_note(lag), (min(times), max(times)))
    yield '</div><div class="scroll"><table><thead><tr><th>group</th><th class="n">partitions</th>'
    yield '<th class="n">lag at the end</th><th class="n">peak</th>'
    yield '<th class="n">written / s</th><th class="n">read / s</th><th class="n">caught up in</th></tr></thead><tbody>'
    for lag in facts.lags:
        rates = [f"{human(rate)}" if rate is not None else "–" for rate in (lag.production_rate, lag.consumption_rate)]
        peak = max(value for _, value in lag.points)
        warn = ' class="n warn"' if lag.drain_seconds is None else ' class="n"'
        yield f'<tr><th scope="row">{e(lag.group)}</th><td class="n">{lag.partitions:,}</td>'
        yield f'<td class="n">{e(human(lag.points[-1][1]))}</td><td class="n">{e(human(peak))}</td>'
        yield f'<td class="n">{e(rates[0])}</td><td class="n">{e(rates[1])}</td>'
        yield f"<td{warn}>{e(seconds_text(lag.drain_seconds))}</td></tr>"
    yield "</tbody></table></div></section>"


def _lag_note(one: LagSeries) -> str:
    now = one.points[-1][1]
    return f"{human(now)} now" + (
        f", caught up in {seconds_text(one.drain_seconds)}" if now and one.drain_seconds else ""
    )


def _rebalances(facts: Facts) -> Iterator[str]:
    yield "<section><h2>Rebalances</h2>"
    if not facts.rebalances:
        yield '<p class="dim">No rebalances.</p></section>'
        return
    yield '<ul class="legend">'
    yield from (f'<li><i class="key {kind}"></i>{e(text)}</li>' for kind, text in _KIND_TEXTS.items())
    yield '<li><i class="key other open"></i>superseded or not completed</li>'
    yield '<li><i class="key storm"></i>storm</li></ul>'
    bars = [
        (row["group"], _at(row["started_at"]), _end(row), row["causes"], _bar_text(row))
        for row in reversed(facts.rebalances)
        if row["started_at"] is not None
    ]
    storms = [(row["group"], _at(row["started_at"]), _at(row["ended_at"])) for row in facts.storms]
    yield f'<div class="scroll">{timeline(facts.lanes, bars, storms)}</div>'
    count = len(facts.rebalances)
    if count < facts.rebalance_count:
        yield f'<p class="dim">Showing {count:,} of {facts.rebalance_count:,}: '
        yield f"the latest of the {len(facts.lanes)} groups with the most rebalances.</p>"
    if facts.storms:
        yield '<h3>Storms</h3><div class="scroll"><table><thead><tr><th>group</th><th>from</th><th>to</th>'
        yield '<th class="n">rebalances</th><th class="n">partitions moved</th><th>causes</th></tr></thead><tbody>'
        for row in facts.storms[:50]:
            causes = ", ".join(f"{name} {number}" for name, number in dict(row["causes"] or ()).items())
            yield f'<tr><th scope="row">{e(row["group"])}</th><td class="t">{e(time_text(row["started_at"]))}</td>'
            yield f'<td class="t">{e(time_text(row["ended_at"]))}</td><td class="n">{row["rebalances"]:,}</td>'
            yield f'<td class="n">{row["partitions_moved"]:,}</td><td>{e(causes)}</td></tr>'
        yield "</tbody></table></div>"
    longest = sorted((row for row in facts.rebalances if row["duration_ms"]), key=lambda row: -row["duration_ms"])[:10]
    if longest:
        yield '<h3>Longest</h3><div class="scroll"><table><thead><tr><th>group</th><th class="n">epoch</th>'
        yield '<th>began</th><th class="n">took</th><th class="n">moved</th><th>why</th></tr></thead><tbody>'
        for row in longest:
            took = seconds_text(row["duration_ms"] / 1000)
            yield f'<tr><th scope="row">{e(row["group"])}</th><td class="n">{row["epoch"]:,}</td>'
            yield f'<td class="t">{e(time_text(row["started_at"]))}</td><td class="n">{e(took)}</td>'
            yield f'<td class="n">{row["partitions_moved"]:,}</td><td>{e(row["why"])}</td></tr>'
        yield "</tbody></table></div>"
    yield "</section>"


def _at(moment: Any) -> float:
    at: float = moment.timestamp()
    return at


def _end(row: Row) -> float | None:
    return None if row["completed_at"] is None else _at(row["completed_at"])


def _bar_text(row: Row) -> str:
    took = f"took {seconds_text(row['duration_ms'] / 1000)}" if row["duration_ms"] is not None else "did not complete"
    moved = f"{row['partitions_moved']} partitions moved; {row['why']}"
    return f"{row['group']}: epoch {row['epoch']}, {time_text(row['started_at'])}, {took}, {moved}"


def _racks(facts: Facts) -> Iterator[str]:
    yield "<section><h2>Racks</h2>"
    if facts.racks is None or facts.matrix is None:
        yield '<p class="dim">Racks need a topology; __consumer_offsets does not contain racks of replicas.</p>'
        yield "</section>"
        return
    if not facts.racks:
        yield '<p class="dim">No consumer group has members.</p></section>'
        return
    best = _best(facts.racks)
    names = [CURRENT, *([best] if best is not None else [])]
    pairs = [row for row in facts.matrix if row["assignor"] in names]
    # Rows and columns have the same order: the diagonal is reads within a rack.
    racks = sorted({row[name] for row in pairs for name in ("from_rack", "to_rack") if row[name] is not None})
    sources: list[str | None] = [*racks, *([None] if any(row["from_rack"] is None for row in pairs) else [])]
    members: list[str | None] = [*racks, *([None] if any(row["to_rack"] is None for row in pairs) else [])]
    yield '<p class="dim">Partitions by the rack of the replica and the rack of the member; '
    yield 'the diagonal is reads within a rack.</p><div class="matrices">'
    for name in names:
        cells = {
            (row["from_rack"], row["to_rack"]): (row["partitions"], _cell_text(row))
            for row in pairs
            if row["assignor"] == name
        }
        caption = "current" if name == CURRENT else f"with {name}"
        yield f'<figure class="matrix"><figcaption><b>{e(caption)}</b></figcaption>'
        yield f'<div class="scroll">{matrix(sources, members, cells)}</div></figure>'
    yield '</div><div class="scroll"><table><thead><tr><th>group</th><th>assignment</th>'
    yield '<th class="n">partitions</th><th class="n">cross racks</th><th></th>'
    priced = facts.priced
    yield (
        '<th class="n">cost a month</th>' if priced else ""
    ) + '<th class="n">moved</th><th class="n">saves</th></tr></thead><tbody>'
    before = None
    for row in facts.racks:
        group = row["group"] if row["group"] != before else ""
        before = row["group"]
        first = ' class="first"' if group else ""
        yield f'<tr{first}><th scope="row">{e(group)}</th><td>{e(row["assignor"])}</td>'
        if row["error"] is not None:
            yield f'<td colspan="{6 if priced else 5}">{e(row["error"])}</td></tr>'
            continue
        share = 100 * row["crossing"] / row["partitions"] if row["partitions"] else 0
        yield f'<td class="n">{row["partitions"]:,}</td><td class="n">{row["crossing"]:,}</td>'
        yield f'<td><span class="meter"><span style="width:{share:.0f}%"></span></span></td>'
        if priced:
            yield f'<td class="n">{_money(row["cost_per_month"])}</td>'
        yield f'<td class="n">{row["moved"]:,}</td>'
        yield f'<td class="n">{"" if row["assignor"] == CURRENT else _saved(row, priced)}</td></tr>'
    yield "</tbody></table></div></section>"


def _best(rows: Sequence[Row]) -> str | None:
    """Return the assignor with the fewest cross-rack partitions, if evaluated for all groups."""
    sums: dict[str, list[int]] = {}
    for row in rows:
        if row["error"] is None:
            sums.setdefault(row["assignor"], []).append(row["crossing"])
    groups = len(sums.pop(CURRENT, ()))
    crossing = {name: sum(counts) for name, counts in sums.items() if len(counts) == groups}
    return min(crossing, key=lambda name: crossing[name]) if crossing else None


def _cell_text(row: Row) -> str:
    if row["cost_per_month"]:
        return f"{_money(row['cost_per_month'])} a month"
    return f"{human(row['bytes_per_second'])}B/s" if row["bytes_per_second"] else ""


def _money(amount: float | None) -> str:
    return "–" if amount is None else f"{amount:,.0f}" if amount >= 100 else f"{amount:,.2f}"


def _saved(row: Row, priced: bool) -> str:
    saved = row["saved_crossing"]
    money = f" ({_money(row['saved_cost_per_month'])} a month)" if priced and row["saved_cost_per_month"] else ""
    return e((f"{saved:+,}" if saved else "0") + money)


def _audit(facts: Facts) -> Iterator[str]:
    yield "<section><h2>Upgrades</h2>"
    if not facts.findings:
        yield '<p class="dim">No findings.</p></section>'
        return
    yield '<ul class="counts">'
    for kind, text in _FINDINGS.items():
        if facts.finding_counts.get(kind):
            yield f"<li><b>{facts.finding_counts[kind]:,}</b> {e(text)}</li>"
    yield "</ul>"
    if not facts.compared_hashes:
        yield '<p class="dim">Hashes were not compared: this needs a topology with ids and racks.</p>'
    yield '<div class="scroll"><table><thead><tr><th>group</th><th>finding</th><th>when</th>'
    yield '<th class="n">epoch</th><th>what</th></tr></thead><tbody>'
    for row in facts.findings:
        if row["finding"] == "convertible":
            continue  # the normal case, which is only counted
        when = "now" if row["at_end"] else time_text(row["timestamp"])
        epoch = "" if row["epoch"] is None else f"{row['epoch']:,}"
        yield f'<tr><th scope="row">{e(row["group"])}</th><td><span class="tag">{e(row["finding"])}</span></td>'
        yield f'<td class="t">{e(when)}</td><td class="n">{epoch}</td><td>{e(row["sentence"])}</td></tr>'
    yield "</tbody></table></div></section>"


def _groups(facts: Facts) -> Iterator[str]:
    yield '<section><h2>Groups</h2><div class="scroll"><table><thead><tr><th>group</th><th>kind</th>'
    yield '<th>state</th><th class="n">epoch</th><th>assignor</th><th class="n">members</th>'
    yield '<th class="n">offsets</th><th>topics</th></tr></thead><tbody>'
    for row in facts.groups:
        topics = list(row["topics"] or ())
        more = f" and {len(topics) - 4} more" if len(topics) > 4 else ""
        state = e(row["state"])
        yield f'<tr><th scope="row">{e(row["group"])}</th><td>{e(row["kind"])}</td>'
        yield f'<td><span class="tag {state}">{state}</span></td><td class="n">{row["epoch"]:,}</td>'
        yield f'<td>{e(row["assignor"] or "")}</td><td class="n">{row["members"]:,}</td>'
        yield f'<td class="n">{row["offsets"]:,}</td><td>{e(", ".join(topics[:4]) + more)}</td></tr>'
    yield "</tbody></table></div>"
    if len(facts.groups) < facts.group_count:
        yield f'<p class="dim">Showing {len(facts.groups):,} of {facts.group_count:,}.</p>'
    yield "</section>"
