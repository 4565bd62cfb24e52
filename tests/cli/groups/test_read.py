"""`quorate groups` on files: reading by columns gives the same as reading entries."""

import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from quorate.cli.groups import read as groups_read
from quorate.cli.groups.read import read_files
from quorate.codecs.errors import InputError
from quorate.coordinator.history import Moment
from quorate.coordinator.history.group_rows import group_rows
from quorate.coordinator.history.replay import EventsOf, ReplayedGroup, ReplayedGroups
from tests.coordinator.captures import CAPTURES, entries, folders
from tests.coordinator.snapshots import snapshot

NAMES = sorted(path.name for path in CAPTURES.iterdir())


def shown(found: ReplayedGroups) -> Any:
    groups = [
        (group.partition, group.view, list(group.history.state.offsets.of_group(group.view.group_id)))
        for group in found.groups
    ]
    states = {group.partition: snapshot(group.history.state) for group in found.groups}
    return groups, states, found.names, found.damaged, found.events, found.known_groups


@pytest.mark.parametrize("capture", NAMES)
def test_columns_and_entries_show_the_same(capture: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = next(one for one in folders(capture) if entries(one))
    middle = entries(folder)[len(entries(folder)) // 2]
    moments = (Moment(), Moment(timestamp_ms=middle.timestamp_ms), Moment(offsets={middle.partition: middle.offset}))
    by_columns = [shown(read_files([str(CAPTURES / capture)], (), moment, None, events="none")) for moment in moments]
    assert by_columns[0][0]
    monkeypatch.setattr(groups_read, "find_spec", lambda name: None)
    by_entries = [shown(read_files([str(CAPTURES / capture)], (), moment, None, events="none")) for moment in moments]
    assert by_columns == by_entries


@pytest.mark.parametrize("capture", NAMES)
def test_groups_are_described_without_most_commits(capture: str) -> None:
    folder = next(one for one in folders(capture) if entries(one))
    middle = entries(folder)[len(entries(folder)) // 2]
    for moment in (Moment(), Moment(timestamp_ms=middle.timestamp_ms)):
        few, every = (
            read_files([str(CAPTURES / capture)], (), moment, None, events=events) for events in ("groups", "all")
        )
        assert list(group_rows(few)) == list(group_rows(every))
        assert sum(map(len_of_offsets, few.groups)) <= sum(map(len_of_offsets, every.groups))


def len_of_offsets(group: ReplayedGroup) -> int:
    return len(list(group.history.state.offsets.of_group(group.view.group_id)))


def test_damage_is_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "__consumer_offsets-0"
    source = next(one for one in folders(NAMES[0]) if entries(one))
    data = bytearray(max(source.glob("*.log"), key=lambda path: path.stat().st_size).read_bytes())
    data[80] ^= 1
    folder.mkdir()
    (folder / f"{0:020}.log").write_bytes(data)
    found = read_files([str(folder)], (), Moment(), None, events="none")
    assert found.damaged
    result = capsys.readouterr().err
    assert "position 0" in result
    assert "--skip-corrupt" not in result, "the command always continues, and has no such option"


@pytest.fixture
def copies(tmp_path: Path) -> list[str]:
    """Log directories of two brokers; in the second one, a partition lacks the latest records."""
    found = []
    for name in ("one", "two"):
        for folder in folders("upgrade-4.0-to-4.3-and-back"):
            if folder.name.startswith("__consumer_offsets"):
                shutil.copytree(folder, tmp_path / name / folder.name)
        found.append(str(tmp_path / name))
    (shorter,) = (tmp_path / "two" / "__consumer_offsets-1").glob("*.log")
    os.truncate(shorter, 9000)
    return found


@pytest.mark.parametrize("events", ["none", "all"])
@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_copies_of_several_brokers_are_read_as_one_log(
    copies: list[str], events: EventsOf, order: tuple[int, int]
) -> None:
    both = read_files([copies[one] for one in order], (), Moment(), None, events=events)
    assert shown(both) == shown(read_files(copies[:1], (), Moment(), None, events=events))


def test_logs_of_two_clusters_are_not_mixed(copies: list[str]) -> None:
    with pytest.raises(InputError, match=r"two copies of .* differ") as refused:
        read_files([copies[0], str(CAPTURES / "consumer-4.3")], (), Moment(), None, events="none")
    assert refused.value.remedy == ("use the logs of one cluster only",)
