"""Randomly damaged data directories: each start restores all data, or fails and reports the loss.

A start may cut off an unfinished write of a crash, and reports that. `Case` creates a directory
from a seed, stores the cluster's contents, damages one thing in a copy, and starts a cluster there.
No loss may be silent.

The module is longer than others: it has all kinds of damage, and what a start must report for each.
"""

import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from quorate.cluster import ClusterError, ManualClock
from quorate.cluster.core import ClusterCore
from quorate.cluster.log import PartitionLog
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.cluster.storage.files import ProducerEntry
from quorate.cluster.storage.segment import BatchFacts
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import OffsetCommitRequest, OffsetFetchRequest
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopics
from quorate.codecs.batches import Batch, BatchRecord, encode_batch, read_batches
from quorate.codecs.configs import ConfigResourceType
from quorate.codecs.message import TRANSACTION_STATE
from quorate.coordinator.errors import ApiError
from quorate.coordinator.results import RequestContext
from tests.cluster.conftest import QUICK

KINDS = (
    "metadata log",
    "segment",
    "coordinator segment",
    "index",
    "timeindex",
    "txnindex",
    "snapshot",
    "checkpoint",
    "leader-epoch-checkpoint",
    "partition.metadata",
    CHECKSUMS,
    "meta.properties",
    "clean marker",
    "lock",
    "folder",
)
ENDS = ("stop", "crash", "power")
"""How the cluster ended: cleanly, killed, or by a power failure."""
HOWS = ("bit", "bit", "bit", "cut", "cut at a batch", "empty", "remove")
GROUPS = ("g0", "g1", "g2")


_LOST = re.compile(r"records at offsets? ([\d,]+)(?: to ([\d,]+))?")


class Finding(AssertionError):
    """A loss that the start did not report, or an unexpected failure."""


@dataclass
class Outcome:
    """The result of a case: `restored`, `refused` or `cut`, and the messages."""

    kind: str
    how: str
    path: Path
    result: str = ""
    said: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        return f"{self.kind}, {self.how}: {self.path}"


def core_of(data: Path, **options: Any) -> ClusterCore:
    """Create a cluster of three brokers without sockets, not started, so that it writes nothing."""
    return ClusterCore({1: "a", 2: "b", 3: None}, data=data, clock=ManualClock(), seed=1, properties=QUICK, **options)


def begin(core: ClusterCore) -> None:
    """Register the brokers."""
    for broker in core.brokers.values():
        broker.serving = True
    core.started()


def crash(core: ClusterCore) -> None:
    """Stop without a shutdown."""
    core.maintenance.stop()
    assert core.data is not None
    core.data.release()


# ---- contents of a cluster


def log_facts(log: PartitionLog) -> dict[str, Any]:
    """Return all facts that a log reports."""
    return {
        "batches": [one.data for one in log],
        "offsets": (log.start_offset, log.next_offset, log.last_stable_offset),
        "epochs": list(log.epochs),
        "producers": _producers(log),
        "aborted": [one.base_offset for one in log if one.transactional and one.count and _is_aborted(log, one)],
        "reads": [log.read(offset, 400, until=log.next_offset, at_least_one=True).records for offset in _some(log)],
        "times": [
            None if (found := log.offset_for(at_ms, until=log.next_offset)) is None else found.base_offset
            for at_ms in _times(log)
        ],
    }


def _producers(log: PartitionLog) -> list[ProducerEntry]:
    """Return the producers by id, with the timestamps of their last batches.

    Compaction can remove the newest record of a last batch, and its timestamp. A state that is
    rebuilt from batches does not have it, as in Kafka (`LogSegment.recover`).
    """
    last = {(one.producer_id, one.last_offset): one.max_timestamp_ms for one in log}
    entries = sorted(log.producers.entries(), key=lambda entry: entry.producer_id)
    return [
        replace(one, timestamp_ms=last.get((one.producer_id, one.last_offset), one.timestamp_ms)) for one in entries
    ]


def _is_aborted(log: PartitionLog, batch: BatchFacts) -> bool:
    """Return whether consumers of committed records skip a batch.

    The index may lack transactions that compaction has removed.
    """
    return not batch.control and any(
        one.producer_id == batch.producer_id and one.first_offset <= batch.base_offset < one.last_offset
        for one in log.producers.aborted
    )


