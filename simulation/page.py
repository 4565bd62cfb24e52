"""A trace as a page that opens without a server, and loads nothing."""

from html import escape

from quorate.simulation.trace import Entry, Trace

_STYLE = """
body { font: 14px/1.4 system-ui, sans-serif; margin: 1.5rem; color: #222; background: #fff }
table { border-collapse: collapse; width: 100% } td, th { padding: .15rem .5rem; text-align: left; vertical-align: top }
td { font-family: ui-monospace, monospace; font-size: 12px; overflow-wrap: anywhere }
td:first-child { white-space: nowrap; text-align: right } tr.response td { color: #555 }
tr.fault td { background: #fde8e8; font-weight: 600 } tr.note td { background: #eef4ff }
tr.lost td, tr.abort td, tr.close td, tr.connect td { color: #a15c00 } input { width: 30rem; max-width: 100% }
pre { white-space: pre-wrap; background: #f6f6f6; padding: .75rem }
@media (prefers-color-scheme: dark) {
  body { color: #ddd; background: #1b1b1b } tr.response td { color: #aaa } pre { background: #262626 }
  tr.fault td { background: #5a2222 } tr.note td { background: #22304a }
}
"""

_SCRIPT = """
const rows = [...document.querySelectorAll("tbody tr")];
document.querySelector("input").addEventListener("input", event => {
  const words = event.target.value.toLowerCase().split(/\\s+/);
  for (const row of rows) row.hidden = !words.every(word => row.textContent.toLowerCase().includes(word));
});
"""


def page(trace: Trace, token: str, error: BaseException | None) -> str:
    """Return the HTML page of a trace. `error`: why the schedule failed."""
    rows = "\n".join(map(_row, trace.entries()))
    outcome = "no failure" if error is None else f"{type(error).__name__}: {error}"
    return f"""<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{escape(token)}</title><style>{_STYLE}</style>
<h1>Schedule {escape(token)}</h1>
<pre>{escape(outcome)}</pre>
<p><input type="search" placeholder="Filter: a client, an API, #3, fault" aria-label="Filter"></p>
<table><thead><tr><th>s</th><th>connection</th><th>from, to</th><th>what</th></tr></thead><tbody>
{rows}
</tbody></table><script>{_SCRIPT}</script></html>
"""


def _row(entry: Entry) -> str:
    where = f"#{entry.connection}" if entry.connection else ""
    ends = f"{entry.source} → {entry.target}" if entry.target else entry.source
    what = entry.text
    if entry.api:
        took = "lost" if entry.arrives_ns is None else f"arrives after {(entry.arrives_ns - entry.at_ns) / 1e6:.2f} ms"
        what = f"{entry.api} {entry.text} ({took})"
    elif entry.kind != "note":
        what = f"{entry.kind} {entry.text}"
    cells = "".join(f"<td>{escape(one)}</td>" for one in (f"{entry.at_ns / 1e9:.6f}", where, ends, what))
    return f'<tr class="{escape(entry.kind)}">{cells}</tr>'
