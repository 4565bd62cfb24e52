"""Measure how fast a coordinator loads a partition of committed offsets.

Loads are by columns, from keys and values and from segment files, and record by record. Java's
figures are the oracle's, in memory and in one thread: repeated decode and replay of 10,000 commits,
or, where every key is new, of a million by a new shard. Ours are the least of some rounds: the
lesser of elapsed and CPU time with one thread, or elapsed time if a second thread reads ahead. A
log of 5,000 keys repeats them, as committing groups do. If every key is new, no record can be
skipped.
"""

import gc
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _data import START_MS
from _measure import JAVA, SMOKE_JAVA, USUAL_JAVA, java, need_java, size_of
from _report import Report

from quorate.codecs import CoordinatorRecord, LogEntry, Uuid, encode_record, read_log
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.raw import RawBlock, read_raw
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.coordinator.bulk import replay_blocks
from quorate.coordinator.state import CoordinatorState

GROUPS, TOPICS = 100, 5
GOAL = "≥ 5 M/s"

Pair = tuple[bytes, bytes]


def pairs(count: int, keys: int, *, first: int = 0) -> list[Pair]:
    """Return encoded commits of random keys; with `keys` >= `count`, each key once.

    `first`: how many commits there are before them; committed offsets increase.
    """
    random = Random(11)
    numbers = [random.randrange(keys) for _ in range(count)] if keys < count else list(range(count))
    found = []
    for place, number in enumerate(numbers):
        group, topic = number % GROUPS, number // GROUPS % TOPICS
        key = OffsetCommitKey(
            group=f"consumer-group-{group}", topic=f"some-topic-{topic}", partition=number // GROUPS // TOPICS
        )
        value = OffsetCommitValue(
            offset=123_456_789 + first + place,
            leader_epoch=7,
            metadata="",
            commit_timestamp=START_MS + place,
            topic_id=Uuid(bytes(15) + bytes([topic + 1])),
        )
        found.append(encode_record(CoordinatorRecord(key=key, value=value, version=4)))
    return found  # type: ignore[return-value]  # no key and no value is null


def blocks_of(some: Sequence[Pair], times: int) -> list[RawBlock]:
    """Return the commits `times` times as columns, with increasing offsets."""
    keys, values = (pa.array(column, pa.binary()) for column in zip(*some, strict=True))
    count = len(some)
    return [
        RawBlock.of(keys, values, offset=np.arange(count * number, count * (number + 1))) for number in range(times)
    ]


def write_log(folder: Path, some: Sequence[Pair], times: int, per_batch: int, *, first: int = 0) -> Path:
    """Append the commits `times` times to a segment, which ends at offset `first`.

    The CRC does not cover a batch's offset.
    """
    batches = [
        encode_batch(
            [
                BatchRecord(offset=begin + index, timestamp_ms=START_MS, key=key, value=value)
                for index, (key, value) in enumerate(some[begin : begin + per_batch])
            ]
        )
        for begin in range(0, len(some), per_batch)
    ]
    folder = folder / f"{per_batch}" / "__consumer_offsets-0"
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / f"{0:020}.log").open("ab") as file:
        for number in range(times):
            for place, batch in enumerate(batches):
                file.write((first + number * len(some) + place * per_batch).to_bytes(8, "big") + batch[8:])
    return folder


def least(action: Callable[[], object], *, alone: bool, rounds: int) -> float:
    """Return the seconds of the fastest round. `alone`: no other thread works."""
    best = float("inf")
    for _ in range(rounds):
        gc.collect()
        cpu, begin = time.thread_time(), time.perf_counter()
        action()
        took = time.perf_counter() - begin
        best = min(best, took, time.thread_time() - cpu if alone else took)
    return best


def from_columns(blocks: list[RawBlock]) -> CoordinatorState:
    state = CoordinatorState()
    replay_blocks(state, blocks)
    return state


