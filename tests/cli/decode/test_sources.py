"""The sources of `quorate decode`, and errors about them."""

import json
import os
import shutil
from pathlib import Path

import pytest

from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE
from quorate.codecs.log.partitions import LogPartitions


def places(ended):
    return {(o["topic"], o["partition"]) for o in map(json.loads, ended.lines)}


def test_a_log_directory_has_all_coordinator_topics(quorate, transactions):
    assert places(quorate("decode", transactions)) == {
        *((CONSUMER_OFFSETS, number) for number in (0, 1, 3)),
        *((TRANSACTION_STATE, number) for number in (0, 1)),
    }


def test_a_partition_folder_and_a_segment_file(quorate, upgrade):
    folder = upgrade / "__consumer_offsets-1"
    assert places(quorate("decode", folder)) == {(CONSUMER_OFFSETS, 1)}
    (segment,) = folder.glob("*.log")
    assert quorate("decode", segment).out == quorate("decode", folder).out


def test_several_sources_one_after_the_other(quorate, upgrade):
    one, two = upgrade / "__consumer_offsets-1", upgrade / "__consumer_offsets-0"
    assert quorate("decode", one, two).out == quorate("decode", one).out + quorate("decode", two).out


@pytest.mark.parametrize("again", ["", ".", "__consumer_offsets-1", "__consumer_offsets-1/00000000000000000000.log"])
def test_a_source_given_twice_is_an_error(quorate, upgrade, again):
    ended = quorate("decode", upgrade, upgrade / again)
    assert (ended.status, ended.out) == (1, "")
    first, second = ended.err.splitlines()
    assert f"is part of both {upgrade} and {upgrade / again}" in first
    assert second == "       give it once"


def test_topics_and_partitions_can_be_chosen(quorate, transactions):
    assert places(quorate("decode", transactions, "--topic", TRANSACTION_STATE)) == {
        (TRANSACTION_STATE, 0),
        (TRANSACTION_STATE, 1),
    }
    assert places(quorate("decode", transactions, "--partition", 1, "--partition", 3)) == {
        (CONSUMER_OFFSETS, 1),
        (CONSUMER_OFFSETS, 3),
        (TRANSACTION_STATE, 1),
    }
    both = ("--topic", TRANSACTION_STATE, "--topic", SHARE_GROUP_STATE)
    assert places(quorate("decode", transactions, *both, "--partition", 0)) == {(TRANSACTION_STATE, 0)}


def test_topic_and_partition_describe_a_segment_outside_of_a_partition_folder(quorate, transactions, tmp_path):
    lone = tmp_path / "00000000000000000000.log"
    shutil.copy(transactions / "__transaction_state-1" / lone.name, lone)
    result = quorate("decode", lone, "--topic", TRANSACTION_STATE, "--partition", 1)
    assert result.out == quorate("decode", transactions / "__transaction_state-1").out
    default = quorate("decode", lone)
    assert places(default) == {(CONSUMER_OFFSETS, None)}


def test_a_number_in_the_name_of_another_folder_is_no_partition(quorate, transactions, tmp_path):
    folder = shutil.copytree(transactions / "__consumer_offsets-1", tmp_path / "backup-2024")
    assert places(quorate("decode", folder)) == {(CONSUMER_OFFSETS, None)}


def test_a_note_says_that_a_file_has_only_zeros(quorate, upgrade, tmp_path):
    file = tmp_path / "00000000000000000000.log"
    file.write_bytes(bytes(1 << 21))
    ended = quorate("decode", file)
    assert (ended.status, ended.out) == (0, "")
    assert ended.err.startswith("nothing to show: all 2,097,152 bytes are zero, from position 0 on")
    assert quorate("decode", upgrade, "--since", "1h").err == ""


def test_progress_increases_to_the_size_of_the_files(transactions, monkeypatch):
    monkeypatch.setattr("quorate.codecs.log.partitions.PROGRESS_EVERY", 3)
    files = LogPartitions([str(transactions)])
    reported = []
    assert sum(1 for _ in files.entries(progress=reported.append)) == sum(1 for _ in files.entries())
    assert reported == sorted(reported)
    assert len(reported) > 10
    assert reported[-1] == files.size_bytes == sum(path.stat().st_size for path in transactions.glob("*/*.log"))


def test_isolation_level(quorate, transactions):
    everything = quorate("decode", transactions, "--topic", CONSUMER_OFFSETS)
    committed = quorate("decode", transactions, "--topic", CONSUMER_OFFSETS, "--isolation-level", "read_committed")
    assert set(committed.lines) < set(everything.lines)
    assert not any("control" in json.loads(line) for line in committed.lines)


def test_lines_of_hex(quorate):
    lines = "0002000167 null\n\n  0002000167 -\n0002000167\n0002000167\t00030000 \n"
    shown = [json.loads(line) for line in quorate("decode", "-", stdin=lines).lines]
    assert [("value" in o, o.get("value")) for o in shown] == [(True, None)] * 3 + [(False, None)]
    assert {o["offset"] for o in shown} == {None}