def _some(log: PartitionLog) -> range:
    return range(log.start_offset, log.next_offset, max(1, (log.next_offset - log.start_offset) // 7))


def _times(log: PartitionLog) -> range:
    newest = max((segment.max_timestamp_ms for segment in log.segments), default=-1)
    return range(max(newest - 40, 0), newest + 2, 9)


def facts(core: ClusterCore) -> dict[str, Any]:
    """Return the contents of a cluster before its start: by partition, and the rest."""
    found: dict[str, Any] = {
        "cluster": core.cluster_id,
        "features": dict(core.features),
        "groups": {name: dict(values) for name, values in core.state.group_configs.items()},
        "brokers": {broker.id: broker.rack for broker in core.brokers.values()},
        "producer ids": core.state.next_producer_id,
        "topics": {
            topic.name: (topic.id, dict(topic.config), [partition.replicas for partition in topic.partitions])
            for topic in core.topics.values()
        },
    }
    for topic in core.topics.values():
        for partition in topic.partitions:
            found[f"{topic.name}-{partition.index}"] = log_facts(partition.log)
    return found


def committed(core: ClusterCore) -> dict[str, object]:
    """Return the committed offset of each group, from its coordinator."""
    if CONSUMER_OFFSETS not in core.topics:
        return {}
    found: dict[str, object] = {}
    for group in GROUPS:
        request = OffsetFetchRequest(
            groups=(
                OffsetFetchRequestGroup(
                    group_id=group, topics=(OffsetFetchRequestTopics(name="plain", partition_indexes=(0,)),)
                ),
            )
        )
        led = core.groups.partition_for(group)
        assert led is not None
        response: Any = core.groups.request(led.leader, group, request, RequestContext(api_version=8, now_ms=0))
        (one,) = response.groups
        found[group] = (
            one.error_code,
            [partition.committed_offset for partition in one.topics[0].partitions] if one.topics else [],
        )
    return found


# ---- creating a directory


class Maker:
    """A cluster to which random operations are applied."""

    def __init__(self, data: Path, random: Random) -> None:
        self.data = data
        self.random = random
        self.core = core_of(data)
        begin(self.core)
        self.at_ms = 1_700_000_000_000
        self.sequences: dict[tuple[str, int, int], int] = {}
        small = {"segment.bytes": "900", "index.interval.bytes": "200"}
        for name, partitions, config in (
            ("plain", 2, small),
            ("compacted", 1, {**small, "cleanup.policy": "compact", "min.cleanable.dirty.ratio": "0.01"}),
            ("large", 1, {}),
            ("empty", 1, {}),
        ):
            self.core.create_topic(name, partitions=partitions, replicas=random.randint(1, 3), config=config)
        self.core.internal_topic(CONSUMER_OFFSETS)
        self.core.internal_topic(TRANSACTION_STATE)
        configs = {**self.core.topics[CONSUMER_OFFSETS].config, "segment.bytes": "700"}
        self.core.change_configs(ConfigResourceType.TOPIC, CONSUMER_OFFSETS, configs)

    def play(self, steps: int) -> None:
        """Apply random operations."""
        actions = (self.produce, self.produce, self.produce, self.produce, self.commit, self.transaction)
        rare = (self.delete_records, self.change, self.compact, self.leaders, self.restart, self.kill, self.topics)
        for _ in range(steps):
            action = self.random.choice(rare if self.random.random() < 0.15 else actions)
            try:
                action()
            except ApiError:  # such as an out-of-order sequence after an abort
                continue

    def log(self) -> tuple[str, int, PartitionLog, int]:
        """Return a random log of a topic that producers write to."""
        name = self.random.choice(["plain", "plain", "compacted", "large"])
        one = self.random.choice(self.core.topics[name].partitions)
        return name, one.index, one.log, one.leader_epoch

    def produce(self) -> None:
        """Append a batch of a plain, idempotent or transactional producer."""
        name, index, log, epoch = self.log()
        producer = self.random.choice([-1, -1, 7_001, 7_002, 7_003])
        count = self.random.randint(1, 4)
        self.at_ms += self.random.randint(0, 9)
        key = (name, index, producer)
        sequence = self.sequences.get(key, 0)
        records = [
            BatchRecord(
                offset=at,
                timestamp_ms=self.at_ms + at,
                key=b"k%d" % self.random.randrange(6),
                value=self.random.randbytes(self.random.randint(0, 60)),
            )
            for at in range(count)
        ]
        data = encode_batch(
            records,
            producer_id=producer,
            producer_epoch=0 if producer >= 0 else -1,
            base_sequence=sequence if producer >= 0 else -1,
            transactional=producer == 7_003,
        )
        log.append(data, leader_epoch=epoch, now_ms=self.at_ms)
        self.sequences[key] = sequence + count
        if producer == 7_003 and self.random.random() < 0.6:
            log.append_marker(7_003, 0, commit=self.random.random() < 0.5, now_ms=self.at_ms, leader_epoch=epoch)

    def commit(self) -> None:
        """Commit an offset of a group."""
        group = self.random.choice(GROUPS)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=self.random.randrange(1000))
        request = OffsetCommitRequest(
            group_id=group, topics=(OffsetCommitRequestTopic(name="plain", partitions=(partition,)),)
        )
        led = self.core.groups.partition_for(group)
        assert led is not None
        self.core.groups.request(
            led.leader, group, request, RequestContext(api_version=8, now_ms=self.core.clock.now_ms())
        )

    def transaction(self) -> None:
        """Initialize a producer of a transactional id."""
        self.core.transactions.init_producer_id(f"t{self.random.randrange(3)}", 60_000, -1, -1)

    def delete_records(self) -> None:
        """Delete the oldest records."""
        _, _, log, _ = self.log()
        log.delete_before(self.random.randint(log.start_offset, log.next_offset))

    def change(self) -> None:
        """Change the cluster's metadata."""
        timeout_ms = str(self.random.randint(46_000, 59_000))
        self.core.change_configs(
            ConfigResourceType.GROUP, self.random.choice(GROUPS), {"consumer.session.timeout.ms": timeout_ms}
        )

    def compact(self) -> None:
        """Compact and delete old segments, and write checkpoints."""
        self.core.maintenance.compact()
        clock = self.core.clock
        assert isinstance(clock, ManualClock)
        clock.advance(0)
        self.core.maintenance.checkpoint()

    def leaders(self) -> None:
        """Stop and start a broker, which changes leaders and epochs."""
        broker = self.core.brokers[self.random.randint(1, 3)]
        self.core.stop_broker(broker.id)
        self.core.register(broker)

    def restart(self) -> None:
        """Stop the cluster cleanly, and start it."""
        self.core.close()
        self._again()

    def kill(self) -> None:
        """Kill the cluster, and start it."""
        crash(self.core)
        self._again()

    def topics(self) -> None:
        """Create and delete a topic."""
        name = f"passing-{self.random.randrange(3)}"
        if name in self.core.topics:
            self.core.delete_topic(name)
        else:
            self.core.create_topic(name, partitions=1, replicas=self.random.randint(1, 3))

    def _again(self) -> None:
        self.core = core_of(self.data)
        begin(self.core)


# ---- damaging a directory


def kind_of(path: Path) -> str:
    """Return which of `KINDS` a file is."""
    name = path.name
    if name == ".lock":
        return "lock"
    if name == ".kafka_cleanshutdown":
        return "clean marker"
    if name == "meta.properties":
        return "meta.properties"
    if name in ("leader-epoch-checkpoint", "partition.metadata", CHECKSUMS):
        return name
    if name.endswith("-checkpoint"):
        return "checkpoint"
    if path.suffix == ".log":
        topic = path.parent.name
        if topic.startswith("__cluster_metadata"):
            return "metadata log"
        return "coordinator segment" if topic.startswith("__") else "segment"
    return path.suffix.removeprefix(".")


def damaged(root: Path, random: Random, kind: str) -> Outcome:
    """Damage one thing in a directory, of the given kind if it exists."""
    by_kind: dict[str, list[Path]] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file() and path.stat().st_size:
            by_kind.setdefault(kind_of(path), []).append(path)
        elif path.is_dir():
            by_kind.setdefault("folder", []).append(path)
    assert by_kind.keys() <= set(KINDS), by_kind.keys() - set(KINDS)
    if kind not in by_kind:
        kind = random.choice([one for one in KINDS if one in by_kind])
    path = random.choice(by_kind[kind])
    if kind == "folder":
        everywhere = [one for one in root.glob(f"broker-*/{path.name}") if path.parent.name != root.name] or [path]
        for one in everywhere if random.random() < 0.5 else [path]:
            shutil.rmtree(one)
        return Outcome(kind, "remove", path)
    how = random.choice(HOWS)
    if how == "cut at a batch" and path.suffix != ".log":
        how = "cut"
    content = path.read_bytes()
    new: bytes | None
    match how:
        case "bit":
            changed = bytearray(content)
            place = random.randrange(len(content))
            if path.suffix == ".log" and random.random() < 0.3:  # a header, most of which is not covered by a CRC
                batches = [batch for batch in read_batches(content) if isinstance(batch, Batch)]
                place = random.choice(batches).header.position + random.randrange(21)
            changed[place] ^= 1 << random.randrange(8)
            new = bytes(changed)
        case "cut":
            new = content[: random.randrange(len(content))]
        case "cut at a batch":
            ends = [batch.header.position for batch in read_batches(content) if isinstance(batch, Batch)]
            new = content[: random.choice(ends)]
        case "empty":
            new = b""
        case _:
            new = None
    twins = [path]
    if random.random() < 0.8:  # else replace the hard link of one replica by a file
        twins = [one for one in root.rglob(path.name) if one.is_file() and one.samefile(path)]
    for twin in twins:
        twin.unlink()
    if new is not None:
        path.write_bytes(new)
        for twin in twins:
            if twin != path:
                twin.hardlink_to(path)
    return Outcome(kind, how if len(twins) == 1 else f"{how} in {len(twins)} folders", path)


def tree(root: Path) -> dict[str, bytes]:
    """Return the contents of all files except the lock."""
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in sorted(root.rglob("*"))
        if path.is_file() and path.name != ".lock"
    }


