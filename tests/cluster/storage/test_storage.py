"""A partition's folder: after a stop, and after a crash at any byte, it has the written batches."""

import shutil
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import LogConfig
from quorate.cluster.storage.cleaning import clean
from quorate.cluster.storage.files import BadFileError, decode_checkpoint, decode_properties, encode_checkpoint
from quorate.cluster.storage.stores import MemoryStore
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, read_batches
from quorate.coordinator.log import AppendError
from tests.cluster.helpers.folder import NOW_MS, SMALL, Folder, Lost, Writer, batch, facts
from tests.cluster.helpers.folder import folder as folder
from tests.extent import portion

writes = st.tuples(
    st.just("write"), st.integers(-1, 2), st.integers(1, 4), st.integers(0, 1), st.booleans(), st.integers(0, 300)
)
ends = st.tuples(st.just("end"), st.integers(0, 2), st.booleans())
steps = st.lists(
    st.one_of(writes, writes, ends, st.tuples(st.just("flush")), st.tuples(st.just("reopen"))), max_size=25
)


@given(steps=steps, data=st.data())
@settings(max_examples=portion(60), deadline=None)
def test_after_a_power_failure_at_any_byte_the_log_is_in_an_earlier_state_with_all_flushed_data(
    steps: list[tuple[object, ...]], data: st.DataObject
) -> None:
    with TemporaryDirectory() as root:
        folder = Folder(Path(root))
        context = folder.opened()
        log = context.__enter__()
        writer = Writer(log)
        epoch = 0
        flushed = 0
        for name, *arguments in steps:
            match name:
                case "write":
                    producer, count, raised, transactional, size = arguments
                    epoch += raised  # type: ignore[operator]
                    writer.write(producer, count, epoch, transactional, size)  # type: ignore[arg-type]
                case "end":
                    writer.end(arguments[0], epoch, arguments[1])  # type: ignore[arg-type]
                case "flush":
                    log.flush()
                    flushed = log.next_offset
                case "reopen":
                    log.close()
                    context.__exit__(None, None, None)
                    context = folder.opened(clean=True)
                    log = writer.log = context.__enter__()
                    flushed = log.next_offset
                    assert facts(log) == writer.after[log.next_offset]
        base, size = writer.ends[flushed]
        segments = {segment.base_offset: segment.size for segment in log.segments}
        context.__exit__(None, None, None)

        victim = data.draw(st.sampled_from([segment for segment in segments if segment >= base]), label="segment")
        least = size if victim == base else 0
        cut_at = data.draw(st.integers(least, segments[victim]), label="byte")
        path = folder.path / f"{victim:020}.log"
        rests = [b"\0" * 100, b"rubbish" * 20]
        if victim == max(segments) or data.draw(st.booleans(), label="later segments are missing"):
            rests.append(b"")  # between segments, missing batches look as if they were compacted
            for later in [segment for segment in segments if segment > victim]:
                (folder.path / f"{later:020}.log").unlink()
        rest = data.draw(st.sampled_from(rests), label="after it")
        path.write_bytes(path.read_bytes()[:cut_at] + rest)
        for suffix in (".index", ".timeindex", ".txnindex", ".snapshot"):
            for found in folder.path.glob(f"*{suffix}"):
                if int(found.stem) >= victim and data.draw(st.booleans(), label=f"damage {found.name}"):
                    found.write_bytes(found.read_bytes()[:-3] + b"?")
        known = data.draw(st.sampled_from([0, flushed]), label="recovery point")
        if cut_at < segments[victim] and path != max(folder.path.glob("*.log")):
            with pytest.raises(Lost), folder.opened(flushed=known, same_boot=False):
                pass  # later segments show that this is not a torn tail
            return
        with folder.opened(flushed=known, same_boot=False) as again:
            note(f"flushed {flushed}, wrote {log.next_offset}, found {again.next_offset}")
            assert flushed <= again.next_offset <= log.next_offset
            assert facts(again) == writer.after[again.next_offset]
            offset = again.next_offset
            assert again.append(batch(1), leader_epoch=epoch, now_ms=NOW_MS).base_offset == offset
            again.close()
            expected = facts(again)
        with folder.opened(clean=True) as once_more:
            assert facts(once_more) == expected


def test_a_log_in_a_folder_reads_the_same_as_one_in_memory(folder: Folder) -> None:
    memory = PartitionLog(SMALL)
    with folder.opened() as log:
        for number in range(60):
            for one in (memory, log):
                one.append(batch(1 + number % 3, value=b"y" * number), leader_epoch=0, now_ms=NOW_MS)
        assert len(log.segments) > 3
        for offset in range(0, log.next_offset, 7):
            for limit in (1, 300, 10_000):
                for until in (offset + 5, log.next_offset):
                    requested = {"until": until, "at_least_one": bool(limit % 2)}
                    assert log.read(offset, limit, **requested) == memory.read(offset, limit, **requested)  # type: ignore[arg-type]
        everything = b"".join(one.data for one in log)
        assert everything == b"".join(path.read_bytes() for path in sorted(folder.path.glob("*.log")))


