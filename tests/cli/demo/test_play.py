"""`quorate demo`: its output on real consumers and an embedded cluster, and the page."""

import os
import re
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import SimpleNamespace

import click
import pytest
from kafka.errors import KafkaTimeoutError

from quorate.cli.demo.html import page
from quorate.cli.demo.show import table_lines
from quorate.cluster.errors import ClusterError
from quorate.integration.play import Chapter, Play, Snapshot
from tests.cli.demo.test_picture import PICTURE, script, text_of
from tests.cli.terminal import in_terminal

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="module")
def played(tmp_path_factory):
    """One run of the demo for all tests, as `make picture` runs it: it takes some seconds."""
    folder = tmp_path_factory.mktemp("demo")
    coloured = script().demo_output(folder)
    page = (folder / "quorate-demo.html").read_text(encoding="utf-8")
    return SimpleNamespace(out=click.unstyle(coloured), coloured=coloured, page=page)


def test_every_message_is_consumed_and_all_chapters_have_a_result(played):
    (sent, consumed) = re.search(r"([\d,]+) messages sent, ([\d,]+) consumed", played.out).groups()
    assert sent == consumed
    assert int(sent.replace(",", "")) > 100
    assert [line[:2] for line in played.out.splitlines() if re.match(r"\d\. ", line)] == [f"{n}." for n in range(1, 10)]
    assert played.out.count("→ ") >= 9


def test_reading_follows_racks(played):
    said = re.findall(r"→ (?:[\w -]+; )?(\d) of (\d) partitions are read in their consumer's rack", played.out)
    assert [total for _, total in said] == ["6", "6", "6", "9", "9", "9", "9"]
    local = [int(one) for one, _ in said]
    # All partitions can be local, unless a member joined late on a busy machine.
    assert local[0] >= 5
    assert local[1] < 6  # rack c has no replicas any more
    assert "(remote)" in played.out
    assert local[2] > local[1]


def test_running_consumers_change_their_protocol_and_one_of_them_assigns(played):
    assert "→ 2 consumers send its heartbeats; " in played.out
    assert re.search(r"→ worker-[ac] assigned for the group; ", played.out)


def test_each_partition_has_one_owner(played):
    for table in re.findall(r"member +rack +owns.*?\n((?:   worker.*\n)+)", played.out):
        owned = [
            number
            for line in table.splitlines()
            for number in re.match(r"   worker-\w  \w     ([\d ]*?|-)  ", line + "  ")[1].replace("-", "").split()
        ]
        assert sorted(owned) == [str(n) for n in range(len(owned))]
        assert len(owned) in (6, 9)


def test_the_recorded_upgrade_is_shown(played):
    assert re.search(r"bill-orders +2 → 3 +0x4f3990f6b9f05e74 +4 → 5 +no", played.out)
    assert "672 records of __consumer_offsets decoded; epochs increase, and no partition was reassigned" in played.out


def test_the_page_is_one_file_with_a_row_for_each_partition(played):
    assert not re.findall(r"https?://", played.page)
    assert "<script" not in played.page
    assert "default-src 'none'" in played.page
    svg = ET.fromstring(re.search(r"<svg.*</svg>", played.page, re.DOTALL)[0])
    texts = ["".join(one.itertext()) for one in svg.iter("text")]
    assert [text for text in texts if text.startswith("partition")] == [f"partition {n}" for n in range(9)]
    titles = [one.text for one in svg.iter("title")]
    assert any(re.match("worker-c, read from rack [ab],", title) for title in titles)
    assert any("worker-c, read from rack c" in title for title in titles)


def stable_text(lines):
    """Remove what differs between runs: numbers, owners of partitions, and optional remarks."""
    lines = [re.sub(r"none twice|of them twice", "twice", line) for line in lines]
    lines = [re.sub(r"worker-[ac] assigned", "worker assigned", line) for line in lines]
    found = [re.sub(r"[\d\s,.-]+", " ", line).strip().replace("no partition was revoked; ", "") for line in lines]
    return [line.split()[0] if line.startswith("worker") else line for line in found]


def test_the_picture_is_what_the_demo_prints_now(played):
    shown, picture = text_of(script().picture(played.coloured)), text_of(PICTURE.read_text())
    assert stable_text(shown) == stable_text(picture), "run `make picture`"
    assert max(map(len, played.out.splitlines())) <= script().COLUMNS, "the picture has only a part of a line"


