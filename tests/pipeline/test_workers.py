"""Worker processes that Spark reuses exclude imported modules from garbage collection."""

import gc
import sys
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from typing import Any

import pyarrow as pa
import pytest

from quorate.pipeline import arrow_schema
from quorate.pipeline.decode import _decoder, _reading
from quorate.pipeline.files_read import reading_of, wanted_by
from quorate.pipeline.jobs.records import rows_in_order
from quorate.pipeline.source import ConsumerOffsets, stream_reader
from quorate.pipeline.streaming.keyed import Frames, Processor
from quorate.pipeline.workers import settle
from tests.pipeline.conftest import CAPTURES

LOG = str(CAPTURES / "classic-3.9")
SOURCE = ConsumerOffsets({"path": LOG})


def read_batch() -> None:
    reader = SOURCE.reader(SOURCE.schema())
    for split in reader.partitions()[:1]:
        list(reader.read(split))


def read_stream() -> None:
    reader = stream_reader(SOURCE.parsed, lambda: reading_of(SOURCE.parsed, wanted_by(SOURCE.parsed)))
    list(reader.read(SOURCE.reader(SOURCE.schema()).partitions()[0]))


def decode_rows() -> None:
    pairs = pa.RecordBatch.from_pydict({"key": [b"\x00\x03\x00\x01g"], "value": [b"\x00\x00\x00\x00\x00\x07\x00"]})
    list(_decoder("__consumer_offsets", _reading("__consumer_offsets", None, None, "PERMISSIVE", False))(iter([pairs])))


def replay_rows() -> None:
    list(rows_in_order(arrow_schema().empty_table()))


class Nothing(Processor):
    """A processor that returns no rows."""

    schema = pa.schema([])

    def init(self, handle: Any) -> None: ...

    def take(self, key: tuple[Any, ...], frames: Frames) -> tuple[()]:
        return ()


def keep_state() -> None:
    list(Nothing().handleInputRows((), iter(()), None))


@pytest.fixture
def frozen(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Count calls of `gc.freeze`, without effect on this process."""
    calls: list[int] = []
    monkeypatch.setattr(gc, "freeze", lambda: calls.append(1))
    settle.cache_clear()
    yield calls
    settle.cache_clear()


@pytest.mark.parametrize("task", [read_batch, read_stream, decode_rows, replay_rows, keep_state])
def test_only_processes_of_pysparks_daemon_exclude_imports_from_garbage_collection(
    task: Callable[[], None], frozen: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    task()
    assert frozen == []
    settle.cache_clear()
    monkeypatch.setattr(sys.modules["__main__"], "__spec__", ModuleSpec("pyspark.daemon", None))
    task()
    task()
    assert frozen == [1]
