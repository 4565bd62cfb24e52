"""`quorate demo decode`: the effects of the recorded upgrade are found in the records."""

import json
import re
import shutil

import pytest

from quorate.cli.demo import recording as demo_module
from quorate.codecs.batches import read_batches
from quorate.codecs.group_upgrades import group_upgrades
from quorate.codecs.log import read_log
from tests.codecs.helpers.captures import CAPTURES


@pytest.fixture
def takeovers(upgrade):
    return {story.group_id: story for story in group_upgrades(read_log(upgrade))}


def test_epochs_of_each_consumer_group_are_found(takeovers):
    assert {
        group: (s.up.epoch_before, s.up.epoch, s.down.epoch_before, s.down.epoch) for group, s in takeovers.items()
    } == {
        "bill-orders": (2, 3, 4, 5),
        "ship-orders": (3, 4, 5, 6),
        "click-stream": (3, 4, 5, 6),
    }
    for story in takeovers.values():
        assert story.before.record.value.topics
        assert story.up.partition_metadata.record.is_tombstone
        assert story.up.metadata_hash != 0
        assert story.down.partition_metadata.record.value.topics
        assert story.down.metadata_hash == 0
        assert not story.up.reassigned
        assert not story.down.reassigned


def test_a_log_without_an_upgrade_has_no_takeovers():
    assert list(group_upgrades(read_log(CAPTURES / "consumer-4.3"))) == []
    assert list(group_upgrades(read_log(CAPTURES / "classic-3.9"))) == []


def test_the_packaged_log_is_that_of_the_capture(upgrade):
    packaged = demo_module.DATA / "kafka-logs"
    segments = sorted(packaged.glob("*/*.log"))
    assert len(segments) == 4
    for segment in segments:
        assert segment.read_bytes() == (upgrade / segment.relative_to(packaged)).read_bytes()


def test_important_records_have_remarks(quorate):
    lines = quorate("demo", "decode").lines
    remarks = [(lines[i - 1].split(), line.strip()) for i, line in enumerate(lines) if line.strip().startswith("▲")]
    assert [(row[1], row[3], remark) for row, remark in remarks] == [
        ("1", "4", "▲ Kafka 4.0.2 stores the partitions of the group's topics: ConsumerGroupPartitionMetadata"),
        (
            "34",
            "3",
            "▲ Kafka 4.3.1 is the coordinator: it stores a hash of the topics instead (KIP-1101), "
            "so epoch 2 becomes 3; no partition was reassigned",
        ),
        ("35", "4", "▲ its tombstone removes the ConsumerGroupPartitionMetadata"),
        (
            "84",
            "4",
            "▲ Kafka 4.0.2 is the coordinator again: it does not know the hash, "
            "and writes ConsumerGroupPartitionMetadata",
        ),
        ("85", "3", "▲ the hash is removed, and epoch 4 becomes 5: the downgrade bumps the epoch, too"),
    ]


def test_every_record_of_the_group_is_shown_or_counted(quorate, upgrade):
    ended = quorate("demo", "decode")
    rows = re.findall(r"^ +1 +\d+  0[78]:", ended.out, flags=re.MULTILINE)
    commits = [int(number) for number in re.findall(r"… (\d+) committed offsets", ended.out)]
    assert len(rows) + sum(commits) == len(quorate("decode", upgrade, "--group", "bill-orders").lines)


def test_the_groups_are_compared(quorate):
    out = quorate("demo", "decode").out
    assert "bill-orders   2 → 3                0x4f3990f6b9f05e74  4 → 5     no" in out
    summary = "print 539 of the 672 records; the other 133 are of types that none of them supports."
    assert summary in " ".join(out.split())


def test_another_group(quorate):
    assert "epoch 3 becomes 4" in quorate("demo", "decode", "--group", "ship-orders").out
    ended = quorate("demo", "decode", "--group", "legacy-rr")
    assert ended.status == 1
    assert ended.err.splitlines() == [
        "error: --group legacy-rr: the upgrade did not affect it",
        "       use one of bill-orders, ship-orders, click-stream",
    ]
    assert quorate("demo", "decode", "--group", "nope").err.splitlines() == [
        "error: --group nope: the log has no such group",
        "       use one of bill-orders, ship-orders, click-stream",
    ]


def test_remarks_are_computed_from_the_records(quorate, tmp_path, monkeypatch):
    """Without the records of the downgrade there are no remarks on it."""
    shutil.copytree(demo_module.DATA, tmp_path, dirs_exist_ok=True)
    segment = tmp_path / "kafka-logs" / "__consumer_offsets-1" / "00000000000000000000.log"
    position = next(b.header.position for b in read_batches(segment.read_bytes()) if b.header.base_offset == 84)
    segment.write_bytes(segment.read_bytes()[:position])
    monkeypatch.setattr(demo_module, "DATA", tmp_path)
    out = quorate("demo", "decode").out
    assert out.count("▲") == 3
    assert re.search(r"bill-orders +2 → 3 +0x4f3990f6b9f05e74 +no", out)


@pytest.mark.parametrize("width", [60, 80, 120])
def test_output_fits_the_width(quorate, width):
    lines = quorate("demo", "decode", "--width", width).lines
    table = [line for line in lines if width >= 80 or not line.startswith(("group  ", "bill-", "ship-", "click-"))]
    proposed = [line for line in table if "kafka-logs" in line]  # paths are not cut
    assert max(len(line) for line in table if line not in proposed) <= width


def test_a_width_that_no_line_can_have_is_an_error(quorate):
    ended = quorate("demo", "decode", "--width", 10**14)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("error: Invalid value for '--width'")


@pytest.mark.parametrize("width", [80, 100, 140])
def test_records_are_not_cut_at_the_width_of_a_terminal(quorate, width):
    text = " ".join(quorate("demo", "decode", "--width", width).out.split())
    for part in (
        "KGdYfLNn…: instance inst-1, rack rack-b, client r1 at",
        "epoch 3, hash 0x4f3990f6b9f05e74",
        "xfgFzHx6…: epoch 1, unrevoked partitions, assigned orders 3-5, clicks.eu 2, "
        "pending revocation orders 0-2, clicks.eu 0-1",
    ):
        assert part in text
    assert "__consumer_offsets, 2026-11-21" in text
    assert "xfgFzHx6Rs" not in text


def test_suggested_commands_work(quorate, monkeypatch):
    monkeypatch.chdir(demo_module.DATA.parent)
    lines = quorate("demo", "decode").lines
    proposed = [line.split("#")[0].split()[1:] for line in lines[lines.index("To try next") + 1 :]]
    assert len(proposed) == 4
    for command in proposed[:3]:
        ended = quorate(*[word.strip("'") for word in command])
        assert ended.status == 0
        assert ended.lines
    assert json.loads(quorate(*proposed[1]).lines[0])["name"] == "OffsetCommit"


@pytest.mark.parametrize(("path", "command"), [("/nowhere", ".venv/bin/quorate"), (None, "quorate")])
def test_suggested_commands_name_the_executable(quorate, monkeypatch, tmp_path, path, command):
    monkeypatch.setattr("sys.argv", [".venv/bin/quorate", "demo", "decode"])
    (tmp_path / "quorate").touch(mode=0o755)
    monkeypatch.setenv("PATH", path or str(tmp_path))
    lines = quorate("demo", "decode").lines
    assert {line.split()[0] for line in lines[lines.index("To try next") + 1 :]} == {command}
