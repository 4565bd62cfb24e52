"""`quorate demo decode`: the story is found in the records, and it is the one that Kafka's upgrade wrote."""

import json
import re
import shutil

import pytest

from quorate.cli.demo import recording as demo_module
from quorate.codecs.batches import read_batches
from quorate.codecs.log import read_log
from quorate.codecs.takeovers import stories
from tests.codecs.captures import CAPTURES


@pytest.fixture
def told(upgrade):
    return {story.group_id: story for story in stories(read_log(upgrade))}


def test_each_group_of_the_consumer_protocol_has_its_story(told):
    assert {group: (s.up.epoch_before, s.up.epoch, s.down.epoch_before, s.down.epoch) for group, s in told.items()} == {
        "bill-orders": (2, 3, 4, 5),
        "ship-orders": (3, 4, 5, 6),
        "click-stream": (3, 4, 5, 6),
    }
    for story in told.values():
        assert story.before.record.value.topics
        assert story.up.partition_metadata.record.is_tombstone
        assert story.up.metadata_hash != 0
        assert story.down.partition_metadata.record.value.topics
        assert story.down.metadata_hash == 0
        assert not story.up.reassigned
        assert not story.down.reassigned


def test_a_log_without_an_upgrade_has_no_story():
    assert list(stories(read_log(CAPTURES / "consumer-4.3"))) == []
    assert list(stories(read_log(CAPTURES / "classic-3.9"))) == []


def test_the_packaged_log_is_that_of_the_capture(upgrade):
    packaged = demo_module.DATA / "kafka-logs"
    segments = sorted(packaged.glob("*/*.log"))
    assert len(segments) == 4
    for segment in segments:
        assert segment.read_bytes() == (upgrade / segment.relative_to(packaged)).read_bytes()


def test_the_lines_that_matter_are_pointed_out(quorate):
    lines = quorate("demo", "decode").lines
    remarks = [(lines[i - 1].split(), line.strip()) for i, line in enumerate(lines) if line.strip().startswith("▲")]
    assert [(row[1], row[3], remark) for row, remark in remarks] == [
        ("1", "4", "▲ Kafka 4.0.2 writes out the partitions of the group's topics: ConsumerGroupPartitionMetadata"),
        (
            "34",
            "3",
            "▲ Kafka 4.3.1 has taken over: a hash of the topics instead (KIP-1101), so epoch 2 becomes 3; no member was given other partitions",
        ),
        ("35", "4", "▲ and with its tombstone the ConsumerGroupPartitionMetadata is gone"),
        ("84", "4", "▲ Kafka 4.0.2 again: it does not know the hash, and writes ConsumerGroupPartitionMetadata anew"),
        ("85", "3", "▲ the hash is gone, and epoch 4 becomes 5: the way back has its bump, too"),
    ]


def test_every_record_of_the_group_is_shown_or_counted(quorate, upgrade):
    ended = quorate("demo", "decode")
    rows = re.findall(r"^ +1 +\d+  0[78]:", ended.out, flags=re.MULTILINE)
    commits = [int(number) for number in re.findall(r"… (\d+) committed offsets", ended.out)]
    assert len(rows) + sum(commits) == len(quorate("decode", upgrade, "--group", "bill-orders").lines)


def test_the_groups_are_compared(quorate):
    out = quorate("demo", "decode").out
    assert "bill-orders   2 → 3                0x4f3990f6b9f05e74  4 → 5     no" in out
    assert (
        "Kafka's console formatters print 539 of the 672 records; the other 133 are of types that none of them knows."
        in out
    )


def test_another_group(quorate):
    assert "epoch 3 becomes 4" in quorate("demo", "decode", "--group", "ship-orders").out
    ended = quorate("demo", "decode", "--group", "legacy-rr")
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "error: --group legacy-rr: the upgrade did nothing to it",
        "       use one of bill-orders, ship-orders, click-stream",
    ]
    assert quorate("demo", "decode", "--group", "nope").err.splitlines() == [
        "error: --group nope: there is no such group in the log",
        "       use one of bill-orders, ship-orders, click-stream",
    ]


def test_what_is_said_follows_the_records_and_not_this_text(quorate, tmp_path, monkeypatch):
    """Without the downgrade's records nothing is said about a way back."""
    shutil.copytree(demo_module.DATA, tmp_path, dirs_exist_ok=True)
    segment = tmp_path / "kafka-logs" / "__consumer_offsets-1" / "00000000000000000000.log"
    position = next(b.header.position for b in read_batches(segment.read_bytes()) if b.header.base_offset == 84)
    segment.write_bytes(segment.read_bytes()[:position])
    monkeypatch.setattr(demo_module, "DATA", tmp_path)
    out = quorate("demo", "decode").out
    assert out.count("▲") == 3
    assert re.search(r"bill-orders +2 → 3 +0x4f3990f6b9f05e74 +no", out)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_it_fits_the_width(quorate, width):
    lines = quorate("demo", "decode", "--width", width).lines
    table = [line for line in lines if width >= 80 or not line.startswith(("group  ", "bill-", "ship-", "click-"))]
    proposed = [line for line in table if "kafka-logs" in line]  # a path may be as long as it is
    assert max(len(line) for line in table if line not in proposed) <= width


@pytest.mark.parametrize("width", [80, 100, 140])
def test_nothing_is_cut_in_the_width_of_a_terminal(quorate, width):
    text = " ".join(quorate("demo", "decode", "--width", width).out.split())
    for part in (
        "KGdYfLNn…: instance inst-1, rack rack-b, client r1 at",
        "epoch 3, hash 0x4f3990f6b9f05e74",
        "xfgFzHx6…: epoch 1, unrevoked, has orders 3-5, clicks.eu 2, must give up orders 0-2, clicks.eu 0-1",
    ):
        assert part in text
    assert "__consumer_offsets, 2026-11-21" in text
    assert "xfgFzHx6Rs" not in text


def test_the_commands_that_it_proposes_work(quorate, monkeypatch):
    monkeypatch.chdir(demo_module.DATA.parent)
    lines = quorate("demo", "decode").lines
    proposed = [line.split("#")[0].split()[1:] for line in lines[lines.index("To try next") + 1 :]]
    assert len(proposed) == 4
    for command in proposed[:3]:
        ended = quorate(*[word.strip("'") for word in command])
        assert ended.status == 0
        assert ended.lines
    assert json.loads(quorate(*proposed[1]).lines[0])["name"] == "OffsetCommit"


@pytest.mark.parametrize(("path", "called"), [("/nowhere", ".venv/bin/quorate"), (None, "quorate")])
def test_the_commands_that_it_proposes_can_be_typed_as_they_are(quorate, monkeypatch, tmp_path, path, called):
    monkeypatch.setattr("sys.argv", [".venv/bin/quorate", "demo", "decode"])
    (tmp_path / "quorate").touch(mode=0o755)
    monkeypatch.setenv("PATH", path or str(tmp_path))
    lines = quorate("demo", "decode").lines
    assert {line.split()[0] for line in lines[lines.index("To try next") + 1 :]} == {called}
