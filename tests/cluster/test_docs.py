"""The page about what is answered is made from the table of answers, and says all that is in it."""

import importlib.util
import re
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


def test_the_page_has_a_row_for_everything_that_is_answered_and_names_the_rest() -> None:
    page = hooks().on_page_markdown((ROOT / "docs" / "reference" / "embedded-apis.md").read_text(encoding="utf-8"))
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line.startswith("|")]
    told = {row[0]: row for row in rows[2:]}
    assert {name: (int(row[1]), row[3]) for name, row in told.items()} == {
        handled.api.name: (handled.api.key, handled.lacks) for handled in HANDLERS.values()
    }
    assert told["InitProducerId"][2] == "0–5"  # what is told of, not all that is declared
    (missing,) = re.findall(r"which embedded clusters do not support: (.*)\.$", page, re.MULTILINE)
    answered = {handled.api.key for handled in HANDLERS.values()}
    assert missing.split(", ") == [NAMES[key] for key in last_versions(KafkaVersion.NEWEST) if key not in answered]


def test_apis_have_the_names_that_they_are_declared_with() -> None:
    assert {key: api.name for key, api in APIS.items() if not api.own} == {
        key: name for key, name in NAMES.items() if key in APIS
    }
