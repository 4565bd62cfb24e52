"""Random scripts of calls on a share-partition, and their results with quorate's `SharePartition`.

A script is generated while it runs: a step such as an acknowledgement refers to what is in flight
then. `SharePartitionScript` of the oracle runs the same script on Kafka's class; the results of all
steps must be equal.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from quorate.cluster.clock import ManualClock
from quorate.cluster.share.acknowledge import Acknowledgement, acknowledge, release_acquired
from quorate.cluster.share.acquire import acquire
from quorate.cluster.share.fetched import FetchedRecords
from quorate.cluster.share.in_flight import NO_MEMBER, InFlightState
from quorate.cluster.share.partition import SharePartition
from quorate.cluster.share.store import ShareConfigs, ShareOutcome, ShareRequestFailed, StoredState
from quorate.codecs.batches import BatchRecord, encode_batch, encode_marker
from quorate.codecs.messages.share_state import StateBatch
from quorate.coordinator.results import Pending

Json = dict[str, Any]
MEMBERS = ("m1", "m2", "m3")
STORE_ERRORS = (0, 0, 0, 15, 16, 14, 69, 3, 74, 111, 42, 35)
"""Mostly success; else COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, COORDINATOR_LOAD_IN_PROGRESS,
GROUP_ID_NOT_FOUND, UNKNOWN_TOPIC_OR_PARTITION, FENCED_LEADER_EPOCH and others.
"""

KAFKA_FAILS = (
    "inconsistent range",
    "Batch record not found. The request batch offsets are not found in the cache.",
    "Existing acquisition lock timeout exists, cannot override.",
)
"""Exceptions of Kafka's `acquire` that are faults of Kafka: records that it may fetch begin after
those that it may acquire; an aborted batch begins before the first record in flight; the start of
the log moved into a batch while its release was being stored.
"""

NULL_POINTER = "java.lang.NullPointerException"


@dataclass
class LoggedBatch:
    """A batch of the partition's log."""

    base: int
    last: int
    data: bytes


@dataclass
class FakeLog:
    """The log of a partition, with transactions, and gaps as compaction leaves them."""

    random: Random
    next_offset: int
    batches: list[LoggedBatch] = field(default_factory=list)
    open: dict[int, int] = field(default_factory=dict)  # producer id → first offset
    aborted: list[tuple[int, int, int]] = field(default_factory=list)  # producer id, first offset, offset of marker

    def append(self) -> None:
        """Append a batch or a marker."""
        random = self.random
        base = self.next_offset
        producer = random.choice((1, 2, 3))
        if producer in self.open and random.random() < 0.4:
            commit = random.random() < 0.4
            data = encode_marker(commit=commit, offset=base, timestamp_ms=1, producer_id=producer, producer_epoch=0)
            first = self.open.pop(producer)
            if not commit:
                self.aborted.append((producer, first, base))
            self._add(base, base, data)
            return
        transactional = random.random() < 0.4
        last = base + random.choice((0, 1, 2, 4, 7, 11))
        data = encode_batch(
            [BatchRecord(offset=offset, timestamp_ms=1, key=None, value=b"v") for offset in range(base, last + 1)],
            producer_id=producer if transactional else -1,
            producer_epoch=0 if transactional else -1,
            base_sequence=0 if transactional else -1,
            transactional=transactional,
        )
        if transactional:
            self.open.setdefault(producer, base)
        self._add(base, last, data)

    def _add(self, base: int, last: int, data: bytes) -> None:
        self.next_offset = last + 1
        if self.random.random() > 0.05:  # otherwise compaction has removed it
            self.batches.append(LoggedBatch(base, last, data))

    def fetch(self, offset: int, most: int) -> list[LoggedBatch]:
        """Return up to `most` batches from the one with an offset."""
        return [one for one in self.batches if one.last >= offset][:most]

    def aborted_among(self, batches: Sequence[LoggedBatch]) -> list[tuple[int, int]]:
        """Return producer id and first offset of aborted transactions with records in a range."""
        if not batches:
            return []
        begin, end = batches[0].base, batches[-1].last
        return [(producer, first) for producer, first, marker in self.aborted if first <= end and marker >= begin]


