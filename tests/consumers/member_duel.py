"""Runs scripts on two consumers' memberships, Kafka's own (the oracle) and ours, and compares them.

    with Oracle() as oracle:
        duel = MemberDuel(oracle)
        duel.op("member", do="new", autoCommit=True)
        duel.op("member", do="subscribe", topics=["t0"], listener=True)
        kafka = duel.op("member", do="poll")  # Kafka's response, compared

A difference raises `Differs`, with a script that reproduces it. Compared after each step are the
requests with all their fields, the actions in order, the state, the epoch, the current and the
target assignment, the owned partitions, and times to wait. Not compared are the texts of errors.

Declared differences, in which Kafka's consumer has the defect:

- *A late response*, to a heartbeat from before the member joined again, has no effect on ours
  (Kafka's takes it for the response to its latest heartbeat: an old epoch, assignment or error).
  If they differ after one, ours must not have changed, and the script ends (`LateResponse`). A late
  failure can show later: Kafka's waits longer after the next one.
- *A response in a state without a transition* for it, such as a fatal error when the member is
  STALE, has no effect on ours. Kafka's raises an IllegalStateException without a trace, after it
  has raised the error in the application.
- *An assignment that the member lost* before the application adopted it is not adopted by ours.
  Kafka's adopts it, and consumes partitions of others. The oracle leaves this out, too, and both
  report the case as `applied: false`.
- *A closing member that remains in its group* (KIP-1092) sends no heartbeat in ours. Kafka's sends
  one with epoch -1, and leaves. The script ends (`RemainsInGroup`).
- *The callback of a leave that the coordinator ended* by fencing the member has no effect on ours
  after it has joined again. Kafka's drops its new subscription. The script ends (`EndedLeave`).
- *A second fatal error*, of the heartbeat before, has no effect on ours. Kafka's raises it again,
  and can ask for the same partitions to be lost twice. The script ends (`FatalTwice`).
- *A member that is STALE and polls twice* before its callback ends joins once in ours, and twice in
  Kafka, to the same effect.
- *An assignment without a subscription*, after the application unsubscribed while the member was
  STALE, cannot be adopted in Kafka. The script ends (`Unsubscribed`).
- *A leave during a leave that a response with epoch -1 has completed*, before its callback ended
  or its heartbeat was sent, has no effect on ours. Kafka's raises a NoSuchElementException. The
  script ends (`LeftTwice`).
"""

import json
from typing import Any

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)
from quorate.codecs.json_form import from_json, to_kafka_json
from quorate.consumers import (
    ConsumerMembership,
    Heartbeat,
    Identity,
    InvalidTransition,
    LeaveOperation,
    TopicSubscription,
)
from quorate.consumers import actions as a
from quorate.consumers.reconciliation import LocalAssignment
from tests.coordinator.scripts import Differs, KnownFailure
from tests.differential.compare import Difference, compare
from tests.oracle.client import Oracle, OracleError

Json = dict[str, Any]

VERSION = ConsumerGroupHeartbeatRequest.spec.versions[-1]
FOREVER = (1 << 63) - 1


class LateResponse(KnownFailure):
    """A late response changed Kafka's member. What follows cannot be compared."""


class RemainsInGroup(KnownFailure):
    """A consumer that closes, and remains in its group, leaves it in Kafka."""


class EndedLeave(KnownFailure):
    """The end of a callback leads Kafka's member out of the group that it has joined again."""


class FatalTwice(KnownFailure):
    """Kafka's member fails again, and can call the listener again."""


class Unsubscribed(KnownFailure):
    """Kafka's consumer cannot adopt an assignment, as it has no subscription."""


class LeftTwice(KnownFailure):
    """Kafka's member raises an exception, as the leave in progress was completed before."""


