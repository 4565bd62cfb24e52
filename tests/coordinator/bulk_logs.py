"""Random logs as steps, columns and segments, to compare loaders."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from quorate.codecs import (
    CoordinatorRecord,
    TaggedField,
    Uuid,
    decode_record,
    encode_record,
)
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.log.raw import Markers, RawBlock
from quorate.codecs.messages import classic_group as classic
from quorate.codecs.messages import consumer_group as consumer
from quorate.codecs.messages import offsets as commits
from quorate.codecs.messages import share_group as share
from quorate.codecs.messages import streams_group as streams
from quorate.coordinator.state import CoordinatorState

NOW = 1_800_000_000_000
GROUPS = ("g", "ü", "web")
TOPICS = ("t", "long-" * 9, "x")
IDS = (Uuid.ZERO, Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02"))
METADATA = ("", "", "host-17", "ä")

Pair = tuple[bytes | None, bytes | None]
Step = tuple[str, int, int, int, int, int]
"""Kind, group, topic, partition, producer (0: none), and a number that makes the record unique."""


def commit(group: int, topic: int, partition: int, number: int, version: int = 4) -> CoordinatorRecord:
    value = commits.OffsetCommitValue(
        offset=number,
        leader_epoch=number % 3 - 1 if version >= 3 else -1,
        metadata=METADATA[number % len(METADATA)],
        commit_timestamp=NOW + number,
        expire_timestamp=NOW + 2 * number if version == 1 else -1,
        topic_id=IDS[number % 3] if version == 4 else Uuid.ZERO,
        unknown_tags=(TaggedField(9, b"new"),) if version == 4 and number % 11 == 10 else (),
    )
    key = commits.OffsetCommitKey(group=GROUPS[group], topic=TOPICS[topic], partition=partition)
    return CoordinatorRecord(key=key, value=value, version=version)


def of_groups(group: int, number: int) -> CoordinatorRecord:
    """Return records of groups of all kinds, and tombstones."""
    name, member = GROUPS[group], f"m{number % 2}"
    alive, left = number % 4 < 3, number % 8 == 7
    key: Any
    value: Any
    match number % 9:
        case 0 | 1:
            key, value = (
                classic.GroupMetadataKey(group=name),
                classic.GroupMetadataValue(
                    protocol_type="consumer", generation=number, protocol=None, leader=None, members=()
                ),
            )
            alive = number % 9 == 0
        case 2:
            key, value = (
                consumer.ConsumerGroupMetadataKey(group_id=name),
                consumer.ConsumerGroupMetadataValue(epoch=number),
            )
        case 3:
            key = consumer.ConsumerGroupTargetAssignmentMetadataKey(group_id=name)
            value = consumer.ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        case 4:
            key = consumer.ConsumerGroupCurrentMemberAssignmentKey(group_id=name, member_id=member)
            value = consumer.ConsumerGroupCurrentMemberAssignmentValue(
                member_epoch=-1 if left else number,
                previous_member_epoch=0,
                state=0,
                assigned_partitions=(),
                partitions_pending_revocation=(),
            )
        case 5:
            key = consumer.ConsumerGroupMemberMetadataKey(group_id=name, member_id=member)
            value = consumer.ConsumerGroupMemberMetadataValue(
                instance_id=None,
                rack_id=None,
                client_id="c",
                client_host="/h",
                subscribed_topic_names=TOPICS[: number % 3],
                subscribed_topic_regex="",
                server_assignor=None,
                classic_member_metadata=None,
            )
        case 6:
            key = share.ShareGroupMetadataKey(group_id=name)
            value = share.ShareGroupMetadataValue(epoch=number, metadata_hash=1)
        case 7:
            key = share.ShareGroupTargetAssignmentMetadataKey(group_id=name)
            value = share.ShareGroupTargetAssignmentMetadataValue(assignment_epoch=number)
        case _:
            key = streams.StreamsGroupTargetAssignmentMetadataKey(group_id=name)
            value = streams.StreamsGroupTargetAssignmentMetadataValue(assignment_epoch=number)
    return CoordinatorRecord(
        key=key,
        value=value if alive else None,
        version=(3 if isinstance(key, classic.GroupMetadataKey) else 0) if alive else None,
    )


def pair_of(step: Step) -> Pair:
    """Return the key and value bytes of a step's record."""
    kind, group, topic, partition, _, number = step
    record = commit(group, topic, partition, number)
    key, value = encode_record(record)
    assert key is not None
    assert value is not None
    match kind:
        case "old version":
            return encode_record(commit(group, topic, partition, number, version=number % 4))
        case "legacy":
            old = commits.LegacyOffsetCommitValue(offset=number, metadata="", commit_timestamp=NOW)
            of_old = commits.LegacyOffsetCommitKey(group=GROUPS[group], topic=TOPICS[topic], partition=partition)
            return encode_record(CoordinatorRecord(key=of_old, value=old, version=0))
        case "tombstone":
            return (b"\0\0" + key[2:] if number % 5 == 4 else key), None
        case "group":
            return encode_record(of_groups(group, number))
        case "odd":
            metadata: str = record.value.metadata  # type: ignore[union-attr]
            not_utf8 = value[:14] + b"\x03\xff\xfe" + value[15 + len(metadata.encode()) :]
            return (
                (key, value[: number % len(value)]),
                (key + b"more", value),
                (key, value + b"more"),
                (key, b"\0\x09" + value[2:]),
                (b"\0\x63" + key[2:], value),
                (None, value),
                (key[: number % len(key)], value),
                (key, not_utf8),
                (key[:-4], None),
                (b"\0\x01\0\x01\xff" + key[4 + int.from_bytes(key[2:4]) :], value),
            )[number % 10]
    return key, value


