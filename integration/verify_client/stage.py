"""`Stage`: an embedded cluster, the programs of a client, and what a scenario does to both.

Everything is done within the cluster's own process, so that the log of exchanges has the requests
of the client only.
"""

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import TracebackType
from typing import Any, Self

from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.errors import ClusterError
from quorate.cluster.faults import Error, Fault, Rule
from quorate.cluster.frames import Header
from quorate.cluster.handlers import advertised
from quorate.cluster.interface import TEST_PROPERTIES
from quorate.cluster.topics import PartitionState
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.broker import InitProducerIdRequest
from quorate.codecs.message import TRANSACTION_STATE, Message
from quorate.integration.verify.wire import RawConnection
from quorate.integration.verify_client.exchanges import OWN_CLIENT_ID, Exchange, WireLog
from quorate.integration.verify_client.feeder import Feeder
from quorate.integration.verify_client.fetch_errors import FetchError
from quorate.integration.verify_client.kinds import ClientKind, kinds_in
from quorate.integration.verify_client.program import Program
from quorate.integration.verify_client.rule import Evidence, ProgramRun

TOPIC = "quorate-verify"
GROUP = "quorate-verify"
PARTITIONS = 4
RACKS = ("a", "b", "c")
PROPERTIES: Mapping[str, object] = {
    **TEST_PROPERTIES,
    "offsets.topic.replication.factor": 3,
    "transaction.state.log.replication.factor": 3,
    "group.consumer.heartbeat.interval.ms": 500,
    "group.consumer.min.heartbeat.interval.ms": 500,
    "group.consumer.session.timeout.ms": 6_000,
    "group.consumer.min.session.timeout.ms": 1_000,
    "group.min.session.timeout.ms": 1_000,
}
"""Heartbeats twice a second, so that a scenario of a few seconds has several."""

_POLL_S = 0.02


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientLimits:
    """How long the client may take, in seconds.

    `start_s`: until it works. `recover_s`: until it works again after a fault. `close_s`: until it
    ends after SIGTERM. `watch_s`: how long it is watched when it works again.
    """

    start_s: float = 30.0
    recover_s: float = 20.0
    close_s: float = 15.0
    watch_s: float = 2.0


