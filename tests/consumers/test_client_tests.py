"""The page about the clients' own tests lists what the script expects to fail."""

import re
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_page_lists_all_expected_failures_with_their_reasons() -> None:
    plugin = (ROOT / "scripts" / "client_tests_plugin.py").read_text()
    expected = set(re.findall(r'^ +"(test_\w+)": ', plugin, re.MULTILINE))
    page = (ROOT / "docs" / "contributing" / "client-tests.md").read_text()
    rows = [line for line in page.splitlines() if line.startswith("| `test_")]
    assert expected
    assert {name for row in rows for name in re.findall(r"`(test_\w+)`", row)} == expected
    reasons = re.findall(r'^[A-Z]+ = "(.+)"$', plugin, re.MULTILINE)
    assert all(any(reason in row for row in rows) for reason in reasons)