RARE = ("old version", "legacy", "tombstone", "group", "group", "odd", "marker")


def steps_of(seed: int, count: int, names: int, partitions: int, rare: int, producers: int) -> list[Step]:
    """Return a log. With more names and partitions, fewer commits repeat a key.

    `rare` in ten records are not commits.
    """
    random = Random(seed)
    return [
        (
            random.choice(RARE) if random.random() * 10 < rare else "commit",
            random.randrange(names),
            random.randrange(names),
            random.randrange(partitions),
            random.randrange(1, 3) if random.random() * 10 < producers else 0,
            random.randrange(400),
        )
        for _ in range(count)
    ]


STEPS = st.builds(
    steps_of,
    seed=st.integers(0, 1 << 30),
    count=st.integers(0, 80),
    names=st.integers(1, 3),
    partitions=st.sampled_from([1, 2, 3, 6, 11]),
    rare=st.sampled_from([0, 1, 2, 5, 10]),
    producers=st.sampled_from([0, 0, 1, 5]),
)


OffsetOf = Callable[[int], int]


def in_order(place: int) -> int:
    return place


def unknown(place: int) -> int:
    return -1


def scattered(place: int) -> int:
    """Return offsets that are out of order, as in a damaged log."""
    return place * 37 % 101


OFFSETS = (in_order, in_order, unknown, scattered)


def replay_each(steps: Sequence[Step], offset_of: OffsetOf = in_order) -> CoordinatorState:
    """Return the state after replaying each record, which defines the correct result."""
    state = CoordinatorState()
    for place, step in enumerate(steps):
        producer_id = step[4] or -1
        if step[0] == "marker":
            state.offsets.end_transaction(producer_id, commit=step[5] % 3 > 0)
        else:
            state.replay(decode_record(*pair_of(step)), offset=offset_of(place), producer_id=producer_id)
    return state


def block_of(steps: Sequence[Step], first: int, offset_of: OffsetOf = in_order) -> RawBlock:
    """Return the steps as columns; the first one has the place `first`."""
    rows = [(place, step) for place, step in enumerate(steps, first) if step[0] != "marker"]
    ends = [(place, step) for place, step in enumerate(steps, first) if step[0] == "marker"]
    keys, values = zip(*(pair_of(step) for _, step in rows), strict=True) if rows else ((), ())
    return RawBlock.of(
        pa.array(keys, pa.binary()),
        pa.array(values, pa.binary()),
        offset=[offset_of(place) for place, _ in rows],
        producer_id=[step[4] or -1 for _, step in rows],
        markers=Markers(
            row=np.array([sum(other < place for other, _ in rows) for place, _ in ends], np.int64),
            offset=np.array([offset_of(place) for place, _ in ends], np.int64),
            timestamp_ms=np.full(len(ends), NOW),
            producer_id=np.array([step[4] or -1 for _, step in ends], np.int64),
            commit=np.array([step[5] % 3 > 0 for _, step in ends], np.bool_),
        ),
    )


def blocks(steps: Sequence[Step], sizes: Sequence[int], offset_of: OffsetOf) -> Iterator[RawBlock]:
    first = 0
    for size in [*sizes, len(steps)]:
        yield block_of(steps[first : first + size], first, offset_of)
        first += size


def write_segment(
    folder: Path, steps: Sequence[Step], sizes: Sequence[int], compression: str, damaged_byte: int | None
) -> None:
    """Write the steps as a segment, in batches of one producer with up to `sizes` records.

    `damaged_byte`: position of a byte to change.
    """
    data, batch, left = b"", [], list(sizes)
    size = 1

    def finished() -> bytes:
        producer_id = batch[0][1][4] or -1
        return encode_batch(
            [
                BatchRecord(offset=offset, timestamp_ms=NOW + offset, key=key, value=value)
                for offset, step in batch
                for key, value in [pair_of(step)]
            ],
            compression=compression,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=0,
            transactional=producer_id >= 0,
        )

    for offset, step in enumerate(steps):
        if batch and (len(batch) >= size or step[4] != batch[0][1][4] or step[0] == "marker"):
            data += finished()
            batch = []
            size = left.pop() if left else 3
        if step[0] != "marker":
            batch.append((offset, step))
        elif step[4]:
            data += encode_marker(
                commit=step[5] % 3 > 0, offset=offset, timestamp_ms=NOW, producer_id=step[4], producer_epoch=0
            )
    data += finished() if batch else b""
    if damaged_byte is not None and data:
        at = damaged_byte % len(data)
        data = data[:at] + bytes([data[at] ^ 0x55]) + data[at + 1 :]
    folder.mkdir(parents=True)
    (folder / f"{0:020}.log").write_bytes(data)