# ---- playing cases


@dataclass
class Case:
    """A directory of a stopped cluster, and the cluster's contents."""

    data: Path
    end: str
    had: dict[str, Any]
    committed: dict[str, object]

    @classmethod
    def of(cls, root: Path, random: Random, end: str) -> "Case":
        """Create a directory whose cluster ends as one of `ENDS`."""
        data = root / "data"
        maker = Maker(data, random)
        maker.play(random.randint(30, 160))
        if random.random() < 0.5:
            maker.core.maintenance.checkpoint()
        if end == "stop":
            maker.core.close()
        else:
            crash(maker.core)
        whole = root / "whole"
        _copy(data, whole, links=True)
        core = core_of(whole)
        if core.start_notes:
            raise Finding(f"a sound directory: {core.start_notes}")
        had = facts(core)
        begin(core)
        found = committed(core)
        crash(core)
        shutil.rmtree(whole)
        if end == "power":
            (data / ".lock").write_text("the machine has started again since")
        return cls(data, end, had, found)

    def damage(self, root: Path, random: Random, kind: str) -> Outcome:
        """Damage one thing in a copy, and start. Raises `Finding`."""
        copy = root / "damaged"
        _copy(self.data, copy, links=random.random() < 0.7)
        outcome = damaged(copy, random, kind)
        before = tree(copy)
        try:
            self._start(copy, before, outcome)
        except Finding as finding:
            raise Finding(f"after a {self.end}, {outcome}: {finding}") from None
        except Exception as error:
            raise Finding(f"after a {self.end}, {outcome}: {error!r}") from error
        shutil.rmtree(copy)
        return outcome

    def _start(self, data: Path, before: dict[str, bytes], outcome: Outcome) -> None:
        try:
            core = core_of(data)
        except ClusterError as error:
            outcome.result, outcome.said = "refused", [str(error)]
            self._refused(data, before, outcome, str(error))
            return
        outcome.said = list(core.start_notes)
        has = facts(core)
        gone = [name for name in before if not (data / name).exists() and not _may_go(name)]
        if any("/__cluster_metadata-0/" in text and "are lost" in text for text in core.start_notes):
            strays = [content for name, content in tree(data).items() if Path(name).parent.name.endswith("-stray")]
            gone = [name for name in gone if before[name] not in strays]  # of topics that the lost records created
        if gone:
            raise Finding(f"{gone} were deleted or renamed; notes: {core.start_notes}")
        differing = [name for name in self.had.keys() | has.keys() if self.had.get(name) != has.get(name)]
        outcome.result = "cut" if differing else "restored"
        if not differing:
            begin(core)
            if committed(core) != self.committed:
                raise Finding(f"committed offsets {committed(core)}, not {self.committed}; notes: {core.start_notes}")
        elif self.end != "power":
            raise Finding(f"{differing} differ; notes: {core.start_notes}")
        else:
            self._tails(has, differing, core.start_notes)
        crash(core)

    def _tails(self, has: dict[str, Any], differing: list[str], notes: tuple[str, ...]) -> None:
        """Allow missing unflushed data at the end of a log after a power failure, if reported."""
        for name in differing:
            if not isinstance(has.get(name), dict) or "batches" not in has[name]:
                if any("__cluster_metadata-0" in text and "are lost" in text for text in notes):
                    return
                raise Finding(f"{name} differs; notes: {notes}")
            if any(f"/{name}: " in text and "are lost" in text for text in notes) and not has[name]["batches"]:
                continue
            batches = has[name]["batches"]
            if batches != self.had[name]["batches"][: len(batches)]:
                raise Finding(f"{name} differs, and not at its end; notes: {notes}")
            if not any(f"/{name}/" in text and ("are lost" in text or "were cut off" in text) for text in notes):
                raise Finding(f"{name} is shorter; notes: {notes}")

    def _refused(self, data: Path, before: dict[str, bytes], outcome: Outcome, said: str) -> None:
        after = tree(data)
        if after != before:
            changed = [name for name in before.keys() | after.keys() if before.get(name) != after.get(name)]
            raise Finding(f"refused ({said}), and changed {changed}")
        if str(data) not in said or "\n" in said:
            raise Finding(f"a refusal that names no file: {said}")
        if "correct its cluster.id" in said:
            return
        if "would be lost" not in said:
            raise Finding(f"a refusal that does not name what is lost: {said}")
        core = core_of(data, accept_data_loss=True)
        if not any("are lost" in text for text in core.start_notes):
            raise Finding(f"a loss was accepted, and not named: {core.start_notes}")
        self._others_stay(facts(core), said, outcome)
        after = tree(data)
        kept = [name.split("/", 1)[1] for name in after if name.startswith("damaged-")]
        for name, content in before.items():
            if name in after or _may_go(name) or name in kept:
                continue
            if content not in after.values():
                raise Finding(f"{name} was deleted; notes: {core.start_notes}")
        begin(core)
        committed(core)
        core.close()
        core = core_of(data)
        if any("lost" in text for text in core.start_notes):
            raise Finding(f"a loss is named again: {core.start_notes}")
        crash(core)

    def _others_stay(self, has: dict[str, Any], said: str, outcome: Outcome) -> None:
        """Check that data which the error did not name is intact once the loss is accepted."""
        if "__cluster_metadata-0" in said:  # without it, topics may be unknown
            return
        for name, value in self.had.items():
            if f"/{name}/" not in said and f"/{name}:" not in said:
                if has.get(name) != value:
                    raise Finding(f"{name} was lost, too, with {said}")
                continue
            lost = [
                (int(first.replace(",", "")), int((last or first).replace(",", "")))
                for first, last in _LOST.findall(said)
            ]
            for data in value["batches"] if lost and "the records from" not in said else ():
                facts = BatchFacts.of(data)
                named = any(first <= facts.last_offset and facts.base_offset <= last for first, last in lost)
                if not named and data not in has[name]["batches"]:
                    raise Finding(f"offset {facts.base_offset} of {name} was lost, too, with {said}")


def _may_go(name: str) -> bool:
    """Return whether a start may delete a file: clean shutdown marker, old producer snapshots."""
    return name.endswith((".kafka_cleanshutdown", ".snapshot", ".tmp", ".txnindex"))


def _copy(source: Path, target: Path, *, links: bool) -> None:
    subprocess.run(["cp", "-a" if links else "-r", source, target], check=True)


def play(seed: int, root: Path, each: int = 10) -> Iterator[Outcome | Finding]:
    """Damage one directory `each` times."""
    random = Random(seed)
    shutil.rmtree(root, ignore_errors=True)
    root.mkdir(parents=True)
    try:
        case = Case.of(root, random, ENDS[seed % len(ENDS)])
    except Finding as finding:
        yield finding
        return
    kinds = random.sample(KINDS, len(KINDS))
    for place in range(each):
        try:
            yield case.damage(root, random, kinds[place % len(kinds)])
        except Finding as finding:
            yield finding
            shutil.rmtree(root / "damaged", ignore_errors=True)
    shutil.rmtree(root)