def test_lines_of_hex_of_another_topic(quorate):
    (line,) = quorate("decode", "-", "--topic", TRANSACTION_STATE, stdin="0000000174 null").lines
    assert json.loads(line)["key"] == {"transactional_id": "t"}


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("0002000167 null\nzz 00", "standard input, line 2: the key 'zz' is not hex"),
        ("0002000167 000", "standard input, line 1: the value has an odd number of digits"),
        ("00 00 00", "standard input, line 1: 3 words"),
        (b"\x00\x01\xff", "standard input, line 1: not UTF-8 text"),
        (
            "0002000167 " + "q" * 100,
            "standard input, line 1: the value 'qqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqqq…' is not hex",
        ),
    ],
)
def test_a_line_that_is_not_hex_is_named(quorate, text, complaint):
    ended = quorate("decode", "-", stdin=text)
    assert ended.status == 1
    assert ended.err.splitlines()[0] == f"error: {complaint}"


def test_records_before_a_bad_line_are_shown(quorate):
    assert len(quorate("decode", "-", stdin="0002000167 null\nzz").lines) == 1


@pytest.mark.parametrize(
    ("arguments", "complaint", "remedy"),
    [
        ([], "nothing to read", "--help"),
        (["no/such/place"], "no/such/place: no such file or folder", ""),
        (["-b", "localhost:1", "x"], "give either -b or a SOURCE", "--help"),
        (["x", "-"], "- cannot be read together with other sources", "--help"),
        (["x", "--follow"], "--follow needs a live cluster", "--help"),
        (["x", "--ssl-cafile", "y"], "--ssl-cafile is for a live cluster", "--help"),
        (["x", "--frobnicate"], "No such option '--frobnicate'", "--help"),
        (["x", "--format", "xml"], "Invalid value for '--format'", "--help"),
        (["x", "--limit", "0"], "Invalid value for '--limit'", "--help"),
        (["x", "--topic", "orders"], "Invalid value for '--topic'", "--help"),
        ([""], "a SOURCE is empty", "a log directory"),
        (["x", "--since", "1h", "--until", "2h"], "--since 1h is not before --until 2h", "an earlier --since"),
        (["-", "--since", "2h"], "have no timestamps", "omit them"),
        (["-b", "x:1", "--ssl-cafile", "y"], "--ssl-cafile has no effect", "add --security-protocol SASL_SSL or SSL"),
        (["-b", "x:1", "--sasl-mechanism", "PLAIN"], "--sasl-mechanism has no effect", "SASL_SSL or SASL_PLAINTEXT"),
        (["-b", "x:1", "--security-protocol", "SASL_SSL"], "needs --sasl-mechanism", "SCRAM-SHA-256"),
    ],
)
def test_wrong_options_are_an_error_with_a_remedy(quorate, arguments, complaint, remedy):
    ended = quorate("decode", *arguments)
    assert (ended.status, ended.out) == (1, "")
    first, *rest = ended.err.splitlines()
    assert first.startswith("error: ")
    assert complaint in first
    assert any(remedy in line for line in rest) or not remedy
    assert "Traceback" not in ended.err


def test_an_empty_folder_is_an_error_with_the_expected_files(quorate, tmp_path):
    ended = quorate("decode", tmp_path)
    assert ended.status == 1
    assert f"error: {tmp_path}: no segments; expected 00000000000000000000.log" in ended.err


def test_pipes_and_broken_links_are_errors(quorate, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    pipe = quorate("decode", tmp_path / "pipe")
    assert (pipe.status, pipe.out) == (1, "")
    assert (
        pipe.err
        == f"error: {tmp_path}/pipe: is neither a file nor a folder; write its content to a file, and read that\n"
    )
    (tmp_path / "link.log").symlink_to("gone.log")
    link = quorate("decode", tmp_path / "link.log")
    assert (link.status, link.err) == (1, f"error: {tmp_path}/link.log: is a link to gone.log, which does not exist\n")


def test_empty_segments_print_a_note(quorate, tmp_path, upgrade):
    partition = tmp_path / "__consumer_offsets-9"
    partition.mkdir()
    (partition / "00000000000000000000.log").touch()
    nothing = quorate("decode", partition)
    assert (nothing.status, nothing.out) == (0, "")
    assert nothing.err == f"nothing to show: the segments of {partition} have 0 bytes\n"
    assert quorate("decode", partition, upgrade).err == ""


def test_other_files_are_read_if_one_cannot_be_opened(quorate, upgrade, monkeypatch):
    refused = upgrade / "__consumer_offsets-0" / "00000000000000000000.log"
    really_open = Path.open

    def open_others(self, *mode):
        if self == refused:
            raise PermissionError(13, "Permission denied", str(self))
        return really_open(self, *mode)

    monkeypatch.setattr(Path, "open", open_others)
    ended = quorate("decode", upgrade)
    assert ended.status == 1
    assert ended.err.splitlines() == [
        f"error: {refused}: the file cannot be read: Permission denied",
        "       its records were not decoded; other files are",
    ]
    assert len(ended.lines) > 400


def test_a_missing_partition_is_an_error_with_the_existing_ones(quorate, upgrade):
    ended = quorate("decode", upgrade, "--partition", 7)
    assert ended.status == 1
    assert ended.err.splitlines() == [
        f"error: {upgrade}: has no segments of partition 7",
        "       it has __consumer_offsets-0, __consumer_offsets-1, __consumer_offsets-2, __consumer_offsets-3",
    ]
    elsewhere = quorate("decode", upgrade / "__consumer_offsets-1", "--topic", TRANSACTION_STATE)
    assert elsewhere.err.splitlines()[1] == "       it has __consumer_offsets-1"