def snapshot(**changed):
    given = {
        "at_s": 1.0,
        "racks": {1: "a", 2: "b"},
        "replicas": {0: (1, 2), 1: (2, 1)},
        "owners": {0: "one", 1: "one"},
        "sources": {0: 1, 1: 2},
        "member_racks": {"one": "a", "two": "b"},
        "consumed": {"one": 1_234, "two": 0},
    }
    return Snapshot(**{**given, **changed})


def test_a_partition_is_remote_if_it_is_read_from_another_rack():
    assert [snapshot().local(partition) for partition in (0, 1)] == [True, False]
    assert not snapshot(sources={}).local(0)
    assert [snapshot().could_be_local(partition) for partition in (0, 1)] == [True, True]
    assert not snapshot(racks={1: "x", 2: "b"}).could_be_local(0)
    lines = list(map(click.unstyle, table_lines(snapshot())))
    assert "a: 0; b: 1 (remote)" in lines[1]
    assert "1,234" in lines[1]


def test_moves_are_counted_also_after_a_time_without_owner():
    play = Play()
    play.snapshots = [snapshot(), snapshot(owners={0: "one"}), snapshot(at_s=3.0, owners={0: "one", 1: "two"})]
    assert list(play.moves()) == [(3.0, 1, "one", "two")]


def test_names_in_the_page_are_escaped():
    play = Play()
    play.chapters = [Chapter(title="<b>bold</b>", began_s=0.0, said="&c")]
    play.snapshots = [snapshot(member_racks={"one": "<a>", "two": "b"}), snapshot(at_s=2.0)]
    made = page(play, "<summary>")
    assert "<b>bold" not in made
    assert "<summary>" not in made
    assert "rack &lt;a&gt;" in made or "(rack a)" in made


def test_a_missing_folder_is_an_error(quorate):
    ended = quorate("demo", "--html", "/nowhere/demo.html")
    assert ended.status == 1
    assert ended.err.splitlines()[0] == "error: --html /nowhere/demo.html: folder /nowhere does not exist"


TRY_AGAIN = "       if the machine was very busy, try again"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (ClusterError("broker 1 cannot listen", "use it"), ["error: broker 1 cannot listen", "       use it"]),
        (KafkaTimeoutError("late"), ["error: the demo failed: KafkaTimeoutError: late", TRY_AGAIN]),
        (TimeoutError("no response"), ["error: the demo failed: no response", TRY_AGAIN]),
    ],
    ids=["cluster", "client", "group"],
)
def test_failures_are_an_error_with_a_remedy(quorate, tmp_path, monkeypatch, error, said):
    def fails(play):
        raise error

    monkeypatch.setattr(Play, "run", fails)
    ended = quorate("demo", "--html", str(tmp_path / "demo.html"))
    assert (ended.status, ended.err.splitlines()) == (1, said)
    assert not (tmp_path / "demo.html").exists()


def test_a_terminal_shows_progress_live_and_keeps_finished_chapters():
    code = """
from quorate.integration.play import Chapter, Play, Snapshot
from quorate.cli.demo.show import live_output
from tests.cli.demo.test_play import snapshot
with live_output() as show:
    play = Play(show)
    play.chapters.append(Chapter(title="Something begins", began_s=0.0))
    play.snapshots.append(snapshot())
    show(play)
    play.chapters[0].said = "it is over"
    show(play)
print("the end")
"""
    environment = os.environ | {"TERM": "xterm", "NO_COLOR": "1", "LC_ALL": "C.UTF-8"}
    command = [sys.executable, "-W", "ignore", "-c", f"import sys; sys.path.append({str(ROOT)!r})\n{code}"]
    status, screen, _, _ = in_terminal(command, streams=("stdout", "stderr"), env=environment)
    assert status == 0, screen
    screen = click.unstyle(screen)
    assert "1. Something begins …" in screen
    assert "one     a     0 1   a: 0; b: 1 (remote)" in screen
    assert screen.index("→ it is over") > screen.index("Something begins …")
    assert screen.rstrip().endswith("the end")


def test_a_page_that_cannot_be_written_is_an_error_before_the_run(quorate, monkeypatch):
    monkeypatch.setattr("quorate.cli.errors.os.access", lambda file, mode: False)  # root may write anywhere
    ended = quorate("demo")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.splitlines()[0] == "error: --html quorate-demo.html: cannot be written"
