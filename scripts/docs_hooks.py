"""A mkdocs hook that generates parts of pages from the code.

It replaces the comments `<!-- records -->`, `<!-- apis -->` and `<!-- embedded apis -->`.
"""

import importlib
import inspect
from typing import Any

from quorate.cluster import EmbeddedCluster
from quorate.cluster.handlers import HANDLERS, MISSING, advertised
from quorate.codecs.api.broker import APIS
from quorate.codecs.message import MessageSpec
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.releases import KafkaVersion

RECORD_COLUMNS = ["field", "type", "versions", "default", "tag", "since"]


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with generated parts; mkdocs calls this for every page."""
    markdown = markdown.replace("<!-- records -->", _records()) if "<!-- records -->" in markdown else markdown
    markdown = markdown.replace("<!-- apis -->", _apis()) if "<!-- apis -->" in markdown else markdown
    return (
        markdown.replace("<!-- embedded apis -->", embedded_apis())
        if "<!-- embedded apis -->" in markdown
        else markdown
    )


def _records() -> str:
    out = []
    for topic, types in RECORD_TYPES.items():
        out += [f"## `{topic}`", ""]
        for record_type in types.values():
            written = (
                "not written any more" if record_type.written is None else f"version {record_type.written} is written"
            )
            note = f"; {record_type.note}" if record_type.note else ""
            out += [
                f"### {record_type.type_id} {record_type.name}",
                "",
                f"Since Kafka {record_type.since}; value versions {_span(record_type.versions)}, {written}{note}.",
                "",
                *_table(RECORD_COLUMNS, _rows(record_type.key, "key.") + _rows(record_type.value, "")),
                "",
            ]
    return "\n".join(out)


def _apis() -> str:
    out = []
    for api in APIS.values():
        flexible = [version for version in api.versions if api.request.is_flexible(version)]
        since = f"flexible since version {flexible[0]}" if flexible else "not flexible"
        module = inspect.getdoc(importlib.import_module(api.request.cls.__module__)) or ""
        own = ", quorate's own" if api.own else ""
        out += [f"## {api.name}", "", f"API key {api.key}{own}; {since}.", "", module, ""]
        for spec in (api.request, api.response):
            out += [f"### {spec.name}", "", inspect.getdoc(spec.cls) or "", ""]
            out += [*_table(RECORD_COLUMNS[:4], _rows(spec, "")), ""]
    return "\n".join(out)


def embedded_apis() -> str:
    """Return a table of the APIs of embedded clusters with their gaps, and the missing APIs."""
    versions_of = advertised(EmbeddedCluster().core)
    rows = []
    for handled in sorted(HANDLERS.values(), key=lambda handler: handler.api.key):
        api = handled.api
        known = versions_of.get(api.key)
        versions = f"{_span(api.versions)}, where it is enabled" if known is None else _span(known)
        rows.append([api.name, str(api.key), versions, handled.lacks])
    missing = [[name, str(key), reason] for key, (name, reason) in MISSING.items()]
    return "\n".join(
        [
            *_table(["API", "key", "versions", "what it lacks"], rows),
            "",
            f"Brokers of {KafkaVersion.NEWEST.short} also have these APIs, which embedded clusters do not support:",
            "",
            *_table(["API", "key", "reason"], missing),
        ]
    )


def _rows(spec: MessageSpec, prefix: str, around: range | None = None) -> list[list[str]]:
    """Return name, type, versions, default, tag and release of each field.

    `around`: the versions of the surrounding field, which bound those of a struct's fields.
    """
    around = spec.versions if around is None else around
    assert around is not None
    rows = []
    for field in spec.fields:
        versions = range(max(field.versions.start, around.start), min(field.versions.stop, around.stop))
        if not versions:
            continue  # only in versions that Kafka has removed
        since = max(field.nullable_since, versions[0])
        nullable = "" if not field.nullable else ", nullable" if since == versions[0] else f", nullable since {since}"
        tag = "" if field.tag is None else str(field.tag)
        default = "" if field.default in (0, "", (), b"", bytes(16)) else f"`{field.default!r}`"
        kind = field.type.name + nullable
        rows.append([f"`{prefix}{field.name}`", kind, _span(versions), default, tag, field.release or ""])
        inner = getattr(getattr(field.type, "element", field.type), "spec", None)
        if inner is not None:
            rows += _rows(inner, f"{prefix}{field.name}.", versions)
    return rows


def _table(columns: list[str], rows: list[list[str]]) -> list[str]:
    """Return the lines of a table; cells after the last column are left out."""
    lines = [columns, ["---"] * len(columns), *rows]
    return ["| " + " | ".join(cells[: len(columns)]) + " |" for cells in lines]


def _span(versions: range) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}–{versions[-1]}"
