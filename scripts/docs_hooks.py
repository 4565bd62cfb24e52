"""Pages of the documentation that are made from the code: a mkdocs hook that fills in `<!-- records -->` and `<!-- api: MODULE -->`."""

import importlib
import inspect
import re
from typing import Any

from quorate.codecs.message import RECORD_TYPES, MessageSpec

_API = re.compile(r"<!-- api: ([\w.]+) -->")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Called by mkdocs for every page."""
    markdown = markdown.replace("<!-- records -->", _records()) if "<!-- records -->" in markdown else markdown
    return _API.sub(lambda match: _api(match[1]), markdown)


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
                "| field | type | versions | tag | default | since |",
                "|---|---|---|---|---|---|",
                *_rows(record_type.key, "key."),
                *_rows(record_type.value, ""),
                "",
            ]
    return "\n".join(out)


def _rows(spec: MessageSpec, prefix: str) -> list[str]:
    rows = []
    for field in spec.fields:
        nullable = ", nullable" if field.nullable else ""
        versions = (
            ""
            if spec.versions is None
            else _span(range(field.versions[0], min(field.versions[-1], spec.versions[-1]) + 1))
        )
        tag = "" if field.tag is None else str(field.tag)
        default = "" if field.default in (0, "", (), b"", bytes(16)) else f"`{field.default!r}`"
        rows.append(
            f"| `{prefix}{field.name}` | {field.type.name}{nullable} | {versions} | {tag} | {default} | {field.release or ''} |"
        )
        inner = getattr(getattr(field.type, "element", field.type), "spec", None)
        if inner is not None:
            rows += _rows(inner, f"{prefix}{field.name}.")
    return rows


def _span(versions: range) -> str:
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]}–{versions[-1]}"


def _api(module_name: str) -> str:
    module = importlib.import_module(module_name)
    out = []
    for name in module.__all__:
        thing = getattr(module, name)
        if not callable(thing):
            continue
        try:
            signature = str(inspect.signature(thing)) if inspect.isfunction(thing) else ""
        except ValueError:
            signature = ""
        out += [
            f"### {name}",
            "",
            f"```text\n{name}{signature}\n```" if signature else "",
            "",
            inspect.getdoc(thing) or "",
            "",
        ]
    return "\n".join(out)
