"""Generate a year of `__consumer_offsets` of any size, in segment files like a broker's.

Groups of all kinds run on quorate's coordinator, which writes their changes, and some rounds of
commits by all members. NumPy repeats such a round in the files, with increasing offsets and times
and valid CRCs, as often as the size needs: 50 million requests would take hours. The last commits
of each span are requests again, so that the coordinator's state matches its log.

    .venv/bin/python bench/_year.py FOLDER RECORDS     # generate one
"""

import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from random import Random
from typing import Any
from uuid import UUID

import google_crc32c
import numpy as np
import numpy.typing as npt

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _year_groups import Group

from quorate.codecs import CoordinatorRecord, Uuid, decode_record
from quorate.codecs.batches import Batch, BatchRecord, encode_batch, encode_marker, read_batches
from quorate.codecs.log.files import segment_path
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.codecs.messages import OffsetCommitValue
from quorate.coordinator import GroupCoordinatorShard, PartitionRuntime
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import StoredMarker, StoredRecord, batch_of
from quorate.coordinator.partitioning import partition_for

START_MS = 1_750_000_000_000
DAY_MS = 86_400_000
LONGEST_MS = 10 * DAY_MS
"""The longest time with commits only. Session timeouts must be longer, and are an int32 in ms."""

TOPICS = 40
CHUNK_BYTES = 8 << 20
SEGMENT_BYTES = 100 * 1024 * 1024

BASE_TIMESTAMP, MAX_TIMESTAMP, CRC, COVERED = 27, 35, 17, 21
"""Positions in a batch (KIP-98); the CRC covers the batch from `COVERED` on."""

KINDS = ("consumer",) * 8 + ("classic",) * 6 + ("changing",) * 2 + ("share",) * 2 + ("simple", "transactional")

Matrix = npt.NDArray[np.uint8]


@dataclass(frozen=True, slots=True, kw_only=True)
class Year:
    """A generated log directory. `damaged`: the number of damaged batches."""

    folder: Path
    records: int
    size_bytes: int
    damaged: int
    seconds: float


class YearLog:
    """The log of a partition, which is only written, as fast as the disk allows.

    `recent`: batches of the coordinator since it was last cleared, with their numbers of offsets.
    """

    def __init__(self, folder: Path, partition: int) -> None:
        self.next_offset = 0
        self.recent: list[tuple[bytes, int]] = []
        self._folder = folder / f"{CONSUMER_OFFSETS}-{partition}"
        self._folder.mkdir(parents=True)
        self._file = segment_path(self._folder, 0).open("wb", buffering=0)

    def append(
        self,
        records: Sequence[CoordinatorRecord],
        *,
        timestamp_ms: int,
        producer_id: int = -1,
        producer_epoch: int = -1,
    ) -> int:
        """Write one batch; returns the offset of its first record."""
        batch = batch_of(
            records,
            first_offset=self.next_offset,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
            leader_epoch=0,
        )
        return self._write(batch, len(records))

    def parts(self, records: Sequence[CoordinatorRecord]) -> Iterable[Sequence[CoordinatorRecord]]:
        """Return all records in one batch."""
        return [records]

    def append_marker(self, producer_id: int, producer_epoch: int, *, commit: bool, timestamp_ms: int) -> int:
        """Write the end of a transaction; returns the marker's offset."""
        marker = encode_marker(
            commit=commit,
            offset=self.next_offset,
            timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=producer_epoch,
        )
        return self._write(marker, 1)

    def read(self) -> Iterator[StoredRecord | StoredMarker]:
        """Read nothing: coordinators start with an empty log."""
        return iter(())

    def put(self, batches: bytes, offsets: int) -> None:
        """Write encoded batches."""
        if self._file.tell() and self._file.tell() + len(batches) > SEGMENT_BYTES:
            self._file.close()
            self._file = segment_path(self._folder, self.next_offset).open("wb", buffering=0)
        rest = memoryview(batches)
        while rest:
            rest = rest[self._file.write(rest) :]
        self.next_offset += offsets

    def close(self) -> None:
        """Close the files."""
        self._file.close()

    def _write(self, batch: bytes, offsets: int) -> int:
        first = self.next_offset
        self.put(batch, offsets)
        self.recent.append((batch, offsets))
        return first