@dataclass
class FakeStore:
    """Records what is stored. Writes with `holds` stay pending until `complete`."""

    stored: StoredState
    holds: bool = False
    held: list[Pending[ShareOutcome]] = field(default_factory=list)
    writes: list[list[Any]] = field(default_factory=list)

    def read(self, leader_epoch: int) -> Pending[StoredState]:
        found: Pending[StoredState] = Pending()
        found.complete(self.stored)
        return found

    def write(
        self,
        *,
        leader_epoch: int,
        state_epoch: int,
        start_offset: int,
        delivery_complete_count: int,
        batches: Sequence[StateBatch],
    ) -> Pending[ShareOutcome]:
        self.writes.append(
            [
                leader_epoch,
                state_epoch,
                start_offset,
                delivery_complete_count,
                [[one.first_offset, one.last_offset, one.delivery_state, one.delivery_count] for one in batches],
            ]
        )
        written: Pending[ShareOutcome] = Pending()
        if self.holds:
            self.held.append(written)
        else:
            written.complete(ShareOutcome())
        return written


@dataclass
class FakeLetters:
    """Records the dead letters. `is_enabled`: whether the group has a queue of them."""

    is_enabled: bool
    written: list[list[Any]] = field(default_factory=list)

    def enabled(self) -> bool:
        return self.is_enabled

    def write(self, first: int, last: int, delivery_count: int, cause: str) -> None:
        self.written.append([first, last, delivery_count, cause])


def outcome_of(error: int) -> ShareOutcome:
    return ShareOutcome(error, "failed") if error else ShareOutcome()