def from_files(folder: Path, *, use_threads: bool = False) -> CoordinatorState:
    state = CoordinatorState()
    (files,) = find_partitions(folder)
    replay_blocks(state, read_raw(files, use_threads=use_threads))
    return state


def one_by_one(folder: Path) -> CoordinatorState:
    state = CoordinatorState()
    for entry in read_log(folder):
        if isinstance(entry, LogEntry):
            state.replay(entry.record, offset=entry.offset)
    return state


MEMORY = """
import sys
from pathlib import Path
from quorate.coordinator.bulk import load_state
def most():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1024
before = most()
state = load_state(sys.argv[1])
print(most() - before)
"""


def peak_mb(folder: Path) -> float:
    """Return by how many MB a process grows that loads the log."""
    run = subprocess.run(
        [sys.executable, "-P", "-c", MEMORY, str(folder)], check=True, capture_output=True, text=True, timeout=300
    )
    return float(run.stdout)


def main() -> None:
    report = Report("quorate.coordinator: loading committed offsets", __doc__ or "")
    need_java()
    some = pairs(report.pick(100_000, quick=100_000, smoke=6_000), 5_000)
    times = report.pick(20, quick=5, smoke=1)
    count, few = len(some) * times, min(20_000, len(some))
    blocks = blocks_of(some, times)
    distinct = pairs(report.pick(1_000_000, quick=100_000, smoke=1_000), 1 << 40)
    new = blocks_of(distinct, 1)
    with tempfile.TemporaryDirectory() as temporary:
        shapes = {per_batch: write_log(Path(temporary), some, times, per_batch) for per_batch in (10, 1)}
        small = write_log(Path(temporary) / "small", some[:few], 1, 10)
        new_log = write_log(Path(temporary) / "new", distinct, 1, 10)
        ours: dict[str, float] = {}
        for turn in range(2):  # before and after the JVM: a busy machine changes meanwhile
            if turn:
                options = SMOKE_JAVA if report.smoke else USUAL_JAVA
                lines = java("oracle.Bench", "shard", options=options)
                (peer,) = (line["least_s"] for line in lines if line["bench"] == "load-OffsetCommit")
                (line,) = java("oracle.Bench", "load", options=(*options, f"-Dkeys={len(distinct)}"))
                peer_of_new = line["least_s"]
            for case, action, alone, records in (
                ("columns, 5,000 keys", lambda: from_columns(blocks), True, count),
                ("columns, every key once", lambda: from_columns(new), True, len(distinct)),
                ("files, 10 in a batch, one thread", lambda: from_files(shapes[10]), True, count),
                ("files, 10 in a batch, two threads", lambda: from_files(shapes[10], use_threads=True), False, count),
                ("files, 1 in a batch, one thread", lambda: from_files(shapes[1]), True, count),
                ("files, 1 in a batch, two threads", lambda: from_files(shapes[1], use_threads=True), False, count),
                ("files, every key once, one thread", lambda: from_files(new_log), True, len(distinct)),
                ("files, record by record", lambda: one_by_one(small), True, few),
            ):
                rate = records / least(action, alone=alone, rounds=report.pick(5, quick=5, smoke=1))
                ours[case] = max(ours.get(case, 0.0), rate)
        for case, rate in ours.items():
            goal = GOAL if "5,000" in case or "10 in" in case else ""
            report.rate(f"load from {case}", rate, 1 / (peer_of_new if "once" in case else peer), JAVA, goal=goal)
        report.cost(f"peak memory of a load: {count:,} records, 5,000 keys", peak_mb(shapes[10]), None, "", "MB")
        report.cost(
            f"peak memory of a load: {len(distinct):,} records, every key once", peak_mb(new_log), None, "", "MB"
        )
    kept = distinct[:100_000]
    kept_blocks = blocks_of(kept, 1)
    _, size = size_of(lambda: from_columns(kept_blocks))
    report.cost("memory of a committed offset", size / len(kept), None, "", "bytes")
    report.finish()


if __name__ == "__main__":
    main()
