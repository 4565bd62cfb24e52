"""`Chaos`: how often what goes wrong, and the faults that a seed draws from it.

Faults are drawn one after the other, each with its time and all of its parameters, whatever the
state of the cluster. So leaving one out does not change the others, and schedules can be shrunk.
"""

import math
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field, fields, replace
from random import Random
from typing import Any

from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.faults import Delay, Disconnect, Error, Fault
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api.error_codes import ErrorCode
from quorate.simulation.crashes import CrashingProcess
from quorate.simulation.errors import SimulationError
from quorate.simulation.loop import SimulatedLoop

_RATES = (
    "broker_stops",
    "broker_pauses",
    "controller_cuts",
    "coordinator_moves",
    "connection_cuts",
    "half_open",
    "stalls",
    "error_responses",
    "lost_responses",
    "slow_disks",
    "clock_steps",
    "crashes",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chaos:
    """Rates are per minute of virtual time, for the whole cluster.

    `broker_stops`: a broker stops, and starts again within `down_ms`. `broker_pauses`: it does not
    respond for `down_ms`. `controller_cuts`: it cannot reach the controller, and is fenced.
    `coordinator_moves`: a partition of `__consumer_offsets` gets another leader. `connection_cuts`:
    both ends get a reset. `half_open`: one end does not learn of it. `stalls`: nothing arrives for
    a while. `error_responses`: a retriable error in place of a response. `lost_responses`: the
    connection closes before the response, in half of the cases after the request took effect.
    `slow_disks`: appends of a broker take long for `down_ms`. `clock_steps`: the wall clock of the
    brokers is set. `crashes`: the process of the cluster ends within a write, and starts again
    within `down_ms`; needs `sim.cluster(data=True)`.

    `latency_ms`: the least and the most latency of a segment. `split`: the probability that a
    segment is split. `reorder`: the probability that a ready callback is overtaken, which asyncio
    rules out but other loops may do. `max_down`: how many brokers are down at a time (default: all
    but one). `swarm`: each schedule has some of the kinds only, at other rates.
    """

    broker_stops: float = 4.0
    broker_pauses: float = 1.0
    controller_cuts: float = 1.0
    coordinator_moves: float = 4.0
    connection_cuts: float = 8.0
    half_open: float = 2.0
    stalls: float = 4.0
    error_responses: float = 12.0
    lost_responses: float = 8.0
    slow_disks: float = 2.0
    clock_steps: float = 1.0
    crashes: float = 0.0
    latency_ms: tuple[float, float] = (0.05, 5.0)
    split: float = 0.1
    reorder: float = 0.0
    down_ms: tuple[int, int] = (20, 15_000)
    max_down: int | None = None
    swarm: bool = True

    def __post_init__(self) -> None:
        for name in _RATES:
            if not 0 <= getattr(self, name) < math.inf:
                raise SimulationError(f"{name}={getattr(self, name)}: a rate is 0 or more, per minute")
        for name in ("split", "reorder"):
            if not 0 <= getattr(self, name) < 1:
                raise SimulationError(f"{name}={getattr(self, name)}: a probability below 1")
        for name in ("latency_ms", "down_ms"):
            low, high = getattr(self, name)
            if not 0 < low <= high:
                raise SimulationError(f"{name}={(low, high)}: the least, then the most, above 0")

    @classmethod
    def none(cls, **given: Any) -> "Chaos":
        """Return a plan without faults; `given` adds some."""
        names = {one.name for one in fields(cls)}
        if unknown := given.keys() - names:
            raise SimulationError(f"Chaos has no {', '.join(sorted(unknown))}; it has {', '.join(sorted(names))}")
        return cls(**{**dict.fromkeys(_RATES, 0.0), "swarm": False, **given})

    def times(self, factor: float) -> "Chaos":
        """Return a plan with all rates multiplied."""
        return replace(self, **{name: getattr(self, name) * factor for name in _RATES})

    def of_seed(self, random: Random) -> "Chaos":
        """Return the plan of one schedule: with `swarm`, some of the kinds at other rates."""
        if not self.swarm:
            return self
        names = [name for name in _RATES if name != "crashes" or self.crashes]  # tokens without crashes stay valid
        drawn = {name: (random.random(), random.random()) for name in names}
        return replace(
            self,
            **{
                name: getattr(self, name) * (0.0 if keep < 0.4 else 0.3 * 10**scale)
                for name, (keep, scale) in drawn.items()
            },
        )


@dataclass(slots=True)
class PlannedFault:
    """A fault that was drawn. `text`: what it did; empty if it found nothing to do."""

    number: int
    at_ns: int
    kind: str
    draws: tuple[float, ...]
    text: str = ""

    def __str__(self) -> str:
        return f"{self.number} at {self.at_ns / 1e9:.3f} s: {self.text}"


_RETRIABLE: dict[str, tuple[ErrorCode, ...]] = {
    "FindCoordinator": (ErrorCode.COORDINATOR_NOT_AVAILABLE,),
    "Produce": (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS),
    "Fetch": (ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    "ListOffsets": (ErrorCode.NOT_LEADER_OR_FOLLOWER,),
    **dict.fromkeys(
        ("JoinGroup", "SyncGroup", "OffsetCommit", "OffsetFetch", "ConsumerGroupHeartbeat"),
        (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE),
    ),
    # While a coordinator loads, heartbeats succeed.
    "Heartbeat": (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE),
}
"""APIs, and errors of theirs that brokers return while leaders and coordinators move."""

_APIS = (*_RETRIABLE, "Metadata", "LeaveGroup", "InitProducerId", "AddPartitionsToTxn", "EndTxn")


def _pick(items: Any, draw: float) -> Any:
    found = list(items)
    return found[int(draw * len(found))] if found else None


@dataclass(slots=True)
class ChaosRunner:
    """Draws the faults of a schedule, and applies them to a cluster.

    `kept`: the numbers of the faults to apply, by default all; `first`: the number before the
    first.
    `happened`: those that were applied.
    """

    chaos: Chaos
    cluster: EmbeddedCluster
    loop: SimulatedLoop
    random: Random
    kept: frozenset[int] | None
    step_clock: Callable[[int], None]
    on_fault: Callable[[str], object]
    process: CrashingProcess | None = None
    first: int = 0
    happened: list[PlannedFault] = field(default_factory=list)
    running: bool = False
    _drawn: int = 0
    _set_back_ms: int = 0  # how far the wall clock was set back
    _down: dict[int, str] = field(default_factory=dict)
    _tasks: set[Any] = field(default_factory=set)

    def start(self) -> None:
        """Begin to draw faults."""
        self.running = True
        self._plan()

    def _plan(self) -> None:
        rates = {name: rate for name in _RATES if (rate := getattr(self.chaos, name))}
        if not rates:
            return
        random = self.random
        self._drawn += 1
        at_ns = self.loop.now_ns + int(random.expovariate(sum(rates.values())) * 60e9) + 1
        kind = random.choices(list(rates), list(rates.values()))[0]
        fault = PlannedFault(self.first + self._drawn, at_ns, kind, tuple(random.random() for _ in range(4)))
        self.loop.at_ns(at_ns, self._happen, fault)

    def _happen(self, fault: PlannedFault) -> None:
        if not self.running:
            return
        self._plan()
        if self.kept is not None and fault.number not in self.kept:
            return
        if self.process is not None and not self.process.running:
            return
        try:
            fault.text = getattr(self, f"_{fault.kind}")(*fault.draws)
        except Exception:
            if self.process is None or self.process.running:
                raise
            fault.text = f"{fault.kind}, within which the cluster crashes"
        if fault.text:
            self.happened.append(fault)
            self.on_fault(f"{fault.number}: {fault.text}")

    def _later(self, after_ms: float, action: Callable[[], Any]) -> None:
        self.loop.at_ns(self.loop.now_ns + int(after_ms * 1_000_000), action)

    def _duration_ms(self, draw: float) -> float:
        """Return a duration within `down_ms`; most are short."""
        low, high = self.chaos.down_ms
        return float(low * (high / low) ** draw)

    # ---- brokers

    def _broker_stops(self, which: float, how_long: float, _: float, __: float) -> str:
        return self._take_down(which, how_long, "stops")

    def _broker_pauses(self, which: float, how_long: float, _: float, __: float) -> str:
        return self._take_down(which, how_long, "pauses")

    def _controller_cuts(self, which: float, how_long: float, _: float, __: float) -> str:
        return self._take_down(which, how_long, "cannot reach the controller")

    def _take_down(self, which: float, how_long: float, how: str) -> str:
        brokers = self.cluster.core.brokers
        most = max(1, len(brokers) - 1) if self.chaos.max_down is None else self.chaos.max_down
        if len(self._down) >= most:
            return ""
        broker: int | None = _pick((one for one in brokers if one not in self._down), which)
        if broker is None:
            return ""
        self._down[broker] = how
        for_ms = self._duration_ms(how_long)
        if how == "stops":
            self.cluster.core.stop_broker(broker)
        elif how == "pauses":
            brokers[broker].freeze(True)
        else:
            brokers[broker].cut_from_controller(True)
        self._later(for_ms, lambda: self._restore(broker))
        return f"broker {broker} {how} for {for_ms:,.0f} ms"

    def _restore(self, broker: int) -> None:
        how = self._down.pop(broker, None)
        found = self.cluster.core.brokers.get(broker)
        if how is None or found is None:
            return
        if how == "stops":
            if not found.serving:
                self._task(self.cluster.start_broker_async(broker), f"start broker {broker}")
        elif how == "pauses":
            found.freeze(False)
        else:
            found.cut_from_controller(False)

    def _task(self, work: Coroutine[Any, Any, object], name: str) -> None:
        task = self.loop.create_task(work, name=name)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _coordinator_moves(self, which: float, to: float, _: float, __: float) -> str:
        core = self.cluster.core
        topic = core.topics.get(CONSUMER_OFFSETS)
        partition = None if topic is None else _pick(topic.partitions, which)
        if partition is None:
            return ""
        target = _pick((one for one in partition.replicas if one in core.alive and one != partition.leader), to)
        if target is None:
            return ""
        core.partition_control.move_leader(partition, target)
        return f"broker {target} becomes leader of {CONSUMER_OFFSETS}-{partition.index}"

    def _slow_disks(self, which: float, how_long: float, how_slow: float, _: float) -> str:
        broker = _pick(self.cluster.core.brokers, which)
        for_ms, delay_ms = self._duration_ms(how_long), int(10 * 300**how_slow)
        self._for_a_while(Delay(delay_ms), ("Produce", "OffsetCommit", "JoinGroup", "SyncGroup"), broker, for_ms)
        return f"appends of broker {broker} take {delay_ms:,} ms longer for {for_ms:,.0f} ms"

    def _for_a_while(self, fault: Fault, apis: tuple[str, ...], broker: int, for_ms: float) -> None:
        faults = self.cluster.faults
        rules = [faults.add(fault, api=api, broker=broker) for api in apis]

        def end() -> None:
            for rule in rules:
                faults.remove(rule)

        self._later(for_ms, end)

    def _clock_steps(self, by: float, _: float, __: float, ___: float) -> str:
        by_ms = int((by - 0.5) * 120_000)
        self._set_clock(by_ms)
        return f"the wall clock of the brokers is set by {by_ms:,} ms"

    def _set_clock(self, by_ms: int) -> None:
        self.step_clock(by_ms)
        self._set_back_ms = max(0, self._set_back_ms - by_ms)

    def _crashes(self, writes: float, part: float, how_long: float, _: float) -> str:
        if self.process is None:
            return ""
        for_ms, number = self._duration_ms(how_long), 1 + int(30 * writes)
        if not self.process.crash_within(number, part):
            return ""
        self.process.on_crash = lambda: self._crashed(for_ms)
        return f"the cluster crashes after {part:.0%} of its write {number} from now, and is down for {for_ms:,.0f} ms"

    def _crashed(self, for_ms: float) -> None:
        self.on_fault("the cluster crashes")
        for task in self._tasks:
            task.cancel()
        self._down.clear()
        self._later(for_ms, self._start_again)

    def _start_again(self) -> None:
        assert self.process is not None
        if not self.process.running:
            self.on_fault("the cluster starts again")
            self._task(self.process.start(), "start the cluster")

    # ---- connections

    def _connection_cuts(self, which: float, _: float, __: float, ___: float) -> str:
        link = _pick(self.loop.network.open_links(), which)
        if link is None:
            return ""
        link.cut()
        return f"connection #{link.number} is cut"

    def _half_open(self, which: float, side: float, _: float, __: float) -> str:
        link = _pick(self.loop.network.open_links(), which)
        if link is None:
            return ""
        link.half_open(link.client if side < 0.5 else link.server)
        return f"connection #{link.number} is half-open: the {'client' if side < 0.5 else 'broker'} does not know"

    def _stalls(self, which: float, how_long: float, _: float, __: float) -> str:
        link = _pick(self.loop.network.open_links(), which)
        if link is None:
            return ""
        for_ms = self._duration_ms(how_long)
        link.stall(int(for_ms * 1_000_000))
        return f"connection #{link.number} stalls for {for_ms:,.0f} ms"

    # ---- responses

    def _error_responses(self, which: float, code: float, _: float, __: float) -> str:
        api = _pick(_RETRIABLE, which)
        error = _pick(_RETRIABLE[api], code)
        self._once(Error(error), api)
        return f"the next {api} gets {error.name}"

    def _lost_responses(self, which: float, applied: float, _: float, __: float) -> str:
        api = _pick(_APIS, which)
        self._once(Disconnect(applied=applied < 0.5), api)
        return f"the next {api} gets no response" + (", but takes effect" if applied < 0.5 else "")

    def _once(self, fault: Fault, api: str) -> None:
        faults = self.cluster.faults
        faults.rules[:] = [rule for rule in faults.rules if rule.left != 0]
        rule = faults.add(fault, api=api, times=1)
        self._later(10_000, lambda: faults.remove(rule))

    # ---- the end

    async def stop(self) -> None:
        """Draw no more faults, and undo those that last."""
        self.running = False
        self.cluster.faults.rules.clear()
        if self.process is not None:
            self.process.spare()
            self._start_again()
        for broker in list(self._down):
            self._restore(broker)
        for task in list(self._tasks):
            await task
        for link in list(self.loop.network.links.values()):
            if link.stalled:
                link.resume()
        if self._set_back_ms:
            # As Kafka since 4.3, groups get no target assignment before the time of their last one.
            self._set_clock(self._set_back_ms)