class Script:
    """The script of a seed, and the results of its steps."""

    def __init__(self, seed: int, *, steps: int = 40) -> None:
        self.random = random = Random(seed)
        self.steps: list[Json] = []
        self.results: list[Json] = []
        self.clock = ManualClock()
        self.configs = self._configs()
        self.letters = FakeLetters(random.random() < 0.5)
        self.head = {"reset": random.choice((0, 0, 5)), **self._configured(), "stored": self._stored()}
        stored = self.head["stored"]
        self.log = FakeLog(random, random.choice((0, 3)))
        self.holding = random.random() < 0.4
        self.committed = random.random() < 0.5
        self.mode = random.choice((0, 0, 1))
        self.notified = 0
        self.completed: list[list[Any]] = []
        self.calls = 0
        self.store = FakeStore(
            StoredState(
                outcome=outcome_of(stored["error"]),
                state_epoch=3,
                start_offset=stored["start"],
                batches=tuple(
                    StateBatch(first_offset=first, last_offset=last, delivery_state=state, delivery_count=count)
                    for first, last, state, count in stored["batches"]
                ),
            )
        )
        self.partition = SharePartition(
            "g-AAAAAAAAAAEAAAAAAAAAAg:topic-0",
            7,
            self.clock,
            self.store,
            lambda: self.configs,
            lambda: self.head["reset"],
            self._notify,
            self.letters,
        )
        for _ in range(random.randrange(3, 12)):
            self.log.append()
        self._run({"do": "initialize"})
        for _ in range(steps):
            self._run(self._next())

    @property
    def request(self) -> Json:
        """The script as the oracle runs it."""
        return {**self.head, "steps": self.steps}

    # ---- generating

    def _configs(self) -> ShareConfigs:
        random = self.random
        return ShareConfigs(
            delivery_count_limit=random.choice((2, 3, 5, 5, 6, 10)),
            record_lock_duration_ms=random.choice((1_000, 30_000)),
            partition_max_record_locks=random.choice((8, 20, 200, 2_000)),
            renew_acknowledge_enable=random.random() < 0.9,
        )

    def _configured(self) -> Json:
        configs = self.configs
        return {
            "limit": configs.delivery_count_limit,
            "locks": configs.partition_max_record_locks,
            "lockMs": configs.record_lock_duration_ms,
            "renews": configs.renew_acknowledge_enable,
            "buries": self.letters.is_enabled,  # errors.deadletterqueue.topic.name is set
        }

    def _stored(self) -> Json:
        random = self.random
        error = random.choice(STORE_ERRORS) if random.random() < 0.05 else 0
        if random.random() < 0.5:
            return {"start": random.choice((-1, 0, 2)), "error": error, "batches": []}
        start = offset = random.choice((0, 2))
        batches = []
        for _ in range(random.randrange(1, 6)):
            offset += random.choice((0, 0, 0, 1, 5))
            last = offset + random.choice((0, 1, 3, 8))
            batches.append([offset, last, random.choice((0, 0, 2, 3, 4)), random.randrange(1, 4)])
            offset = last + 1
        if random.random() < 0.02:
            batches[0][0] = start - 1
        return {"start": start, "error": error, "batches": batches}

    def _next(self) -> Json:
        random = self.random
        step = random.choices(
            (
                self._acquire,
                self._acknowledge,
                self._release,
                self._advance,
                self._log_start,
                self._written,
                self._configure,
                self._produce,
                self._fence,
            ),
            (40, 35, 4, 8, 3, 14 if self.store.held else 0, 2, 8, 0.1),
        )[0]()
        if self.holding and random.random() < 0.5:
            step["hold"] = True
        return step

    def _produce(self) -> Json:
        for _ in range(self.random.randrange(1, 5)):
            self.log.append()
        return self._acquire()

    def _acquire(self) -> Json:
        random = self.random
        offset = self.partition.next_fetch_offset
        found = self.log.fetch(offset, random.choice((1, 2, 3, 6, 20)))
        return {
            "do": "acquire",
            "member": random.choice(MEMBERS),
            "mode": self.mode if random.random() < 0.9 else 1 - self.mode,
            "batchSize": random.choice((1, 4, 10, 500)),
            "maxRecords": random.choice((1, 2, 5, 10, 500)),
            "fetchOffset": offset,
            "records": b"".join(one.data for one in found).hex(),
            "aborted": self.log.aborted_among(found) if self.committed else [],
            "committed": self.committed,
        }

    def _acknowledge(self) -> Json:
        random = self.random
        batches = list(self.partition.in_flight)
        member = random.choice(MEMBERS)
        start = self.partition.start_offset
        if (not batches or batches[0].first > start) and random.random() < 0.5:
            # From before the start offset: Kafka throws a NullPointerException, and transitions of
            # acknowledgements before it never end.
            owned = [one for one in batches if one.whole is not None and one.whole.member_id != NO_MEMBER]
            before = [[one.first, one.last, [1]] for one in owned[:1]]
            if owned:
                member = owned[0].whole.member_id
            last = start + random.choice((0, 0, 1, 5))
            return {"do": "acknowledge", "member": member, "batches": [*before, [max(start - 2, 0), last, [1]]]}
        if not batches:
            return self._acquire()
        some = []
        owned = [one for one in batches if any(state.member_id == member for _, _, state in one.states())]
        pool = owned if owned and random.random() < 0.95 else batches
        for batch in sorted(
            random.sample(pool, min(len(pool), random.choice((1, 1, 1, 2, 3)))), key=lambda one: one.first
        ):
            first, last = self._part(batch, member)
            if random.random() < 0.03:
                last += random.randrange(1, 6)
            kinds = (0, 1, 1, 1, 1, 2, 2, 2, 3, 4)
            if random.random() < 0.4:
                types = [random.choice(kinds) for _ in range(first, last + 1)]
            else:
                types = [random.choice(kinds)]
            if random.random() < 0.01:
                types[0] = 9
            some.append([first, last, types])
        return {"do": "acknowledge", "member": member, "batches": some}

    def _part(self, batch: Any, member: str) -> tuple[int, int]:
        random = self.random
        if batch.whole is not None:
            if random.random() < 0.7:
                return batch.first, batch.last
            first = random.randint(batch.first, batch.last)
            return first, random.randint(first, batch.last)
        owned = [offset for offset, state in batch.offsets.items() if state.member_id == member]
        if not owned or random.random() < 0.1:
            return batch.first, batch.last
        first = last = random.choice(owned)
        while last + 1 in owned and random.random() < 0.8:
            last += 1
        return first, last

    def _release(self) -> Json:
        return {"do": "release", "member": self.random.choice(MEMBERS)}

    def _advance(self) -> Json:
        return {"do": "advance", "ms": self.random.choice((10, 500, 1_000, 15_000, 30_000))}

    def _log_start(self) -> Json:
        start = self.partition.start_offset
        offset = start + self.random.choice((-1, 0, 1, 2, 5, 20))
        self.log.batches = [one for one in self.log.batches if one.last >= offset]
        if self.random.random() < 0.3 and self.log.batches:  # compaction
            self.log.batches.pop(self.random.randrange(len(self.log.batches)))
        return {"do": "logStart", "offset": offset}

    def _written(self) -> Json:
        return {"do": "written", "error": self.random.choice(STORE_ERRORS)}

    def _configure(self) -> Json:
        self.configs = self._configs()
        self.letters.is_enabled = self.random.random() < 0.5
        return {"do": "configure", **self._configured()}

    def _fence(self) -> Json:
        return {"do": "fence"}

    # ---- running

    def _notify(self) -> None:
        self.notified += 1

    def _watch(self, pending: Pending[ShareOutcome]) -> None:
        call = self.calls
        self.calls += 1
        pending.on_complete(lambda outcome: self.completed.append([call, int(outcome.code), outcome.message]))

    def _run(self, step: Json) -> None:
        self.steps.append(step)
        result: Json = {}
        self.store.holds = step.get("hold", False)
        self.store.writes, self.completed, self.letters.written, self.notified = [], [], [], 0
        partition = self.partition
        match step["do"]:
            case "initialize":
                self._watch(partition.initialize())
            case "acquire":
                fetched = FetchedRecords.of(bytes.fromhex(step["records"]), step["aborted"])
                acquired, count = acquire(
                    partition,
                    step["member"],
                    fetched,
                    mode=step["mode"],
                    batch_size=step["batchSize"],
                    max_records=step["maxRecords"],
                    fetch_offset=step["fetchOffset"],
                )
                result["acquired"] = [list(one) for one in acquired]
                result["count"] = count
                if acquired:
                    result["bytes"] = len(fetched.slice(acquired[0].first, acquired[-1].last))
            case "acknowledge":
                some = [Acknowledgement(first, last, types) for first, last, types in step["batches"]]
                try:
                    self._watch(acknowledge(partition, step["member"], some))
                except ShareRequestFailed:
                    result["thrown"] = NULL_POINTER
            case "release":
                self._watch(release_acquired(partition, step["member"]))
            case "logStart":
                partition.log_start_moved(step["offset"])
            case "advance":
                self.clock.advance(step["ms"])
            case "written":
                if self.store.held:
                    self.store.held.pop(0).complete(outcome_of(step["error"]))
            case "fence":
                partition.fence()
        result |= {"writes": self.store.writes, "completed": self.completed}
        result |= {"letters": self.letters.written, "notified": self.notified}
        result |= self._described()
        self.results.append(result)

    def _described(self) -> Json:
        partition = self.partition
        return {
            "start": partition.start_offset,
            "end": partition.end_offset,
            "complete": partition.delivery_complete_count,
            "canAcquire": partition.can_acquire(),
            "next": partition.next_fetch_offset,
            "status": partition.status.name,
            "inFlight": [
                [batch.first, batch.last, *_described(batch.whole)]
                if batch.whole is not None
                else [batch.first, batch.last, [_described(state) for state in batch.offsets.values()]]
                for batch in partition.in_flight
            ],
        }