class MemberDuel:
    """Runs a script line by line on both sides.

    `lines`: the ops so far; `kafka`: the latest response.
    """

    def __init__(self, oracle: Oracle, *, note: str = "") -> None:
        self.oracle = oracle
        self.note = note
        self.lines: list[Json] = []
        self.kafka: Json = {}
        self.joined = 0
        self.sent_when: list[int] = []  # of heartbeats, and
        self.called_when: list[int] = []  # of callbacks: how often the member had joined
        self.late_failure = False  # since the last success
        self.ours: OurMember | None = None

    @property
    def script(self) -> list[Json]:
        """The lines that reproduce the run."""
        return self.lines

    def is_late(self, request: int) -> bool:
        """Return whether the member has joined again since the request was sent."""
        return self.sent_when[request] != self.joined

    def op(self, op: str, **fields: Any) -> Json:
        """Run a step on both sides and return Kafka's response. Raises `Differs`."""
        operation = {"op": op, "id": len(self.lines) + 1, **fields}
        self.lines.append(operation)
        if self.ours is None and fields["do"] != "new":
            raise OracleError("the first step must be: new")
        kafka = self.oracle.call_many([operation])[0]
        if fields["do"] == "subscribe" and "thrown" in kafka:
            raise OracleError("a subscription of another kind needs a leave first")
        if fields["do"] == "new":
            self.ours = OurMember(fields, kafka["memberId"])
            self.joined, self.sent_when, self.called_when, self.late_failure = 0, [], [], False
            return kafka
        assert self.ours is not None
        before = self.kafka
        late = fields["do"] in ("respond", "fail") and self.is_late(fields["request"])
        old_callback = fields["do"] == "complete" and self.called_when[fields["callback"]] != self.joined
        self.joined += sum(entry == ["state", "JOINING"] for entry in kafka["log"])
        self.sent_when += [self.joined] * len(kafka["requests"])
        called = [entry for entry in kafka["log"] if entry[0] in ("commit", "revoked", "lost", "assigned")]
        self.called_when += [self.joined] * len(called)
        self.kafka = kafka
        ours = {"id": operation["id"], "op": op, **self.ours.step(fields)}
        differences = compare(len(self.lines), ours, _comparable(kafka, fields["do"]))
        if late and (differences or fields["request"] != len(self.sent_when) - 1):
            # Of an earlier heartbeat than the latest, Kafka's also ends the wait for a response.
            expected = {**before, "id": ours["id"], "op": op, "requests": [], "log": ours["log"]}
            expected = {name: expected[name] for name in ours}
            changed = compare(len(self.lines), ours, expected)
            if not changed and ours["log"] in ([], [["left"]]):
                raise self._raised(LateResponse, operation, differences)
            raise self._raised(Differs, operation, changed or differences)
        if fields["do"] == "fail" and late:
            self.late_failure = True
        elif fields["do"] == "respond" and not late and not fields["body"].get("errorCode"):
            self.late_failure = False
        if differences:
            kind = self._kind(fields, before, ours, kafka, old_callback=old_callback)
            if (
                self.late_failure
                and [one.path for one in differences] == ["waitMs"]
                and kafka["waitMs"] > ours["waitMs"]
            ):
                kind = LateResponse
            raise self._raised(kind, operation, differences)
        return kafka

    def _kind(self, fields: Json, before: Json, ours: Json, kafka: Json, *, old_callback: bool) -> type[Differs]:
        """Return the declared difference of a step, or `Differs`."""
        assert self.ours is not None
        if fields["do"] == "complete" and old_callback and not ours["log"]:
            return EndedLeave
        if before["state"] == kafka["state"] == "FATAL" and kafka["log"][0][0] == "error" and not ours["log"]:
            return FatalTwice
        if fields["do"] == "apply" and kafka.get("thrown") and not self.ours.subscribed:
            return Unsubscribed
        leaving = before["state"] in ("PREPARE_LEAVING", "LEAVING")
        if kafka.get("thrown") == "NoSuchElementException" and leaving and not ours["log"]:
            return LeftTwice
        left = any(request["memberEpoch"] < 0 for request in kafka["requests"])
        left = left or bool(kafka.get("thrown")) or kafka["state"] == "LEAVING"  # with the next heartbeat
        stays = ours["state"] in ("UNSUBSCRIBED", "PREPARE_LEAVING")
        stays = stays and not any(request["memberEpoch"] < 0 for request in ours["requests"])
        if self.ours.remains and left and stays:
            return RemainsInGroup
        return Differs

    def _raised(self, kind: type[Differs], operation: Json, differences: list[Difference]) -> Differs:
        script = "\n".join(json.dumps(line) for line in self.lines)
        where = "\n".join(
            f"  {one.path}\n    ours  {json.dumps(one.ours)[:1500]}\n    kafka {json.dumps(one.kafka)[:1500]}"
            for one in differences[:8]
        )
        return kind(f"{self.note}\nline {len(self.lines)}: {json.dumps(operation)[:600]}\n{where}\n\n{script}")


