"""Compare requests, replay and hashes of the coordinator with Kafka's own classes.

Also measures memory. Java's figures are those of the oracle's benchmark, in one thread of one JVM:
the lesser of the least round and the median CPU time per call. Ours are the least average of a
round, before and after the JVM; of elapsed and CPU time the lesser one, which excludes the load of
other processes. Java is warmed up fully also with `--quick`, which omits the largest cases.
"""

import gc
import random
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import UUID

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _measure import JAVA, SMOKE_JAVA, USUAL_JAVA, Action, Measured, java, need_java, size_of
from _report import Report

from quorate.codecs import CoordinatorRecord, Uuid, decode_record, encode_record
from quorate.codecs.api import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse, OffsetCommitRequest
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.messages.consumer_group import (
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupPartitionMetadataValue,
    PartitionMetadata,
    TopicMetadata,
)
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog, StoredRecord
from quorate.coordinator.metadata_hash import group_hash, topic_hash
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.records import offset_commit
from quorate.coordinator.results import RequestContext
from quorate.coordinator.state.consumer import ConsumerGroup

START_MS = 1_700_000_000_000
BEAT_MS = 5_000
"""The interval of heartbeats."""

Beats = list[ConsumerGroupHeartbeatRequest]


# ---- groups


class Discarding(MemoryLog):
    """A log that discards all records, like that of the oracle's benchmark."""

    def append(self, records: Sequence[CoordinatorRecord], **of_batch: Any) -> int:
        """Discard records."""
        return 0


def image_of(topics: int, partitions: int) -> MetadataImage:
    """Return an image with topics of `partitions` partitions each, in three racks."""
    image = MetadataImage.EMPTY.with_brokers({0: "rack0", 1: "rack1", 2: "rack2"})
    replicas = tuple((one % 3, (one + 1) % 3, (one + 2) % 3) for one in range(partitions))
    return image.with_topics(
        TopicImage(name=f"t{one}", id=Uuid(bytes(15) + bytes([one + 1])), replicas=replicas) for one in range(topics)
    )


def runtime_of(image: MetadataImage, log: MemoryLog, *, interval_ms: int = 0) -> PartitionRuntime:
    ids = random.Random(848)
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=interval_ms)
    shard = GroupCoordinatorShard(config, image=image, new_id=lambda: UUID(int=ids.getrandbits(128), version=4))
    runtime = PartitionRuntime(shard, log, now_ms=START_MS)
    runtime.load()
    return runtime


def context(now_ms: int, version: int = 1) -> RequestContext:
    return RequestContext(api_version=version, now_ms=now_ms, client_id="c")


def settled(runtime: PartitionRuntime, members: int, topics: Sequence[str]) -> tuple[Beats, int]:
    """Let members join group "g", and send heartbeats until the group is stable.

    Returns the heartbeat of each member in the stable state, and the number of heartbeats sent.
    """
    beats = [
        ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"member{one:04}",
            rebalance_timeout_ms=300_000,
            subscribed_topic_names=tuple(topics),
            topic_partitions=(),
        )
        for one in range(members)
    ]
    owned: list[tuple[TopicPartitions, ...]] = [()] * members
    sent, changed = 0, True
    while changed:
        changed = False
        for number, beat in enumerate(beats):
            response: ConsumerGroupHeartbeatResponse = runtime.request(beat, context(runtime.now_ms)).response
            if response.error_code:
                raise AssertionError(f"{beat} failed: {response}")
            changed = changed or response.member_epoch != beat.member_epoch or response.assignment is not None
            if response.assignment is not None:
                owned[number] = response.assignment.topic_partitions
            beats[number] = ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id=beat.member_id,
                member_epoch=response.member_epoch,
                topic_partitions=owned[number] if response.assignment is not None else None,
            )
        sent += members
        runtime.advance(runtime.now_ms + BEAT_MS)
    return [replace(beat, topic_partitions=None) for beat in beats], sent


def log_of(members: int, image: MetadataImage) -> tuple[list[CoordinatorRecord], Beats]:
    """Return the latest record of each key of a stable group, and its members' heartbeats."""
    log = MemoryLog()
    beats, _ = settled(runtime_of(image, log), members, tuple(image.topics))
    latest = {
        one.record.key: one.record
        for one in log.read()
        if isinstance(one, StoredRecord) and isinstance(one.record, CoordinatorRecord)
    }
    return [one for one in latest.values() if one.value is not None], beats


