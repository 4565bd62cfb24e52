"""Random logs with several segments, compression, gaps, transactions and damaged values."""

from pathlib import Path
from random import Random

from quorate.codecs import encode_record
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.messages import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from quorate.codecs.records import CoordinatorRecord

START_MS = 1_795_000_000_000


def random_record(random: Random, offset: int) -> BatchRecord:
    """Return the record of an offset commit, or a tombstone, unknown type or damaged value."""
    group = f"group-{random.randrange(4)}"
    commit = OffsetCommitKey(group=group, topic="orders", partition=random.randrange(3))
    value = OffsetCommitValue(offset=offset, leader_epoch=-1, metadata="", commit_timestamp=START_MS + offset)
    key: bytes | None
    match random.randrange(12):
        case 0:
            key, body = encode_record(CoordinatorRecord(key=commit, value=None, version=None))
        case 1:
            key, body = encode_record(CoordinatorRecord(key=GroupMetadataKey(group=group), value=None, version=None))
        case 2:
            key, body = b"\x00\x63" + group.encode(), b"\x00\x00"
        case 3:
            key, body = encode_record(CoordinatorRecord(key=commit, value=value, version=3))
            body = (body or b"")[: random.randrange(2, 12)]
        case _:
            key, body = encode_record(CoordinatorRecord(key=commit, value=value, version=3))
    # Timestamps are not in order, like those of several brokers.
    return BatchRecord(
        offset=offset, timestamp_ms=START_MS + offset * 10 + random.randrange(-50, 50), key=key, value=body
    )


def write_log(folder: Path, random: Random, batches: int = 60) -> Path:
    """Write a partition's folder with this number of batches; return the folder."""
    folder.mkdir(parents=True)
    offset = random.choice([0, 0, 1000])
    segment_offset, data = offset, b""
    open_producers: set[int] = set()
    for _ in range(batches):
        if data and random.randrange(12) == 0:
            (folder / f"{segment_offset:020d}.log").write_bytes(data)
            offset += random.choice([0, 0, 5])
            segment_offset, data = offset, b""
        if open_producers and random.randrange(3) == 0:
            producer = random.choice(sorted(open_producers))
            open_producers.discard(producer)
            data += encode_marker(
                commit=random.random() < 0.5,
                offset=offset,
                timestamp_ms=START_MS + offset * 10,
                producer_id=producer,
                producer_epoch=0,
            )
            offset += 1
            continue
        records = [random_record(random, offset + index) for index in range(random.randrange(1, 5))]
        producer = random.randrange(3) if random.randrange(3) == 0 else -1
        if producer >= 0:
            open_producers.add(producer)
        data += encode_batch(
            records,
            compression=random.choice(["none", "none", "zstd", "gzip"]),
            producer_id=producer,
            producer_epoch=min(producer, 0),
            base_sequence=min(producer, 0),
            transactional=producer >= 0,
        )
        offset += len(records) + random.choice([0, 0, 0, 3])
    (folder / f"{segment_offset:020d}.log").write_bytes(data)
    return folder


def damage(folder: Path, random: Random) -> None:
    """Change, remove or insert a few bytes in segments of a folder."""
    for _ in range(random.randrange(1, 4)):
        path = random.choice(sorted(folder.glob("*.log")))
        data = bytearray(path.read_bytes())
        at = random.randrange(len(data)) if data else 0
        match random.randrange(4):
            case 0:
                del data[at : at + random.randrange(1, 90)]
            case 1:
                data[at:at] = random.randbytes(random.randrange(1, 90))
            case _ if data:
                data[at] ^= random.randrange(1, 256)
        path.write_bytes(bytes(data))