class Stage:
    """One scenario's cluster of three brokers, and its programs; a context manager.

    `version`: the release of the brokers. `values`: more placeholders. `may_end`: set by a scenario
    that fences the client for good. `feeds`: whether records are written for consumers. `ended`:
    ends each wait with a `ClusterError` when it is set.
    """

    def __init__(
        self,
        command: Sequence[str],
        scenario: str,
        limits: ClientLimits,
        *,
        version: str | None = None,
        feeds: bool = True,
        ended: threading.Event | None = None,
    ) -> None:
        self.limits = limits
        self._ended = ended or threading.Event()
        self.may_end = False
        self.callback_ms = 0
        self._command = command
        self._scenario = scenario
        self._programs: dict[int, Program] = {}
        self._runs: dict[int, ProgramRun] = {}
        self._works_again: bool | None = None
        self._end_offsets: Mapping[int, int] = {}
        self.log = WireLog(self._program_of)
        self.cluster = EmbeddedCluster(racks=RACKS, version=version, properties=PROPERTIES)
        self.log.observe(self.cluster)
        self._feeds = feeds
        self._resources = ExitStack()

    def __enter__(self) -> Self:
        core = self.cluster.core
        with ExitStack() as opened:
            opened.enter_context(self.cluster)
            self.call(lambda: core.internal_topic(CONSUMER_OFFSETS))
            self.call(lambda: core.internal_topic(TRANSACTION_STATE))
            topic = self.call(lambda: core.create_topic(TOPIC, partitions=PARTITIONS, replicas=len(RACKS)))
            self._topic_id = str(topic.id)
            self._feeder = Feeder(self.cluster, TOPIC)
            if self._feeds:
                opened.enter_context(self._feeder)
            opened.callback(self._close_programs)
            self._resources = opened.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._resources.close()

    def _close_programs(self) -> None:
        for program in self._programs.values():
            program.close()

    def call(self, action: Callable[[], Any]) -> Any:
        """Call a function in the cluster's thread."""
        return self.cluster.call(action)

    # ---- programs

    def _client_id(self, number: int) -> str:
        return f"client-{number}"

    def _program_of(self, client_id: str) -> int:
        """Return to which program a connection belongs: by client id, else the only one."""
        for number in self._runs:
            if client_id == self._client_id(number):
                return number
        return next(iter(self._runs)) if len(self._runs) == 1 else 0

    def start(self, number: int = 1) -> None:
        """Start a program. Raises `ClusterError` if the command cannot be run."""
        values = {
            "bootstrap": self.cluster.bootstrap_servers,
            "topic": TOPIC,
            "group": GROUP,
            "client_id": self._client_id(number),
            "instance": str(number),
            "transactional_id": f"{GROUP}-{number}",
            "rack": RACKS[(number - 1) % len(RACKS)],
            "scenario": self._scenario,
            "callback_ms": str(self.callback_ms),
        }
        self._runs[number] = ProgramRun(number=number)
        self._programs[number] = Program(self._command, values)

    def stop(self, number: int = 1) -> None:
        """Send SIGTERM to a program and wait until it ends; kill it if it does not."""
        run, program = self._runs[number], self._programs[number]
        self._look()
        run.stopped_s = self.log.now_s()
        program.terminate()
        run.killed = not self.wait(lambda: program.status is not None, self.limits.close_s)
        if run.killed:
            program.kill()
        self._look()

    def _look(self) -> None:
        """Notice programs that have ended."""
        for number, run in self._runs.items():
            status = self._programs[number].status if number in self._programs else None
            if status is not None and run.ended_s is None:
                run.status, run.ended_s = status, self.log.now_s()
                run.output = self._programs[number].output

    @property
    def output(self) -> list[str]:
        """The last lines of the output of the first program."""
        return self._programs[1].output if 1 in self._programs else []

    @property
    def status(self) -> int | None:
        """The exit status of the first program; `None` while it runs."""
        self._look()
        return self._runs[1].status

    # ---- waiting

    def wait(self, ready: Callable[[], object], timeout_s: float) -> bool:
        """Wait for a condition, as long as a program runs. Return whether it was met."""
        until_s = time.monotonic() + timeout_s
        while not ready():
            if self._ended.wait(_POLL_S):
                raise ClusterError("the run was ended")
            self._look()
            if time.monotonic() > until_s or all(run.ended_s is not None for run in self._runs.values()):
                return bool(ready())
        return True

    def watch(self, seconds: float | None = None) -> None:
        """Watch the client for a while, or until it ends."""
        self.wait(lambda: False, self.limits.watch_s if seconds is None else seconds)

    def has_worked(self, since_s: float) -> bool:
        """Return whether the client has consumed or produced since a time."""
        recent: list[Exchange] = []
        for one in reversed(self.log.exchanges):
            if one.at_s < since_s - 5:
                break
            if one.responded_s is not None and one.responded_s > since_s and not one.errors:
                recent.append(one)
        kinds = self.kinds
        apis = {one.api for one in recent}
        fetched = any(
            part.records
            for one in recent
            if one.api == "Fetch" and one.response is not None
            for topic in one.response.responses
            for part in topic.partitions
        )
        shown = {
            ClientKind.READER: fetched,
            ClientKind.CONSUMER: "ConsumerGroupHeartbeat" in apis,
            ClientKind.CLASSIC: "Heartbeat" in apis,
            ClientKind.PRODUCER: "Produce" in apis,
            ClientKind.TRANSACTIONAL: "EndTxn" in apis,
        }
        return bool(kinds) and all(shown[kind] for kind in kinds)

    @property
    def kinds(self) -> frozenset[ClientKind]:
        """What the client was seen to be, so far."""
        return kinds_in(self.log.exchanges)

    def works(self) -> bool:
        """Wait until the client works for the first time."""
        return self.wait(lambda: self.has_worked(0), self.limits.start_s)

    def recovers(self) -> None:
        """Wait until the client works again, and watch it for a while."""
        since_s = self.log.now_s()
        worked = self.wait(lambda: self.has_worked(since_s), self.limits.recover_s)
        if worked or self.status is None:  # a program that has ended breaks another rule
            self._works_again = worked
        self.watch()

    def gave_up(self) -> None:
        """Note that the client has not worked, before anything was done to it."""
        self._works_again = False

    def wait_for(self, *apis: str, since_s: float = 0, count: int = 1, timeout_s: float = 5) -> bool:
        """Wait until requests of these APIs have arrived since a time."""
        return self.wait(lambda: self.count(*apis, since_s=since_s) >= count, timeout_s)

    def count(self, *apis: str, since_s: float = 0) -> int:
        """Return how many requests of these APIs have arrived since a time."""
        return sum(one.api in apis and one.at_s >= since_s for one in self.log.exchanges)

    # ---- faults

    def inject(self, fault: Fault, *apis: str, times: int | None = None, seconds: float | None = None) -> None:
        """Apply a fault to requests of these APIs: `times`, or as long as `seconds`.

        Returns when it has been applied so often, or the client has sent no such request in time.
        """
        faults = self.cluster.faults
        rules = [_OfClient(_fault_for(api, fault), api, left=times) for api in apis]
        self.call(lambda: faults.rules.extend(rules))
        if seconds is not None:
            self.watch(seconds)
        else:
            self.wait(lambda: any(rule.left == 0 for rule in rules), 5)
        for rule in rules:
            self.call(partial(faults.remove, rule))

    def _partition_of(self, transactional_id: str | None) -> PartitionState:
        core = self.cluster.core
        found = core.groups.partition_for(GROUP)
        if transactional_id is not None:
            found = core.transactions.partition_for(transactional_id)
        if found is None:
            raise ClusterError("the coordinator has no partition")
        return found

    def _move(self, partition: PartitionState) -> None:
        core = self.cluster.core
        following = next(one for one in partition.replicas if one != partition.leader and one in core.alive)
        core.partition_control.move_leader(partition, following)

    def move_coordinators(self) -> None:
        """Move the coordinators of the group and of the client's transactional ids."""
        ids = self.transactional_ids()
        for each in (None, *ids):
            self.call(partial(self._move, self._partition_of(each)))

    def move_leaders(self) -> None:
        """Give all partitions of the topic another leader."""
        for partition in self.cluster.core.topics[TOPIC].partitions:
            self.call(partial(self._move, partition))

    def add_partitions(self, count: int) -> None:
        """Add partitions to the topic."""
        control = self.cluster.core.partition_control
        self.call(lambda: control.add_partitions(TOPIC, len(self.cluster.core.topics[TOPIC].partitions) + count))

    def cut_connections(self) -> None:
        """Close all connections of the client."""
        for broker in self.cluster.core.brokers.values():
            self.call(broker.drop_clients)

    def busiest_broker(self) -> int:
        """Return the broker that coordinates the group, and leads partitions of the topic."""
        ids = self.transactional_ids()
        return self._partition_of(ids[0] if ids else None).leader

    def transactional_ids(self) -> list[str]:
        """Return the transactional ids of the client."""
        found = (
            one.request.transactional_id
            for one in list(self.log.exchanges)
            if one.api == "InitProducerId" and one.request is not None
        )
        return list(dict.fromkeys(each for each in found if each))

    def fence_producers(self) -> None:
        """Begin another producer with each transactional id of the client."""
        for each in self.transactional_ids():
            leader = self._partition_of(each).leader
            connection = RawConnection("127.0.0.1", self.cluster.core.brokers[leader].port, client_id=OWN_CLIENT_ID)
            try:
                request = InitProducerIdRequest(transactional_id=each, transaction_timeout_ms=60_000)
                until_s = time.monotonic() + 5
                while connection.request(request, 4).error_code and time.monotonic() < until_s:
                    time.sleep(0.1)  # CONCURRENT_TRANSACTIONS, while the open transaction is aborted
            finally:
                connection.socket.close()

    # ---- the end

    def finish(self) -> Evidence:
        """Let consumers read to the end, stop the programs, and return what happened."""
        if self._feeds and self._feeder.stop():
            self._end_offsets = self.call(self._read_end_offsets)
            self.wait(lambda: self._committed(self._end_offsets), 6 if self.count("OffsetCommit") else 1)
        for number, run in self._runs.items():
            if run.stopped_s is None:
                self.stop(number)
        end_s = self.log.now_s()
        return Evidence(
            exchanges=tuple(self.log.exchanges),
            links=tuple(link for link in self.log.links if not link.own and link.client_id),
            group=GROUP,
            topic=TOPIC,
            topic_id=self._topic_id,
            versions=advertised(self.cluster.core),
            programs=tuple(self._runs.values()),
            end_s=end_s,
            end_offsets=self._end_offsets,
            works_again=self._works_again,
            may_end=self.may_end,
        )

    def _read_end_offsets(self) -> Mapping[int, int]:
        partitions = self.cluster.core.topics[TOPIC].partitions
        return {partition.index: partition.log.high_watermark for partition in partitions}

    def _committed(self, wanted: Mapping[int, int]) -> bool:
        committed: dict[int, int] = {}
        for one in list(self.log.exchanges):
            if one.api == "OffsetCommit" and one.response is not None and not one.errors:
                for topic in one.request.topics:
                    committed.update((part.partition_index, part.committed_offset) for part in topic.partitions)
        return all(committed.get(partition, 0) >= end for partition, end in wanted.items())


class _OfClient(Rule):
    """A rule for requests of the client, and not for those of the judge."""

    __slots__ = ()

    def matches(self, broker: int, header: Header, request: Message) -> bool:
        """Return whether the rule applies to a request."""
        return not header.client_id.startswith(OWN_CLIENT_ID) and super().matches(broker, header, request)


def _fault_for(api: str, fault: Fault) -> Fault:
    """Return the fault for an API: brokers report errors of a Fetch for each partition."""
    return FetchError(fault.code) if api == "Fetch" and isinstance(fault, Error) else fault
