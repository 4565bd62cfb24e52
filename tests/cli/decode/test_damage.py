"""Damaged logs: output, errors and exit status."""

import gzip
import json
import shutil

import pytest

from quorate.codecs.batches import read_batches


@pytest.fixture
def partition(upgrade, tmp_path):
    """A copy of a partition, to be damaged by tests."""
    return shutil.copytree(upgrade / "__consumer_offsets-1", tmp_path / "__consumer_offsets-1")


@pytest.fixture
def segment(partition):
    (found,) = partition.glob("*.log")
    return found


def batches(segment):
    return [batch.header for batch in read_batches(segment.read_bytes())]


def flip(segment, position):
    data = bytearray(segment.read_bytes())
    data[position] ^= 1
    segment.write_bytes(data)


def test_a_damaged_batch_ends_its_file_with_an_error_and_status_1(quorate, partition, segment):
    whole = quorate("decode", partition).lines
    bad = batches(segment)[10]
    flip(segment, bad.position + 80)
    ended = quorate("decode", partition)
    assert ended.status == 1
    first, second = ended.err.splitlines()
    assert first.startswith(f"error: {segment}, position {bad.position:,}: the batch has CRC ")
    assert second == "       records before it were decoded; use --skip-corrupt to continue with the next batch"
    *records, problem = ended.lines
    assert records == [line for line in whole if json.loads(line)["offset"] < bad.base_offset]
    shown = json.loads(problem)
    assert shown["error"]["reason"] == "CRC mismatch"
    assert (shown["path"], shown["position"], shown["size_bytes"], shown["offset"]) == (
        str(segment),
        bad.position,
        bad.size_bytes,
        bad.base_offset,
    )


def test_a_negative_base_offset_ends_its_file_as_a_wrong_crc_does(quorate, partition, segment):
    bad = batches(segment)[10]
    flip_sign = bytearray(segment.read_bytes())
    flip_sign[bad.position] ^= 0x80
    segment.write_bytes(flip_sign)
    ended = quorate("decode", partition)
    assert [json.loads(line)["offset"] for line in ended.lines[:-1]] == list(range(bad.base_offset))
    assert ended.err.splitlines()[1:] == [
        "       records before it were decoded; use --skip-corrupt to continue with the next batch"
    ]


def test_skip_corrupt_skips_the_batch_and_exits_with_0(quorate, partition, segment):
    whole = quorate("decode", partition).lines
    bad = batches(segment)[10]
    flip(segment, bad.position + 80)
    ended = quorate("decode", partition, "--skip-corrupt")
    assert (ended.status, ended.err) == (0, "")
    records = [line for line in ended.lines if "path" not in json.loads(line)]
    lost = range(bad.base_offset, bad.last_offset + 1)
    assert records == [line for line in whole if json.loads(line)["offset"] not in lost]
    assert len(ended.lines) == len(records) + 1


def test_other_files_are_read_after_a_damaged_one(quorate, upgrade, segment, partition):
    flip(segment, batches(segment)[0].position + 80)
    other = upgrade / "__consumer_offsets-0"
    ended = quorate("decode", partition, other)
    assert ended.status == 1
    assert ended.lines[1:] == quorate("decode", other).lines


def test_a_torn_tail_is_shown_with_exit_status_0(quorate, partition, segment):
    last = batches(segment)[-1]
    segment.write_bytes(segment.read_bytes()[:-5])
    ended = quorate("decode", partition, "--summary")
    assert ended.status == 0
    assert json.loads(ended.lines[-1])["error"]["reason"] == "torn tail"
    assert json.loads(ended.lines[-1])["position"] == last.position
    assert "torn tail" in ended.err
    in_kafkas_form = quorate("decode", partition, "--format", "kafka")
    assert in_kafkas_form.err.startswith(f"{segment}, position {last.position:,}: ")
    assert "path" not in in_kafkas_form.out


def test_a_file_that_is_not_a_log_is_an_error_with_a_remedy(quorate, tmp_path):
    path = tmp_path / "00000000000000000000.log"
    path.write_bytes(gzip.compress(bytes(range(256))))
    ended = quorate("decode", path)
    assert ended.status == 1
    first, second = ended.err.splitlines()
    assert first.startswith(
        f"error: {path}, position 0: this is not a log segment, or its beginning is damaged: it is gzip"
    )
    remedy = "its content was not decoded; give the .log files of a partition, its folder, or a broker's log directory"
    assert second.strip() == remedy


def test_a_segment_without_its_beginning_reports_the_first_complete_batch(quorate, partition, segment):
    _, second = batches(segment)[:2]
    segment.write_bytes(segment.read_bytes()[70:])
    ended = quorate("decode", partition)
    assert ended.status == 1
    assert ended.err.splitlines() == [
        f"error: {segment}, position 0: the file does not begin with a batch, "
        "its first bytes are missing or overwritten; "
        f"the first whole batch begins at {second.position - 70:,}, with offset {second.base_offset:,}",
        "       use --skip-corrupt to start at the first complete batch",
    ]
    assert quorate("decode", partition, "--skip-corrupt").status == 0


def test_damage_at_the_beginning_does_not_mention_records_before_it(quorate, partition, segment):
    flip(segment, 80)
    assert (
        quorate("decode", partition).err.splitlines()[1] == "       use --skip-corrupt to continue with the next batch"
    )


