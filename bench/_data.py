"""Records and segments for the benchmarks, the same for quorate and for every peer.

They are generated from a seed, and written by quorate's encoder.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random

from quorate.codecs import CoordinatorRecord, Uuid, encode_record
from quorate.codecs.batches.model import BatchRecord
from quorate.codecs.batches.writer import encode_batch
from quorate.codecs.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMemberValue,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMetadataValue,
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartition,
    TopicPartitions,
)

Raw = tuple[bytes, bytes | None]
START_MS = 1_795_247_932_891


@dataclass(frozen=True)
class Dataset:
    """Encoded records of one kind."""

    name: str
    records: list[CoordinatorRecord]

    @property
    def raw(self) -> list[Raw]:
        return [encode_record(record) for record in self.records]  # type: ignore[misc]  # no key is null


Make = Callable[[Random, int], CoordinatorRecord]


def dataset(name: str, count: int) -> Dataset:
    """`count` records of one of `KINDS`."""
    random = Random(7)
    make = KINDS[name]
    return Dataset(name, [make(random, i) for i in range(count)])


def _topic_ids() -> list[Uuid]:
    random = Random(3)
    return [Uuid(random.randbytes(16)) for _ in range(20)]


TOPIC_IDS = _topic_ids()


def _commit(random: Random, i: int, metadata: str, version: int) -> CoordinatorRecord:
    topic = random.randrange(20)
    key = OffsetCommitKey(
        group=f"group-{random.randrange(50)}", topic=f"orders-{topic}", partition=random.randrange(12)
    )
    value = OffsetCommitValue(
        offset=random.randrange(10**9),
        leader_epoch=random.randrange(9),
        metadata=metadata,
        commit_timestamp=START_MS + i,
        topic_id=TOPIC_IDS[topic] if version == 4 else Uuid.ZERO,
    )
    return CoordinatorRecord(key=key, value=value, version=version)


def _mixed_commit(random: Random, i: int) -> CoordinatorRecord:
    return _commit(random, i, random.choice(["", "", "host-17", "AgAAAaH9OFWS"]), random.choice([3, 4, 4, 4]))


def _epoch(random: Random, i: int) -> CoordinatorRecord:
    value = ConsumerGroupMetadataValue(epoch=i, metadata_hash=random.randrange(1 << 60))
    return CoordinatorRecord(
        key=ConsumerGroupMetadataKey(group_id=f"group-{random.randrange(500)}"), value=value, version=0
    )


def _target_epoch(random: Random, i: int) -> CoordinatorRecord:
    value = ConsumerGroupTargetAssignmentMetadataValue(assignment_epoch=i, assignment_timestamp=START_MS + i)
    return CoordinatorRecord(
        key=ConsumerGroupTargetAssignmentMetadataKey(group_id=f"group-{random.randrange(500)}"), value=value, version=0
    )


def _member(random: Random, i: int) -> CoordinatorRecord:
    key = ConsumerGroupMemberMetadataKey(
        group_id=f"group-{random.randrange(50)}", member_id=f"member-{random.randrange(5000):022}"
    )
    value = ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=f"rack-{'abc'[i % 3]}",
        client_id=f"client-{i % 100}",
        client_host="/10.0.0.1",
        subscribed_topic_names=("orders", "payments")[: 1 + i % 2],
        subscribed_topic_regex="",
        server_assignor=None,
        classic_member_metadata=None,
    )
    return CoordinatorRecord(key=key, value=value, version=0)


def _assignment(random: Random, most: int) -> Iterator[tuple[Uuid, tuple[int, ...]]]:
    for _ in range(random.randrange(most)):
        yield random.choice(TOPIC_IDS), tuple(sorted(random.sample(range(64), random.randrange(1, 6))))


def _target(random: Random, i: int) -> CoordinatorRecord:
    key = ConsumerGroupTargetAssignmentMemberKey(
        group_id=f"group-{random.randrange(50)}", member_id=f"member-{random.randrange(500):022}"
    )
    topics = tuple(
        TopicPartition(topic_id=topic, partitions=partitions) for topic, partitions in _assignment(random, 5)
    )
    return CoordinatorRecord(
        key=key, value=ConsumerGroupTargetAssignmentMemberValue(topic_partitions=topics), version=0
    )


def _current(random: Random, i: int) -> CoordinatorRecord:
    key = ConsumerGroupCurrentMemberAssignmentKey(
        group_id=f"group-{random.randrange(50)}", member_id=f"member-{random.randrange(500):022}"
    )
    topics = tuple(
        TopicPartitions(topic_id=topic, partitions=partitions, assignment_epochs=(i,) * len(partitions))
        for topic, partitions in _assignment(random, 5)
    )
    value = ConsumerGroupCurrentMemberAssignmentValue(
        member_epoch=i,
        previous_member_epoch=i - 1,
        state=0,
        assigned_partitions=topics,
        partitions_pending_revocation=(),
    )
    return CoordinatorRecord(key=key, value=value, version=0)


def _classic(random: Random, i: int) -> CoordinatorRecord:
    members = tuple(
        MemberMetadata(
            member_id=f"consumer-{j}-{random.randrange(1000):036}",
            client_id="consumer",
            client_host="/10.0.0.1",
            rebalance_timeout=300_000,
            session_timeout=45_000,
            subscription=bytes(40),
            assignment=bytes(30 + j),
        )
        for j in range(random.randrange(6))
    )
    value = GroupMetadataValue(
        protocol_type="consumer", generation=i, protocol="range", leader="consumer-0", members=members
    )
    return CoordinatorRecord(key=GroupMetadataKey(group=f"group-{random.randrange(50)}"), value=value, version=3)


KINDS: dict[str, Make] = {
    "OffsetCommit": lambda random, i: _commit(random, i, "", 4),
    "OffsetCommit, mixed": _mixed_commit,
    "ConsumerGroupMetadata": _epoch,
    "ConsumerGroupTargetAssignmentMetadata": _target_epoch,
    "ConsumerGroupMemberMetadata": _member,
    "ConsumerGroupTargetAssignmentMember": _target,
    "ConsumerGroupCurrentMemberAssignment": _current,
    "GroupMetadata": _classic,
}
"""Commits of one application (the same version, no metadata) and of many (versions 3 and 4, half of
them with metadata), and the types with and without lists.
"""


def write_pairs(path: Path, raw: list[Raw]) -> None:
    """Write the file for the Java benchmark: alternating keys and values, each after its length."""
    with path.open("wb") as file:
        for key, value in raw:
            file.write(len(key).to_bytes(4, "big") + key)
            file.write((-1 if value is None else len(value)).to_bytes(4, "big", signed=True) + (value or b""))


def write_segment(folder: Path, raw: list[Raw], *, per_batch: int, compression: str = "none") -> Path:
    """Write a segment with `per_batch` records in each batch."""
    folder.mkdir(parents=True)
    path = folder / "00000000000000000000.log"
    with path.open("wb") as file:
        for first in range(0, len(raw), per_batch):
            records = [
                BatchRecord(offset=first + i, timestamp_ms=START_MS + first + i, key=key, value=value)
                for i, (key, value) in enumerate(raw[first : first + per_batch])
            ]
            file.write(encode_batch(records, compression=compression))
    return path