def _described(state: InFlightState) -> list[Any]:
    return [int(state.state), state.delivery_count, state.member_id, state.in_transition, state.lock is not None]


def _start_is_lost(result: Json) -> bool:
    """Return whether Kafka's `canMoveStartOffset` fails with a NullPointerException.

    The start of the log moved after the last offset of the batch before it, whose offsets have
    states of their own. The exception is lost in a future, and so are dead letters after it.
    """
    before = [one for one in result["inFlight"] if one[0] <= result["start"]]
    return bool(before) and before[-1][1] < result["start"] and isinstance(before[-1][2], list)


def run_script(seed: int, oracle: Any, *, steps: int = 40) -> tuple[Script, str | None]:
    """Run a script on both sides; return it and a description of the first difference."""
    script = Script(seed, steps=steps)
    theirs = oracle.call("sharePartition", **script.request)["results"]
    for index, (our, their) in enumerate(zip(script.results, theirs, strict=True)):
        if any(text in their.get("thrown", "") for text in KAFKA_FAILS):
            return script, None  # the states differ from here on
        if our.get("thrown") == NULL_POINTER and NULL_POINTER in their.get("thrown", ""):
            their["thrown"] = NULL_POINTER
        if our != their:
            if our["letters"] and any(map(_start_is_lost, script.results[max(index - 1, 0) : index + 1])):
                return script, None
            names = [name for name in {**our, **their} if our.get(name) != their.get(name)]
            lines = [f"seed {seed}, step {index}: {script.steps[index]}"]
            if index:
                lines.append(f"  before: {script.results[index - 1]}")
            lines += [f"  {name}:\n    ours  {our.get(name)}\n    Kafka {their.get(name)}" for name in names]
            return script, "\n".join(lines)
    return script, None
