"""The page of APIs is generated from the table of handlers, and complete."""

import importlib.util
from pathlib import Path
from types import ModuleType

from quorate.cluster.handlers import HANDLERS
from quorate.codecs.api.broker import APIS
from quorate.codecs.releases import NAMES, KafkaVersion, last_versions

ROOT = Path(__file__).resolve().parents[2]


def hooks() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "scripts" / "docs_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_has_a_row_for_each_handled_api_and_names_the_others() -> None:
    page = hooks().on_page_markdown((ROOT / "docs" / "reference" / "embedded-apis.md").read_text(encoding="utf-8"))
    handled_part, missing_part = (rows_of(part) for part in page.split("which embedded clusters do not support:"))
    reported = {row[0]: row for row in handled_part}
    assert {name: (int(row[1]), row[3]) for name, row in reported.items()} == {
        handled.api.name: (handled.api.key, handled.lacks) for handled in HANDLERS.values()
    }
    assert reported["InitProducerId"][2] == "0–5"  # the reported versions, not all declared ones
    handled_keys = {handled.api.key for handled in HANDLERS.values()}
    assert [row[0] for row in missing_part] == [
        NAMES[key] for key in last_versions(KafkaVersion.NEWEST) if key not in handled_keys
    ]
    assert all(row[2] for row in missing_part)  # the reason


def rows_of(page: str) -> list[list[str]]:
    """Return the cells of a table, without its heading."""
    lines = [line for line in page.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[2:]]


def test_apis_have_their_declared_names() -> None:
    assert {key: api.name for key, api in APIS.items() if not api.own} == {
        key: name for key, name in NAMES.items() if key in APIS
    }