def many(records: Sequence[CoordinatorRecord], groups: int) -> Iterator[CoordinatorRecord]:
    """Yield the records of one group under many names, each decoded again as in a load."""
    for number in range(groups):
        for record in records:
            key: Any = record.key
            named = {"group_id": f"g{number}"}
            if hasattr(key, "member_id"):
                named["member_id"] = member_of(number, key.member_id)
            yield decode_record(*encode_record(replace(record, key=replace(key, **named))))  # type: ignore[misc]


def member_of(group: int, member_id: str) -> str:
    """Return the id of a member of one of `many` groups. As on a server, no other group has it."""
    return f"{member_id}-of-g{group}"


def loaded(records: Sequence[CoordinatorRecord], groups: int, image: MetadataImage) -> PartitionRuntime:
    """Return a coordinator that has loaded `groups` groups."""
    runtime = runtime_of(image, Discarding())
    for record in many(records, groups):
        runtime.shard.replay(record, strict=True)
    runtime.shard.loaded(runtime.now_ms)
    return runtime


# ---- cases that Java has, too


def heartbeats() -> tuple[Measured, Measured]:
    """Return heartbeats of a stable group of 100, as in the oracle: in shard and runtime."""
    runtime = runtime_of(image_of(1, 1000), Discarding())
    beats, _ = settled(runtime, 100, ["t0"])
    shard, at = runtime.shard, context(runtime.now_ms)

    def in_shard() -> None:
        for beat in beats:
            shard.handle(beat, at)

    def through_runtime() -> None:
        for beat in beats:
            runtime.handle(beat, at)

    if any(shard.handle(beat, at).records for beat in beats):
        raise AssertionError("the group is not stable")
    return Measured(in_shard, len(beats)), Measured(through_runtime, len(beats))


def commits() -> tuple[Measured, Measured]:
    """Return commits of a group without members, one partition each.

    The first is in the shard with replay, the second through the runtime.
    """
    image = image_of(1, 1000)
    topic = image.topics["t0"]
    requests = [
        OffsetCommitRequest(
            group_id="simple",
            topics=(
                OffsetCommitRequestTopic(
                    name=topic.name,
                    topic_id=topic.id,
                    partitions=(OffsetCommitRequestPartition(partition_index=one, committed_offset=one),),
                ),
            ),
        )
        for one in range(1000)
    ]
    at = context(START_MS, version=9)
    first, second = (runtime_of(image, Discarding()) for _ in range(2))
    first.request(requests[0], at)

    def in_shard() -> None:
        for offset, request in enumerate(requests):
            for record in first.shard.handle(request, at).records:
                first.shard.replay(record, offset=offset)

    def through_runtime() -> None:
        for request in requests:
            second.handle(request, at)

    return Measured(in_shard, len(requests)), Measured(through_runtime, len(requests))


def replays() -> tuple[Measured, Measured]:
    """Return the replay of 10,000 committed offsets: of decoded records, and from bytes."""
    config = CoordinatorConfig()
    records = [
        offset_commit(
            config,
            group=f"consumer-group-{one % 100}",
            topic="some-topic-name",
            partition=one // 100,
            offset=123_456_789 + one,
            leader_epoch=7,
            metadata="",
            commit_timestamp_ms=START_MS,
            topic_id=Uuid(bytes(15) + b"\x02"),
        )
        for one in range(10_000)
    ]
    shard = runtime_of(MetadataImage.EMPTY, Discarding()).shard
    raw = [encode_record(record) for record in records]

    def replay() -> None:
        for offset, record in enumerate(records):
            shard.replay(record, offset=offset)

    def load() -> None:
        for offset, (key, value) in enumerate(raw):
            shard.replay(decode_record(key, value), offset=offset)

    return Measured(replay, len(records)), Measured(load, len(records))


