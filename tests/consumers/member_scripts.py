"""Random histories of one consumer's membership, from a seed.

    MemberHistory(Random(7), MemberDuel(oracle)).run(60)

Most of the time the client, the application and the coordinator behave: the application executes
callbacks in order, the client runs often, and the coordinator responds to the latest heartbeat with
the epoch that follows. Sometimes they do not. What happens next depends on Kafka's member only.
"""

from collections.abc import Callable
from random import Random
from typing import Any, Protocol

from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode

Json = dict[str, Any]

TOPICS = {f"t{number}": str(Uuid(bytes([0, number + 1] * 8))) for number in range(4)}
REGEXES = ["t.*", "t[01]", "none"]
PARTITIONS = 4

USUAL_ERRORS = [
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.FENCED_MEMBER_EPOCH,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.UNKNOWN_MEMBER_ID,
    ErrorCode.TOPIC_AUTHORIZATION_FAILED,
]
FATAL_ERRORS = [
    ErrorCode.GROUP_AUTHORIZATION_FAILED,
    ErrorCode.INVALID_REQUEST,
    ErrorCode.GROUP_MAX_SIZE_REACHED,
    ErrorCode.UNSUPPORTED_ASSIGNOR,
    ErrorCode.UNSUPPORTED_VERSION,
    ErrorCode.UNRELEASED_INSTANCE_ID,
    ErrorCode.FENCED_INSTANCE_ID,
    ErrorCode.INVALID_REGULAR_EXPRESSION,
    ErrorCode.GROUP_ID_NOT_FOUND,
    ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.REQUEST_TIMED_OUT,
]


class OpRunner(Protocol):
    """Runs ops on both members, or on one of them."""

    def op(self, op: str, **fields: Any) -> Json:
        """Run an op of the oracle's protocol, and return Kafka's response."""

    def is_late(self, request: int) -> bool:
        """Return whether the member has joined again since a request was sent."""