# ---- repeating


class Round:
    """Batches to repeat, and the positions of their increasing numbers."""

    def __init__(self, written: Sequence[tuple[bytes, int]], rng: Random) -> None:
        self.template = np.frombuffer(b"".join(batch for batch, _ in written), np.uint8)
        self.records = sum(offsets for _, offsets in written)
        self.starts: list[int] = []
        self.ends: list[int] = []
        self.base_offsets: list[int] = []
        self.times: list[int] = []
        self.offsets: list[tuple[int, int]] = []
        """Positions of committed offsets, and the number of records read between commits."""
        self.read: Counter[tuple[str, str, int]] = Counter()
        """Group, topic and partition → number of records read between commits."""
        begin = first = 0
        for batch, offsets in written:
            (found,) = read_batches(batch)
            assert isinstance(found, Batch)
            self.starts.append(begin)
            self.ends.append(begin + len(batch))
            self.base_offsets.append(first)
            self.times += [begin + BASE_TIMESTAMP, begin + MAX_TIMESTAMP]
            if not found.header.control:
                self._note_fields(batch, found, begin, rng)
            begin += len(batch)
            first += offsets

    def _note_fields(self, batch: bytes, found: Batch, begin: int, rng: Random) -> None:
        position = 0
        for record in found.records():
            assert isinstance(record, BatchRecord)
            if record.value is None:
                continue
            position = batch.index(record.value, position)
            decoded: Any = decode_record(record.key, record.value)
            if isinstance(decoded.value, OffsetCommitValue):
                timestamp = decoded.value.commit_timestamp.to_bytes(8)
                step, key = rng.randrange(1, 500), decoded.key
                self.offsets.append((begin + position + 2, step))  # after the version
                self.read[key.group, key.topic, key.partition] = step
                self.times.append(begin + position + record.value.rindex(timestamp))
            position += len(record.value)

    def repeated(self, times: int, next_offset: int, from_ms: int, to_ms: int) -> Iterator[tuple[bytes, int]]:
        """Repeat the round over a span of time; yield chunks of some MB, with offset counts."""
        rows = max(1, CHUNK_BYTES // max(1, len(self.template)))
        stamps = np.linspace(from_ms, to_ms, times + 2).astype(np.int64)[1:-1]
        for first in range(0, times, rows):
            numbers = np.arange(first, min(times, first + rows))
            matrix = np.tile(self.template, (len(numbers), 1))
            for place, delta in zip(self.starts, self.base_offsets, strict=True):
                _set(matrix, place, next_offset + (numbers - first) * self.records + delta)
            for place in self.times:
                _set(matrix, place, stamps[numbers])
            for place, step in self.offsets:
                now = int.from_bytes(self.template[place : place + 8].tobytes())
                _set(matrix, place, now + (numbers + 1) * step)
            self._set_crcs(matrix)
            next_offset += len(numbers) * self.records
            yield matrix.tobytes(), len(numbers) * self.records

    def _set_crcs(self, matrix: Matrix) -> None:
        data, width = matrix.tobytes(), matrix.shape[1]
        crcs = np.empty((len(matrix), len(self.starts)), ">u4")
        value = google_crc32c.value
        for column, (start, end) in enumerate(zip(self.starts, self.ends, strict=True)):
            crcs[:, column] = [value(data[row + start + COVERED : row + end]) for row in range(0, len(data), width)]
        for column, start in enumerate(self.starts):
            matrix[:, start + CRC : start + CRC + 4] = crcs[:, column : column + 1].copy().view(np.uint8)


def _set(matrix: Matrix, place: int, numbers: npt.NDArray[np.int64]) -> None:
    matrix[:, place : place + 8] = numbers.astype(">i8").view(np.uint8).reshape(-1, 8)


# ---- damage


def damaged_batches(log: YearLog, now_ms: int) -> Iterator[bytes]:
    """Write batches with a wrong CRC, a truncated value, and an unknown record type.

    Each has one record. None changes the state of groups.
    """
    key, value = bytes.fromhex("0001000167000174") + bytes(4), bytes(30)
    for kind in range(3):
        one = {0: (key, value), 1: (key, b"\x00\x03\x00"), 2: (b"\x00\x63" + key, value)}[kind]
        record = BatchRecord(offset=log.next_offset, timestamp_ms=now_ms, key=one[0], value=one[1])
        batch = bytearray(encode_batch([record], base_sequence=0, partition_leader_epoch=0))
        if kind == 0:
            batch[-9] ^= 0xFF
        log.put(bytes(batch), 1)
        yield bytes(batch)


# ---- groups


class PartitionYear:
    """One partition of the topic: its groups, their coordinator, its log."""

    def __init__(self, folder: Path, number: int, names: Sequence[tuple[str, str]], seed: int, slot_ms: int) -> None:
        self.rng = rng = Random(f"{seed}-{number}")
        self.slot_ms = slot_ms
        self.log = YearLog(folder, number)
        session_ms = slot_ms * 3 // 2
        config = CoordinatorConfig(
            group_consumer_session_timeout_ms=session_ms,
            group_consumer_max_session_timeout_ms=session_ms,
            group_share_session_timeout_ms=session_ms,
            group_max_session_timeout_ms=session_ms,
            offsets_retention_minutes=3 * slot_ms // 60_000,
            offsets_retention_check_interval_ms=slot_ms,
        )
        image = image_of(seed)
        shard = GroupCoordinatorShard(config, image=image, new_id=lambda: UUID(int=rng.getrandbits(128), version=4))
        self.runtime = PartitionRuntime(shard, self.log, now_ms=START_MS)
        self.runtime.load()
        self.groups = []
        for name, kind in names:
            topics = tuple(sorted(rng.sample(sorted(image.topics), rng.choice([1, 1, 2, 3]))))
            protocol = {"changing": "classic", "transactional": "consumer"}.get(kind, kind)
            group = Group(self.runtime, name, protocol, topics, rng, session_ms)
            self.groups.append((group, kind))
            if kind != "simple":
                for _ in range(rng.randrange(1, 4)):
                    group.join()
        self.damaged = 0

    def run(self, records: int, slots: int, damage: int) -> None:
        """Write about `records` records, or more if the changes of groups need more.

        `damage`: damage batches in every so many slots; 0 for none.
        """
        for slot in range(slots):
            end_ms = START_MS + (slot + 1) * self.slot_ms
            for group, kind in self.groups:
                if slot == 0:
                    group.settle()
                elif self.rng.random() < 0.15 or (kind == "changing" and slot % (slots // 4 + 1) == 1):
                    self._happen(group, kind, slot)
                else:
                    group.beat()
            self.log.recent.clear()
            self._commits()
            again = Round(self.log.recent, self.rng)
            self._repeat(again, records * (slot + 1) // slots - again.records, end_ms)
            if damage and slot % damage == 0:
                self.damaged += sum(1 for _ in damaged_batches(self.log, self.runtime.now_ms))
            self.runtime.advance(max(end_ms, self.runtime.now_ms))
            self._commits()
        self.log.close()

    def _commits(self) -> None:
        for group, kind in self.groups:
            group.commit()
            if kind == "transactional" and group.clients:
                group.commit_in_transaction(commit=self.rng.random() < 0.8)

    def _repeat(self, again: Round, until: int, end_ms: int) -> None:
        times = (until - self.log.next_offset) // max(1, again.records)
        if times > 0:
            for batches, offsets in again.repeated(times, self.log.next_offset, self.runtime.now_ms, end_ms - 60_000):
                self.log.put(batches, offsets)
            for group, _ in self.groups:
                for topic, number in group.positions:
                    group.positions[topic, number] += times * again.read[group.name, topic, number]

    def _happen(self, group: Group, kind: str, slot: int) -> None:
        """Change a group at random."""
        rng = self.rng
        if kind == "simple":
            if rng.random() < 0.2:
                group.forget()
            return
        if kind == "changing":
            # Members of the other protocol join, then the old members leave: an online upgrade or
            # downgrade (KIP-848).
            new = "consumer" if group.protocol == "classic" else "classic"
            old, group.protocol = list(group.clients), new
            for _ in range(max(1, len(old))):
                group.join(new)
            group.settle()
            for client in old:
                group.leave(client)
        elif not group.clients or (len(group.clients) < 5 and rng.random() < 0.5):
            group.join()
        elif rng.random() < 0.25:
            group.vanish(rng.choice(group.clients))
        elif rng.random() < 0.2:
            for client in list(group.clients):  # offsets of an empty group expire, or an admin deletes the group
                group.leave(client)
            if rng.random() < 0.4:
                group.delete()
        else:
            group.leave(rng.choice(group.clients))
        group.settle()


def image_of(seed: int) -> MetadataImage:
    """Return an image with topics of 3 to 16 partitions, in three racks."""
    rng = Random(seed)
    image = MetadataImage.EMPTY.with_brokers({0: "rack0", 1: "rack1", 2: "rack2"})
    names = ("orders", "payments", "clicks", "stock", "mails", "audit", "prices", "users")
    return image.with_topics(
        TopicImage(
            name=f"{names[number % len(names)]}.{number}",
            id=Uuid(rng.randbytes(16)),
            replicas=tuple((one % 3, (one + 1) % 3) for one in range(rng.randrange(3, 17))),
        )
        for number in range(TOPICS)
    )


def _write_partition(
    folder: Path, number: int, names: list[tuple[str, str]], seed: int, records: int, slots: int, damage: int
) -> tuple[int, int]:
    slot_ms = min(365 * DAY_MS // slots, LONGEST_MS)
    year = PartitionYear(folder, number, names, seed, slot_ms)
    year.run(records, slots, damage)
    return year.log.next_offset, year.damaged


def write_year(
    folder: Path,
    records: int,
    *,
    groups: int = 200,
    partitions: int = 8,
    slots: int | None = None,
    seed: int = 7,
    damage: int = 10,
    processes: int = 2,
) -> Year:
    """Write about `records` records to a log directory; the same for the same arguments.

    `slots`: the number of time spans, at whose beginning groups change. A span has at most 10 days,
    so few spans make less than a year. `damage`: in every so many spans, three batches of each
    partition are damaged; 0 for none.
    """
    begin = time.perf_counter()
    if slots is None:
        slots = min(max(records // 100_000, 20), 73)
    by_partition: dict[int, list[tuple[str, str]]] = {}
    for number in range(groups):
        name = f"group-{number:03}-{'abcdefgh'[number % 8] * (number % 5)}"
        by_partition.setdefault(partition_for(name, partitions), []).append((name, KINDS[number % len(KINDS)]))
    committing = {
        number: sum(kind != "share" for _, kind in names) or 1 for number, names in sorted(by_partition.items())
    }
    whole = sum(committing.values())
    tasks = [
        (folder, number, by_partition[number], seed, records * share // whole, slots, damage)
        for number, share in committing.items()
    ]
    if processes == 1:
        done = [_write_partition(*task) for task in tasks]
    else:
        with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
            done = list(pool.map(_write_partition, *zip(*tasks, strict=True)))
    size = sum(path.stat().st_size for path in folder.rglob("*.log"))
    return Year(
        folder=folder,
        records=sum(count for count, _ in done),
        size_bytes=size,
        damaged=sum(damaged for _, damaged in done),
        seconds=time.perf_counter() - begin,
    )


if __name__ == "__main__":
    print(write_year(Path(sys.argv[1]), int(sys.argv[2])))