@given(pieces=st.lists(st.binary(min_size=1, max_size=9), max_size=6), data=st.data())
def test_bytes_in_memory_read_the_same_as_a_file(pieces: list[bytes], data: st.DataObject) -> None:
    store = MemoryStore()
    for piece in pieces:
        store.append(piece)
    whole = b"".join(pieces)
    position, count = data.draw(st.integers(0, 60)), data.draw(st.integers(0, 60))
    assert store.size == len(whole)
    assert store.read(position, count) == whole[position : position + count]


def test_folders_of_replicas_share_one_log(tmp_path: Path) -> None:
    folder = Folder(tmp_path, brokers=3)
    with folder.opened() as log:
        for _ in range(10):
            log.append(batch(3, value=b"z" * 300), leader_epoch=0, now_ms=NOW_MS)
        log.close()
    names = {path.name for path in folder.path.iterdir()}
    assert len([one for one in names if one.endswith(".log")]) > 1
    for broker in ("broker-1", "broker-2"):
        mine = {path.name: path for path in (tmp_path / broker / "t-0").iterdir()}
        assert mine.keys() == names
        assert all(mine[name].samefile(folder.path / name) for name in names)


def test_a_copy_of_a_directory_without_hard_links_is_linked_again(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "a", brokers=2)
    with folder.opened() as log:
        log.append(batch(3), leader_epoch=0, now_ms=NOW_MS)
        log.close()
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    copied = Folder(tmp_path / "b", brokers=2)
    with copied.opened(clean=True) as again:
        again.append(batch(2), leader_epoch=0, now_ms=NOW_MS)
        assert again.next_offset == 5
    first, second = (tmp_path / "b" / f"broker-{one}" / "t-0" / f"{0:020}.log" for one in (0, 1))
    assert first.samefile(second)