class MemberHistory:
    """A history. `odd`: the probability of what a correct client or coordinator does not do."""

    def __init__(self, rng: Random, runner: OpRunner, *, odd: float = 0.05) -> None:
        self.rng = rng
        self.runner = runner
        self.odd = odd if rng.random() < 0.7 else 0.0
        self.open: list[int] = []  # heartbeats without a response
        self.sent: list[Json] = []
        self.callbacks: dict[int, str] = {}  # not complete, in order
        self.applied: set[int] = set()
        self.subscribed: str | None = None  # "topics" or "regex"; another kind needs a leave first
        self.closed = False
        self.epoch = 0
        self.wait_ms = 0
        self.fatal = rng.random() < 0.3
        # In some histories the listener is slow, or the application leaves often.
        self.pace = {name: rng.choice([0.2, 1, 1, 1, 3]) for name in ("respond", "call_back", "leave", "advance")}
        self.max_poll_interval_ms = rng.choice([300_000, 300_000, 60_000, 10_000])
        self.retry_backoff_ms = rng.choice([100, 100, 1, 250, 1000])
        self.interval_ms = rng.choice([5000, 3000, 100])
        self.kafka = runner.op(
            "member",
            do="new",
            autoCommit=rng.random() < 0.5,
            instanceId=rng.choice([None, None, "i"]),
            rackId=rng.choice([None, "a"]),
            serverAssignor=rng.choice([None, None, "range"]),
            maxPollIntervalMs=self.max_poll_interval_ms,
            retryBackoffMs=self.retry_backoff_ms,
            retryBackoffMaxMs=rng.choice([1000, 1000, 5000, self.retry_backoff_ms]),
            startMs=rng.choice([1_700_000_000_000, 0, 12_345]),
        )
        self.kafka = {"state": "UNSUBSCRIBED", "target": {"partitions": {}}, "epoch": 0}

    def run(self, steps: int) -> None:
        """Play this number of steps; the first ones join the group."""
        first: list[Callable[[], None]] = [self.find_coordinator, self.subscribe, self.poll, self.run_once]
        if self.rng.random() < 0.9:
            first.insert(0, self.all_names)
        for step in first if self.rng.random() < 0.9 else ():
            step()
        for _ in range(steps):
            choices, weights = zip(*self.weights(), strict=True)
            paced = [weight * self.pace.get(step.__name__, 1) for step, weight in zip(choices, weights, strict=True)]
            self.rng.choices(choices, paced)[0]()

    def weights(self) -> list[tuple[Callable[[], None], float]]:
        """Return the possible next steps."""
        open_, callbacks, live = bool(self.open), bool(self.callbacks), not self.closed
        state = self.kafka["state"]
        # A listener often runs for longer than a heartbeat takes when the member leaves the group.
        slow = state in ("PREPARE_LEAVING", "STALE", "FENCED")
        return [
            (self.run_once, 12),
            (self.heartbeat, 2),
            (self.reconcile, 1),
            (self.wait, 1),
            (self.advance, 8),
            (self.poll, 10 * (live and self.subscribed is not None)),  # otherwise Kafka's poll raises
            (self.respond, 14 * open_),
            (self.fail, 1.2 * open_),
            (self.call_back, (4 if slow else 14) * callbacks),
            (self.subscribe, (6 if state == "UNSUBSCRIBED" else 1.5) * live),
            (self.change_names, 2),
            (self.leave, (1 if state != "FATAL" else 2) * live),
            (self.close, 0.25 * live),
            (self.heartbeat_on_close, 4 if self.closed else 0),
            (self.find_coordinator, 1 if self.kafka.get("coordinatorKnown", False) else 8),
            (self.lose_coordinator, 0.4),
        ]

    def step(self, do: str, **fields: Any) -> Json:
        """Run a step on both sides, and notice what it led to."""
        kafka = self.kafka = self.runner.op("member", do=do, **fields)
        for request in kafka["requests"]:
            self.open.append(len(self.sent))
            self.sent.append(request)
        for what, *entry in kafka["log"]:
            if what in ("commit", "revoked", "lost", "assigned"):
                self.callbacks[entry[0]] = what
            if what == "unsubscribe":
                self.subscribed = None
        self.wait_ms = kafka.get("waitMs", self.wait_ms)
        return kafka

    # The client.

    def run_once(self) -> None:
        self.step("run")

    def heartbeat(self) -> None:
        self.step("heartbeat")

    def reconcile(self) -> None:
        self.step("reconcile")

    def wait(self) -> None:
        self.step("wait")

    def find_coordinator(self) -> None:
        self.step("findCoordinator")

    def lose_coordinator(self) -> None:
        self.step("loseCoordinator")

    def heartbeat_on_close(self) -> None:
        self.step("heartbeatOnClose")

    def advance(self) -> None:
        usual = self.wait_ms if self.wait_ms < 1 << 40 else self.interval_ms
        times = {usual: 12.0, usual + 1: 1, usual - 1: 2, 1: 1, 50: 2}
        for ms, weight in ((self.retry_backoff_ms, 3), (self.interval_ms, 3), (self.max_poll_interval_ms, 1.5)):
            times[ms] = times.get(ms, 0) + weight
        ms = self.rng.choices(list(times), list(times.values()))[0]
        self.step("advance", ms=max(0, ms))

    def all_names(self) -> None:
        self.step("names", names={topic_id: name for name, topic_id in TOPICS.items()})

    def change_names(self) -> None:
        if self.rng.random() < 0.4:
            self.all_names()
        else:
            known = self.rng.sample(sorted(TOPICS), self.rng.randint(0, len(TOPICS)))
            self.step("names", names={TOPICS[name]: name for name in known})

    # The application.

    def poll(self) -> None:
        self.step("poll")

    def subscribe(self) -> None:
        listener = self.rng.random() < 0.8
        kind = self.subscribed or self.rng.choice(["topics", "topics", "regex"])
        self.subscribed = kind
        if kind == "regex":
            self.step("subscribe", regex=self.rng.choice(REGEXES), listener=listener)
        else:
            topics = self.rng.sample(sorted(TOPICS), self.rng.randint(1, 3))
            self.step("subscribe", topics=topics, listener=listener)

    def leave(self) -> None:
        self.step("leave")

    def close(self) -> None:
        self.closed = True
        self.step("close", operation=self.rng.choice(["DEFAULT", "DEFAULT", "LEAVE_GROUP", "REMAIN_IN_GROUP"]))

    def call_back(self) -> None:
        """Execute a callback, by default the oldest.

        An assignment is adopted first, then its listener ends.
        """
        waiting = list(self.callbacks)
        callback = self.rng.choice(waiting) if self.rng.random() < self.odd else waiting[0]
        if self.callbacks[callback] == "assigned" and callback not in self.applied and self.rng.random() >= self.odd:
            self.applied.add(callback)
            self.step("apply", callback=callback)
            return
        del self.callbacks[callback]
        self.step("complete", callback=callback, error=self.rng.random() < 0.07)

    # The coordinator.

    def respond(self) -> None:
        rng = self.rng
        request = (
            rng.choice(self.open) if rng.random() < (0.6 if self.kafka["state"] == "STALE" else 0.2) else self.open[-1]
        )
        self.open.remove(request)
        left = self.sent[request]["memberEpoch"] < 0
        chance = rng.random()
        if chance < 0.1 or (left and chance < 0.2):
            error = rng.choice([ErrorCode.GROUP_ID_NOT_FOUND, *USUAL_ERRORS] if left else USUAL_ERRORS)
            self._respond(request, errorCode=int(error), errorMessage=rng.choice([None, "why"]))
        elif self.fatal and chance < 0.16:
            self._respond(request, errorCode=int(rng.choice(FATAL_ERRORS)), errorMessage="why")
        elif left and rng.random() >= self.odd:
            self._respond(request, memberEpoch=self.sent[request]["memberEpoch"])
        else:
            self._assign(request)

    def _assign(self, request: int) -> None:
        rng = self.rng
        joins = self.sent[request]["memberEpoch"] == 0
        if rng.random() < (0.9 if joins else 0.3):
            self.epoch += 1
        epoch = self.epoch if rng.random() >= self.odd else rng.choice([-1, 0, 1, self.epoch + 7])
        assignment = None
        chance = rng.random()
        if chance < 0.1:
            assignment = self.kafka["target"]["partitions"]
        elif chance < (0.95 if joins else 0.5):
            topics = rng.sample(sorted(TOPICS.values()), rng.choice([0, 1, 1, 2, 2, 3]))
            assignment = {topic_id: rng.sample(range(PARTITIONS), rng.randint(1, PARTITIONS)) for topic_id in topics}
        interval_ms = self.interval_ms if rng.random() < 0.95 else rng.choice([self.interval_ms, 1000, 0])
        body: Json = {"memberEpoch": epoch, "heartbeatIntervalMs": interval_ms}
        if assignment is not None:
            partitions = [{"topicId": topic_id, "partitions": numbers} for topic_id, numbers in assignment.items()]
            body["assignment"] = {"topicPartitions": partitions}
        self.interval_ms = interval_ms or self.interval_ms
        self._respond(request, **body)

    def _respond(self, request: int, **body: Any) -> None:
        self.step("respond", request=request, body=body)

    def fail(self) -> None:
        kinds = ["disconnected", "disconnected", "timedOut", *(["unsupported", "authentication"] if self.fatal else [])]
        request = self.open.pop()
        self.step("fail", request=request, failure=self.rng.choice(kinds))
