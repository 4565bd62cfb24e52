"""`quorate groups` on files reads them by columns where it can, and shows what it shows entry by entry."""

from pathlib import Path
from typing import Any

import pytest

from quorate.cli import groups_read
from quorate.cli.groups_read import Found, read_files
from quorate.coordinator.history import Moment
from tests.coordinator.captures import CAPTURES, entries, folders
from tests.coordinator.snapshots import snapshot

NAMES = sorted(path.name for path in CAPTURES.iterdir())


def shown(found: Found) -> Any:
    groups = [
        (one.partition, one.view, list(one.history.state.offsets.of_group(one.view.group_id))) for one in found.groups
    ]
    states = {one.partition: snapshot(one.history.state) for one in found.groups}
    return groups, states, found.names, found.damaged, found.events, found.there


@pytest.mark.parametrize("capture", NAMES)
def test_columns_and_entries_show_the_same(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = next(one for one in folders(capture) if entries(one))
    middle = entries(folder)[len(entries(folder)) // 2]
    moments = (Moment(), Moment(timestamp_ms=middle.timestamp_ms), Moment(offsets={middle.partition: middle.offset}))
    by_columns = [shown(read_files([str(CAPTURES / capture)], (), moment, None, history=False)) for moment in moments]
    assert by_columns[0][0]
    monkeypatch.setattr(groups_read, "find_spec", lambda name: None)
    by_entries = [shown(read_files([str(CAPTURES / capture)], (), moment, None, history=False)) for moment in moments]
    assert by_columns == by_entries


def test_damage_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    source = next(one for one in folders(NAMES[0]) if entries(one))
    data = bytearray(max(source.glob("*.log"), key=lambda path: path.stat().st_size).read_bytes())
    data[80] ^= 1
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(data)
    found = read_files([str(folder)], (), Moment(), None, history=False)
    assert found.damaged
    assert "position 0" in capsys.readouterr().err