def _comparable(kafka: Json, step: str) -> Json:
    """Return a response without the texts of errors, and without what no one notices."""
    log = [entry[:2] if entry[0] == "error" else entry for entry in kafka["log"]]
    if any(entry[0] == "invalidTransition" for entry in log) and "thrown" not in kafka:
        log = [entry for entry in log if entry[0] not in ("error", "invalidTransition")]
    again = ["state", "JOINING"]
    log = [entry for at, entry in enumerate(log) if log[max(0, at - 1) : at + 1] != [again, again]]
    if step == "fail":  # a client's errors have other names
        log = [entry[:1] if entry[0] == "error" else entry for entry in log]
    if step == "loseCoordinator":
        log = [entry for entry in log if entry[0] != "coordinatorUnknown"]
    return {**kafka, "log": log}


class OurMember:
    """A `ConsumerMembership` with the oracle's steps."""

    def __init__(self, fields: Json, member_id: str) -> None:
        self.now_ms: int = fields.get("startMs", 1_700_000_000_000)
        self.member = ConsumerMembership(
            Identity(
                "g",
                member_id,
                instance_id=fields.get("instanceId"),
                rack_id=fields.get("rackId"),
                rebalance_timeout_ms=fields.get("maxPollIntervalMs", 300_000),
                server_assignor=fields.get("serverAssignor"),
            ),
            now_ms=self.now_ms,
            auto_commit=fields.get("autoCommit", True),
            retry_backoff_ms=fields.get("retryBackoffMs", 100),
            retry_backoff_max_ms=fields.get("retryBackoffMaxMs", 1000),
            jitter=0,
        )
        self.heartbeats: list[Heartbeat] = []
        self.callbacks: list[a.Action] = []

        self.remains = False

    @property
    def subscribed(self) -> bool:
        """Whether there is a subscription."""
        subscription = self.member.subscription
        return bool(subscription.topics) or subscription.regex is not None

    def step(self, fields: Json) -> Json:
        """Run a step, and return what it led to in the oracle's form."""
        out: Json = {"requests": []}
        try:
            getattr(self, f"_{fields['do']}")(fields, out)
        except InvalidTransition:
            out["thrown"] = "IllegalStateException"
        member = self.member
        out["log"] = [entry for action in member.take_actions() if (entry := self._entry(action))]
        if fields["do"] == "fail":
            out["log"] = [entry[:1] if entry[0] == "error" else entry for entry in out["log"]]
        return {
            **out,
            "nowMs": self.now_ms,
            "state": member.state.name,
            "epoch": member.member_epoch,
            "current": _assignment(member._reconciliation.current),
            "target": _assignment(member._reconciliation.target),
            "owned": _names(member.owned),
            "reconciling": member._reconciliation.in_progress,
            "coordinatorKnown": member.coordinator_known,
            "intervalMs": member.heartbeat_interval_ms,
        }

    def _advance(self, fields: Json, out: Json) -> None:
        self.now_ms += fields["ms"]

    def _subscribe(self, fields: Json, out: Json) -> None:
        self.member.subscribe(
            TopicSubscription(fields.get("topics", ()), fields.get("regex"), has_listener=fields["listener"])
        )

    def _names(self, fields: Json, out: Json) -> None:
        self.member.topic_names({Uuid.parse(text): name for text, name in fields["names"].items()})

    def _poll(self, fields: Json, out: Json) -> None:
        self.member.poll(self.now_ms)

    def _leave(self, fields: Json, out: Json) -> None:
        self.member.leave()

    def _close(self, fields: Json, out: Json) -> None:
        operation = LeaveOperation[fields["operation"]]
        self.remains = operation is LeaveOperation.REMAIN_IN_GROUP and self.member.identity.instance_id is None
        self.member.close(operation)

    def _apply(self, fields: Json, out: Json) -> None:
        action = self.callbacks[fields["callback"]]
        assert isinstance(action, a.AssignPartitions)
        out["applied"] = self.member.apply(action)

    def _complete(self, fields: Json, out: Json) -> None:
        error = RuntimeError("callback") if fields.get("error") else None
        self.member.complete(self.callbacks[fields["callback"]], error)

    def _run(self, fields: Json, out: Json) -> None:
        self._heartbeat(fields, out)
        self._reconcile(fields, out)
        self._wait(fields, out)

    def _heartbeat(self, fields: Json, out: Json) -> None:
        self._send(self.member.next_heartbeat(self.now_ms), out)

    def _reconcile(self, fields: Json, out: Json) -> None:
        self.member.reconcile(self.now_ms, can_commit=False)

    def _wait(self, fields: Json, out: Json) -> None:
        wait_ms = self.member.time_to_wait_ms(self.now_ms)
        out["waitMs"] = FOREVER if wait_ms is None else wait_ms

    def _heartbeatOnClose(self, fields: Json, out: Json) -> None:  # noqa: N802 - the step's name
        self._send(self.member.heartbeat_on_close(self.now_ms), out)

    def _send(self, heartbeat: Heartbeat | None, out: Json) -> None:
        if heartbeat is None:
            return
        self.heartbeats.append(heartbeat)
        body = to_kafka_json(heartbeat.request, VERSION)
        if body["topicPartitions"] is not None:
            body["topicPartitions"].sort(key=lambda one: bytes(Uuid.parse(one["topicId"])))
        if body["subscribedTopicNames"] is not None:
            body["subscribedTopicNames"].sort()
        out["requests"].append(body)

    def _respond(self, fields: Json, out: Json) -> None:
        response = from_json(ConsumerGroupHeartbeatResponse, fields["body"], VERSION)
        self.member.on_response(response, self.now_ms, self.heartbeats[fields["request"]])

    def _fail(self, fields: Json, out: Json) -> None:
        failure = fields["failure"]
        self.member.on_failure(
            self.now_ms,
            self.heartbeats[fields["request"]],
            retriable=failure in ("disconnected", "timedOut"),
            disconnected=failure == "disconnected",
            unsupported=failure == "unsupported",
        )

    def _findCoordinator(self, fields: Json, out: Json) -> None:  # noqa: N802 - the step's name
        self.member.coordinator_known = True

    def _loseCoordinator(self, fields: Json, out: Json) -> None:  # noqa: N802 - the step's name
        self.member.coordinator_known = False

    def _entry(self, action: a.Action) -> list[Any] | None:
        """Return an action in the oracle's form; `None` for one that Kafka does not have."""
        match action:
            case a.CommitOffsets():
                return ["commit", self._callback(action), action.deadline_ms]
            case a.PauseFetching():
                return ["pause", _names(action.partitions)]
            case a.RevokePartitions():
                return ["revoked", self._callback(action), _names(action.partitions)]
            case a.LosePartitions():
                return ["lost", self._callback(action), _names(action.partitions)]
            case a.AssignPartitions():
                return ["assigned", self._callback(action), _names(action.partitions), _names(action.added)]
            case a.AssignmentChanged():
                return ["assignment", _names(action.partitions)]
            case a.Unsubscribe():
                return ["unsubscribe"]
            case a.UpdateMetadata():
                return ["metadata"]
            case a.FindCoordinator():
                return ["coordinatorUnknown"]
            case a.RaiseError():
                return ["error", action.error.name]
            case a.LeaveCompleted():
                return ["left"]
            case a.EpochChanged():
                return ["epoch", action.epoch]
            case a.StateChanged():
                return ["state", action.new.name]
        return None

    def _callback(self, action: a.Action) -> int:
        self.callbacks.append(action)
        return len(self.callbacks) - 1


def _names(partitions: Any) -> list[str]:
    return [f"{topic}-{number}" for topic, number in sorted(partitions)]


def _assignment(assignment: LocalAssignment) -> Json:
    partitions = sorted(assignment.partitions.items(), key=lambda item: bytes(item[0]))
    return {
        "localEpoch": assignment.local_epoch,
        "partitions": {str(topic_id): list(numbers) for topic_id, numbers in partitions},
    }