@pytest.mark.parametrize("batch_follows", [True, False])
def test_skip_corrupt_fails_only_if_the_rest_is_lost(quorate, partition, segment, batch_follows):
    bad, following = batches(segment)[10:12]
    data = bytearray(segment.read_bytes())
    data[bad.position + 8] = 0xFF
    segment.write_bytes(data if batch_follows else data[: following.position])
    ended = quorate("decode", partition, "--skip-corrupt")
    assert ended.status == (0 if batch_follows else 1)
    assert ended.err.endswith("" if batch_follows else "no complete batch follows, the rest of the file is lost\n")


def test_an_incomplete_batch_before_a_later_segment_is_damage(quorate, partition, segment):
    shutil.copy(segment, segment.with_name(f"{10**9:020}.log"))
    segment.write_bytes(segment.read_bytes()[:-5])
    ended = quorate("decode", partition)
    assert ended.status == 1
    assert "a later segment follows" in ended.err


def test_damage_passes_all_filters(quorate, partition, segment):
    flip(segment, batches(segment)[10].position + 80)
    ended = quorate("decode", partition, "--group", "no-such-group", "--type", "OffsetCommit", "--tombstones")
    assert [json.loads(line)["error"]["reason"] for line in ended.lines] == ["CRC mismatch"]


def test_damage_is_a_row_of_the_table(quorate, partition, segment):
    bad = batches(segment)[10]
    flip(segment, bad.position + 80)
    ended = quorate("decode", partition, "--format", "table")
    assert "CRC mismatch" in ended.lines[-1]
    assert f"{segment.name} position {bad.position:,}: the batch has CRC" in ended.lines[-1]


def test_damage_in_the_first_batch_is_the_first_row_of_the_table(quorate, partition, segment):
    flip(segment, batches(segment)[0].position + 80)
    ended = quorate("decode", partition, "--format", "table")
    assert (ended.status, ended.err.splitlines()[0].split(": ")[0]) == (1, "error")
    heading, topic, damage = ended.lines
    assert (heading.split()[0], topic) == ("part", "── __consumer_offsets ──")
    assert f"{segment.name} position 0: the batch has CRC" in damage


def test_encode_omits_damaged_batches_with_a_note(quorate, partition, segment):
    flip(segment, batches(segment)[10].position + 80)
    ended = quorate("decode", partition)
    encoded = quorate("encode", stdin=ended.out)
    assert len(encoded.lines) == len(ended.lines) - 1
    assert encoded.err == "1 transaction markers or damaged batches in the input are not records: omitted\n"


@pytest.mark.parametrize(
    ("lines", "complaint"),
    [
        ("0063 00", "standard input, line 2: unknown record type at byte 0 of the key: 99"),
        ("0002000167 0009", "standard input, line 2: unknown value version at byte 0 of the value: 9 of GroupMetadata"),
        ("0003000167 00000000000500beef", "standard input, line 2: trailing bytes at byte 7 of the value: beef"),
        ("null 00", "standard input, line 2: null key at byte 0 of the key"),
    ],
)
def test_strict_stops_at_the_first_record_that_cannot_be_decoded(quorate, lines, complaint):
    ended = quorate("decode", "-", "--strict", stdin=f"0002000167 null\n{lines}\n0002000167 null\n")
    assert (ended.status, len(ended.lines)) == (1, 1)
    assert ended.err.splitlines()[0] == f"error: {complaint}"


def test_strict_applies_before_filters(quorate):
    assert quorate("decode", "-", "--strict", "--type", "2", stdin="0063 00\n").status == 1


def test_strict_names_the_place_in_a_log(quorate, partition, segment):
    last = batches(segment)[-1]
    segment.write_bytes(segment.read_bytes()[:-5])
    ended = quorate("decode", partition, "--strict")
    assert ended.status == 1
    assert ended.err.startswith(f"error: {segment}, position {last.position:,}: ")


def test_strict_accepts_an_undamaged_log(quorate, transactions):
    assert quorate("decode", transactions, "--strict").out == quorate("decode", transactions).out


def test_damage_that_kafka_ignores_is_an_error_with_the_value_that_kafka_reads(quorate):
    """Issue 14: the size of the tagged field is 77 bytes, its content has 8."""
    record = "0003000167 00000000000401004df4c0d617a910f4f9"
    (line,) = quorate("decode", "-", stdin=record).lines
    found = json.loads(line)
    assert found["value"] == {"epoch": 4, "metadata_hash": -810412535817636615}
    assert found["version"] == 0
    assert found["error"]["reason"] == "impossible tagged field"
    assert found["error"]["detail"] == "tag 0 has size 77, its content 8"
    assert quorate("encode", stdin=line).out.split() == record.split()
    ended = quorate("decode", "-", "--strict", stdin=record)
    assert ended.status == 1
    assert "tag 0 has size 77, its content 8" in ended.err
    (line,) = quorate("decode", "-", "--format", "kafka", stdin=record).lines
    assert json.loads(line)["value"]["data"] == {"epoch": 4, "metadataHash": -810412535817636615}
    (row,) = [one for one in quorate("decode", "-", "--format", "table", stdin=record).lines if "epoch 4" in one]
    assert "tag 0 has size 77" in row


def test_encode_keeps_the_bytes_of_a_value_until_it_is_changed(quorate):
    record = "0003000167 0000000000048000"
    (line,) = quorate("decode", "-", stdin=record).lines
    found = json.loads(line)
    assert found["value_hex"] == "0000000000048000"
    assert "error" not in found
    assert quorate("encode", stdin=line).out.split() == record.split()
    found["value"]["epoch"] = 5
    assert quorate("encode", stdin=json.dumps(found)).out.split() == ["0003000167", "00000000000500"]
    found["value_hex"] = "0"
    assert "value_hex: expected hex, not '0'" in quorate("encode", stdin=json.dumps(found)).err