def test_deleted_records_stay_deleted_with_their_epochs_and_aborted_transactions(folder: Folder) -> None:
    with folder.opened() as log:
        writer = Writer(log)
        for epoch in range(3):
            writer.write(0, 2, epoch, True, 700)
            writer.end(0, epoch, False)
        log.delete_before(log.segments[1].base_offset)
        log.close()
        expected = facts(log)
        assert log.segments[0].base_offset == log.start_offset > 0
    with folder.opened(clean=True) as again:
        assert facts(again) == expected
        assert again.epochs[0][1] == again.start_offset


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".snapshot", ".txnindex", "leader-epoch-checkpoint"])
@pytest.mark.parametrize("damage", ["missing", "empty", "cut off", "rubbish"])
def test_damaged_indexes_and_checkpoints_lose_no_records(folder: Folder, suffix: str, damage: str) -> None:
    with folder.opened() as log:
        writer = Writer(log)
        for number in range(12):
            writer.write(number % 3, 3, number // 6, True, 120)
            writer.end(number % 3, number // 6, number % 2 == 0)
        log.close()
        expected = facts(log)
        reads = [log.read(offset, 500, until=log.next_offset, at_least_one=True) for offset in range(log.next_offset)]
    for path in folder.path.glob(f"*{suffix}"):
        content = path.read_bytes()
        match damage:
            case "missing":
                path.unlink()
            case "empty":
                path.write_bytes(b"")
            case "cut off":
                path.write_bytes(content[: len(content) // 2 - 1])
            case _:
                path.write_bytes(bytes(range(1, 25)) * 2)
    with folder.opened(clean=True) as again:
        found = facts(again)
        assert found == expected
        newest = again.greatest_timestamp()
        assert newest is not None
        assert newest.max_timestamp_ms == NOW_MS + 2
        for offset, read in enumerate(reads):
            assert again.read(offset, 500, until=again.next_offset, at_least_one=True).records == read.records


@pytest.mark.parametrize("rubbish", [b"\0" * 200, b"rubbish" * 20, b"r"], ids=["zeros", "text", "a byte"])
@pytest.mark.parametrize("flushed", [0, 3])
def test_bytes_after_the_last_batch_of_a_segment_are_cut_off_and_later_segments_remain(
    folder: Folder, rubbish: bytes, flushed: int
) -> None:
    with folder.opened() as log:
        for _ in range(2):
            log.append(batch(3, value=b"x" * 300), leader_epoch=0, now_ms=NOW_MS)
        expected = facts(log)
        assert [segment.base_offset for segment in log.segments] == [0, 3]
    with (folder.path / f"{0:020}.log").open("ab") as file:
        file.write(rubbish)
    with folder.opened(flushed=flushed) as again:
        assert facts(again) == expected
        assert folder.cut == len(rubbish)


def test_an_append_to_a_full_disk_fails_completely(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    with folder.opened() as log:
        log.append(batch(1, producer=1, sequence=0), leader_epoch=0, now_ms=NOW_MS)
        before = facts(log)

        def full(descriptor: int, data: bytes, position: int) -> int:
            raise OSError(28, "No space left on device")

        with monkeypatch.context() as patched:
            patched.setattr("quorate.cluster.storage.stores.os.pwrite", full)
            with pytest.raises(AppendError, match="No space left") as refusal:
                log.append(batch(1, producer=1, sequence=1), leader_epoch=0, now_ms=NOW_MS)
        assert refusal.value.code is ErrorCode.KAFKA_STORAGE_ERROR
        assert facts(log) == before
        assert not log.append(batch(1, producer=1, sequence=1), leader_epoch=0, now_ms=NOW_MS).duplicate


@pytest.mark.parametrize(("messages", "flushes"), [(1, 5), (3, 2), (100, 0)])
def test_records_are_flushed_by_flush_messages(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, messages: int, flushes: int
) -> None:
    done = []
    monkeypatch.setattr("quorate.cluster.storage.stores.os.fsync", done.append)
    with folder.opened(LogConfig(flush_messages=messages)) as log:
        for _ in range(4):
            log.append(batch(1), leader_epoch=0, now_ms=NOW_MS)
        assert len(done) == flushes  # and once for the folder
        assert log.flushed_offset == {1: 4, 3: 3, 100: 0}[messages]


def test_compaction_on_disk_and_in_memory_has_the_same_result(folder: Folder) -> None:
    config = LogConfig(segment_bytes=1500, compact=True, delete=False, delete_retention_ms=0)
    memory = PartitionLog(config)
    with folder.opened(config) as log:
        for one in (log, memory):
            writer = Writer(one)
            for number in range(30):
                writer.write(number % 3, 1 + number % 4, 0, number % 3 == 0, 100)
                if number % 9 == 0:
                    writer.end(0, 0, number % 2 == 0)
            writer.end(0, 0, True)
            writer.write(1, 1, 0, False, 1400)
            before = one.size_bytes
            for _ in range(2):
                for _ in clean(one, now_ms=NOW_MS):
                    pass
            assert one.size_bytes < before / 2
        assert facts(log) == facts(memory)
        assert not list(folder.path.glob("*.cleaned"))
        expected = facts(log)
    with folder.opened(config) as again:  # as after a crash
        assert facts(again)["batches"] == expected["batches"]
        assert [one.epoch for one in again.producers.by_id.values()] == [0, 0, 0]
        assert [again.producers.by_id[one].last_sequence for one in (0, 1, 2)] == [
            log.producers.by_id[one].last_sequence for one in (0, 1, 2)
        ]


def test_a_crash_at_any_step_of_compaction_loses_no_value(folder: Folder, tmp_path: Path) -> None:
    config = LogConfig(segment_bytes=1500, compact=True, delete=False, delete_retention_ms=0)

    def values(log: PartitionLog) -> dict[bytes, bytes | None]:
        """Return the last value of each key, as a consumer of committed records sees it."""
        aborted = {(one.producer_id, one.first_offset, one.last_offset) for one in log.producers.aborted}
        found: dict[bytes, bytes | None] = {}
        for one in log:
            mine = [span for span in aborted if span[0] == one.producer_id and span[1] <= one.base_offset < span[2]]
            if one.control or (one.transactional and mine) or one.base_offset >= log.last_stable_offset:
                continue
            for read in read_batches(one.data):
                for record in read.records():  # type: ignore[union-attr]
                    assert isinstance(record, BatchRecord)
                    found[record.key or b""] = record.value
        return found

    with folder.opened(config) as log:
        writer = Writer(log)
        for number in range(40):
            writer.write(number % 3, 1 + number % 4, number // 20, number % 3 == 0, number)
            if number % 9 == 0:
                writer.end(0, number // 20, number % 2 == 0)
        writer.end(0, 1, True)
        writer.write(1, 1, 1, False, 1400)
        expected = values(log)
        states = 0
        for place, _ in enumerate(clean(log, now_ms=NOW_MS)):
            if place % 5:
                continue
            states += 1
            copy = Folder(tmp_path / f"copy-{place}")
            shutil.copytree(folder.path, copy.path)
            with copy.opened(config) as again:
                assert values(again) == expected
                assert again.next_offset == log.next_offset
                assert not list(copy.path.glob("*.cleaned"))
        assert states > 10
        assert values(log) == expected


def test_checkpoints_and_properties_are_read_as_kafka_writes_them() -> None:
    assert encode_checkpoint([("orders", 0, 17)]) == b"0\n1\norders 0 17\n"
    assert decode_checkpoint(b"0\n2\norders 0 17\n1 2\n") == [("orders", "0", "17"), ("1", "2")]
    for damaged in (b"", b"0\n2\norders 0 17\n", b"1\n0\n", b"\xff\xfe"):
        with pytest.raises(BadFileError):
            decode_checkpoint(damaged)
    text = b"#\n#Sat Nov 21 10:00:00 UTC 2026\ncluster.id=abc\nversion=1\nversion: 0\n"
    assert decode_properties(text) == {"cluster.id": "abc", "version": "0"}