def hashes(partitions: int) -> Measured:
    """Return the hash of a topic's racks, computed from an image without caches."""
    image = image_of(1, partitions)
    topic = image.topics["t0"]
    times = max(1, 2000 // partitions)

    def compute() -> None:
        for _ in range(times):
            topic_hash(topic.id, topic.name, image.racks(topic))

    return Measured(compute, times)


def hashes_of_groups() -> Measured:
    topics = {f"topic-{one}": (one * 0x1E3779B97F4A7C15) % (1 << 63) for one in range(100)}

    def compute() -> None:
        for _ in range(50):
            group_hash(topics)

    return Measured(compute, 50)


def compare_with_java(report: Report) -> None:
    """Compare all cases of the oracle's benchmark, in its order."""
    reach = "≥ 100,000/s"
    cases = list(
        zip(
            (
                "heartbeats of 100 members, shard",
                "heartbeats of 100 members, runtime",
                "offset commits, runtime, log discarded",
                "offset commits, shard and replay",
                "replay of OffsetCommit",
                "replay of OffsetCommit, from bytes",
                "hash of a topic: 10,000 partitions in 3 racks",
                "hash of a topic: 100 partitions in 3 racks",
                "hash of a topic: 1 partition in 3 racks",
                "hash of a group: 100 topics",
            ),
            (*heartbeats(), *reversed(commits()), *replays(), *map(hashes, (10_000, 100, 1)), hashes_of_groups()),
            ("heartbeat", "heartbeat", "offset-commit", "offset-commit", "replay-OffsetCommit", "load-OffsetCommit")
            + ("topic-hash",) * 3
            + ("group-hash",),
            (reach, reach, "", "", "≥ 500,000/s", "", "ratio ≥ 0.5", "", "", ""),
            strict=True,
        )
    )
    least_s = report.pick(1.0, quick=0.4, smoke=0.0)
    for _, ours, _, _ in cases:
        ours.again(least_s=least_s)
    options = SMOKE_JAVA if report.smoke else USUAL_JAVA
    lines = [line for bench in ("shard", "hash") for line in java("oracle.Bench", bench, options=options)]
    for _, ours, _, _ in cases:
        ours.again(least_s=least_s)
    for (case, ours, family, goal), line in zip(cases, lines, strict=True):
        if line["bench"] != family:
            raise AssertionError(f"expected {family}, but Java measured {line['bench']}")
        if "hash" in family:
            report.cost(case, ours.least_s * 1e6, line["least_s"] * 1e6, JAVA, "µs", goal)
        else:
            unit = "records/s" if case.startswith("replay") else "requests/s"
            report.rate(case, 1 / ours.least_s, 1 / line["least_s"], JAVA, unit, goal)


# ---- cases without a peer


def growth(report: Report) -> None:
    """Measure 2,000 heartbeats of random members, for increasing numbers of groups of 5 members.

    For the largest number, also measure members of 10 groups only. This shows the work that grows
    with groups, without the cost of CPU cache misses. Java's shard has as many groups.
    """
    image = image_of(1, 20)
    records, beats = log_of(5, image)
    sizes = report.pick((10, 100, 1000, 10_000), quick=(10, 100, 1000), smoke=(10, 20))
    count = report.pick(2000, quick=2000, smoke=100)
    measured: dict[str, Measured] = {}
    for groups in sizes:
        runtime = loaded(records, groups, image)
        at = context(runtime.now_ms)
        for among in (groups, 10) if groups == sizes[-1] else (groups,):
            rng = random.Random(groups)
            requests = [beat_of(rng.randrange(among), rng.choice(beats)) for _ in range(count)]
            case = f"a heartbeat, {groups:,} groups of 5{', in 10 of them' if among < groups else ''}"
            measured[case] = Measured(_beating(runtime, requests, at), len(requests))
            measured[case].action()  # after a load, each group computes its hash once
    lines: list[dict[str, Any]] = []
    for peer in (True, False):  # ours before and after Java
        for one in measured.values():
            one.again(least_s=report.pick(0.5, quick=0.5, smoke=0.0))
        if peer:
            options = SMOKE_JAVA if report.smoke else USUAL_JAVA
            lines = java("oracle.Bench", "groups", options=(f"-Dgroups={sizes[-1]}", *options))
    first = next(iter(measured.values())).least_s * 1e6
    for case, one in measured.items():
        goal = "" if case.startswith("a heartbeat, 10 groups") else "ratio ≥ 0.67: flat"
        report.cost(case, one.least_s * 1e6, first, f"{sizes[0]} groups", "µs", goal)
    for line in lines:
        case = f"a heartbeat, {line['groups']:,} groups of 5"
        report.cost(case, measured[case].least_s * 1e6, line["least_s"] * 1e6, JAVA, "µs", "ratio ≥ 0.5")


def beat_of(group: int, beat: ConsumerGroupHeartbeatRequest) -> ConsumerGroupHeartbeatRequest:
    """Return a heartbeat of one of `many` groups, with strings of its own, as if decoded."""
    return replace(beat, group_id=f"g{group}", member_id=member_of(group, beat.member_id))


def _beating(runtime: PartitionRuntime, requests: Beats, at: RequestContext) -> Action:
    def beat() -> None:
        for request in requests:
            if runtime.shard.handle(request, at).records:
                raise AssertionError(f"group {request.group_id} is not stable")

    return beat


def storm(report: Report) -> None:
    """Measure members that join at once, until all have reached their target assignment.

    The interval between assignments is Kafka's default.
    """
    members = report.pick(1000, quick=1000, smoke=20)
    image = image_of(10, members // 10)
    least_s, sent = float("inf"), 0
    for _ in range(report.pick(5, quick=2, smoke=1)):
        runtime = runtime_of(image, Discarding(), interval_ms=1000)
        gc.collect()
        begin = time.perf_counter()
        _, sent = settled(runtime, members, tuple(image.topics))
        least_s = min(least_s, time.perf_counter() - begin)
        group = runtime.shard.state.groups["g"]
        if not isinstance(group, ConsumerGroup) or group.state != "Stable":
            raise AssertionError(f"the group is {group.state}")
    case = f"join storm: {members:,} members, {members:,} partitions, until stable"
    report.cost(case, least_s * 1e3, None, "", "ms", heartbeats=float(sent))


def memory(report: Report) -> None:
    """Measure memory of a loaded coordinator, including sessions.

    Groups of 1 and of 11 members separate the memory of a member from that of its group.
    """
    image = image_of(1, 22)
    groups = report.pick(500, quick=100, smoke=5)
    sizes = {}
    for members in (1, 11):
        records, _ = log_of(members, image)
        _, size = size_of(lambda records=records: loaded(records, groups, image))  # type: ignore[misc]
        sizes[members] = size / groups
    each = (sizes[11] - sizes[1]) / 10
    report.cost("memory of a member, 2 partitions each", each, None, "", "bytes")
    report.cost("memory of a group without its members", sizes[1] - each, None, "", "bytes")


def old_form(image: MetadataImage) -> tuple[bytes | None, bytes | None]:
    """Return the racks of all partitions that Kafka before 4.1 stored for a group (type 4)."""
    topics = tuple(
        TopicMetadata(
            topic_id=topic.id,
            topic_name=topic.name,
            num_partitions=topic.partitions,
            partition_metadata=tuple(
                PartitionMetadata(partition=number, racks=tuple(racks))
                for number, racks in enumerate(image.racks(topic))
            ),
        )
        for topic in image.topics.values()
    )
    key, value = ConsumerGroupPartitionMetadataKey(group_id="g0"), ConsumerGroupPartitionMetadataValue(topics=topics)
    return encode_record(CoordinatorRecord(key=key, value=value, version=0))


def racks_or_hash(report: Report) -> None:
    """Compare memory of the racks of each partition with that of hashes (KIP-1101).

    KIP-1101's example has 500 members and 2,000 partitions in three racks. Measured alone, and with
    the whole group.
    """
    members = report.pick(500, quick=500, smoke=10)
    image = image_of(10, members * 2 // 5)
    key, value = old_form(image)
    _, racks = size_of(lambda: decode_record(key, value))

    def hashed() -> tuple[dict[str, int], int]:
        known = {
            name.encode().decode(): topic_hash(one.id, name, image.racks(one)) for name, one in image.topics.items()
        }
        return known, group_hash(known)

    _, hash_form = size_of(hashed)
    case = f"KIP-1101, {members:,} members, {4 * members:,} partitions"
    old = "racks by partition"
    report.cost(f"{case}: metadata", hash_form, racks, old, "bytes", "ratio ≥ 4", in_log=8.0)
    records, _ = log_of(members, image)
    _, whole = size_of(lambda: loaded(records, 1, image))
    report.cost(f"{case}: whole group", whole + hash_form, whole + racks, old, "bytes")


def main() -> None:
    report = Report("quorate.coordinator", __doc__ or "")
    need_java()
    compare_with_java(report)
    for cases in (growth, storm, memory, racks_or_hash):
        cases(report)
    report.finish()


if __name__ == "__main__":
    main()
