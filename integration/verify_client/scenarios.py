"""Scenarios: what happens to the cluster while the client works.

A scenario applies to some kinds of clients. It begins when the client works, and does not judge:
the rules do.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from quorate.cluster.faults import Delay, Disconnect, Error, Throttle
from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify_client.kinds import ClientKind
from quorate.integration.verify_client.stage import Stage

_HEARTBEATS = ("ConsumerGroupHeartbeat", "Heartbeat")
_GROUP = (*_HEARTBEATS, "OffsetCommit")
_CALLBACK_MS = 2_500
_FOR_S = 1.5
"""How long errors last."""

GROUPS = frozenset({ClientKind.CONSUMER, ClientKind.CLASSIC})
ANY = frozenset(ClientKind)
TRANSACTIONAL = frozenset({ClientKind.TRANSACTIONAL})
PRODUCERS = frozenset({ClientKind.PRODUCER})


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientScenario:
    """A scenario. `kinds`: the clients for which it is played. `older`: on brokers of 4.0 or 3.9.

    `callback_ms`: how long callbacks of the client should take.
    """

    name: str
    says: str
    kinds: frozenset[ClientKind]
    play: Callable[[Stage], None]
    older: bool = False
    callback_ms: int = 0


SCENARIOS: dict[str, ClientScenario] = {}


def _scenario(
    says: str, kinds: frozenset[ClientKind], *, older: bool = False, callback_ms: int = 0
) -> Callable[[Callable[[Stage], None]], Callable[[Stage], None]]:
    def declare(play: Callable[[Stage], None]) -> Callable[[Stage], None]:
        name = play.__name__.replace("_", "-")
        SCENARIOS[name] = ClientScenario(
            name=name, says=says, kinds=kinds, play=play, older=older, callback_ms=callback_ms
        )
        return play

    return declare


@_scenario("Nothing goes wrong.", ANY)
def plain(stage: Stage) -> None:
    stage.watch()


@_scenario("The brokers are of an older release: 4.0 for the consumer protocol, else 3.9.", ANY, older=True)
def older_brokers(stage: Stage) -> None:
    stage.watch()


# ---- brokers, leaders, connections


@_scenario("The coordinators of the group and of transactions move to other brokers.", GROUPS | TRANSACTIONAL)
def coordinator_moves(stage: Stage) -> None:
    for _ in range(2):
        stage.move_coordinators()
        stage.watch(1)
    stage.recovers()


@_scenario("The coordinator is loading: COORDINATOR_LOAD_IN_PROGRESS for 1.5 s.", GROUPS)
def coordinator_loads(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS), *_GROUP, seconds=_FOR_S)
    stage.recovers()


@_scenario("The coordinator is not available, nor found, for 1.5 s.", GROUPS)
def coordinator_not_available(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.COORDINATOR_NOT_AVAILABLE), *_GROUP, "FindCoordinator", seconds=_FOR_S)
    stage.recovers()


@_scenario("All partitions get other leaders.", ANY)
def leaders_move(stage: Stage) -> None:
    stage.move_leaders()
    stage.recovers()


@_scenario("Brokers respond NOT_LEADER_OR_FOLLOWER to Fetch and Produce for 1.5 s.", ANY)
def no_leader(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.NOT_LEADER_OR_FOLLOWER), "Fetch", "Produce", seconds=_FOR_S)
    stage.recovers()


@_scenario("Brokers do not know the topic for 1 s: UNKNOWN_TOPIC_ID, or UNKNOWN_TOPIC_OR_PARTITION.", ANY)
def unknown_topic(stage: Stage) -> None:
    ids = any(
        (one.api == "Fetch" and one.version >= 13) or (one.api == "Produce" and one.version >= 13)
        for one in list(stage.log.exchanges)
    )
    code = ErrorCode.UNKNOWN_TOPIC_ID if ids else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    stage.inject(Error(code), "Fetch", "Produce", seconds=1)
    stage.recovers()


@_scenario("The coordinator's broker stops, and starts after 2 s.", ANY)
def broker_stops(stage: Stage) -> None:
    broker = stage.busiest_broker()
    stage.cluster.stop_broker(broker)
    stage.watch(2)
    stage.cluster.start_broker(broker)
    stage.recovers()


@_scenario("All connections are closed, three times.", ANY)
def connections_are_cut(stage: Stage) -> None:
    for _ in range(3):
        stage.cut_connections()
        stage.watch(0.5)
    stage.recovers()


@_scenario("Brokers close a connection for each request of the client, for 1.5 s.", ANY)
def requests_are_cut(stage: Stage) -> None:
    stage.inject(Disconnect(), "Fetch", "Produce", *_HEARTBEATS, "Metadata", seconds=_FOR_S)
    stage.recovers()


@_scenario("All responses are 300 ms late, for 2 s.", ANY)
def slow_responses(stage: Stage) -> None:
    stage.inject(Delay(300), "Fetch", "Produce", "Metadata", "FindCoordinator", *_GROUP, "EndTxn", seconds=2)
    stage.recovers()


@_scenario("Brokers throttle the client for 1.5 s, three times.", ANY)
def throttled(stage: Stage) -> None:
    stage.inject(Throttle(1_500), "Fetch", "Produce", "Heartbeat", times=3)
    stage.watch(2)
    stage.recovers()


# ---- groups


@_scenario("The member is fenced: a heartbeat gets FENCED_MEMBER_EPOCH.", frozenset({ClientKind.CONSUMER}))
def fenced_member(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.FENCED_MEMBER_EPOCH), "ConsumerGroupHeartbeat", times=1)
    stage.recovers()


@_scenario("The coordinator does not know the member: a heartbeat gets UNKNOWN_MEMBER_ID.", GROUPS)
def unknown_member(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.UNKNOWN_MEMBER_ID), *_HEARTBEATS, times=1)
    stage.recovers()


@_scenario("Two offset commits get STALE_MEMBER_EPOCH.", frozenset({ClientKind.CONSUMER}))
def stale_member_epoch(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.STALE_MEMBER_EPOCH), "OffsetCommit", times=2)
    stage.recovers()


@_scenario("A heartbeat and a commit get ILLEGAL_GENERATION.", frozenset({ClientKind.CLASSIC}))
def illegal_generation(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.ILLEGAL_GENERATION), "Heartbeat", times=1)
    stage.recovers()


@_scenario("The responses to three heartbeats are lost; the heartbeats take effect.", GROUPS)
def lost_heartbeats(stage: Stage) -> None:
    for _ in range(3):
        stage.inject(Disconnect(applied=True), *_HEARTBEATS, times=1)
        stage.wait_for(*_HEARTBEATS, since_s=stage.log.now_s())
    stage.recovers()


@_scenario("A second program joins the group, and leaves; callbacks are slow.", GROUPS, callback_ms=_CALLBACK_MS)
def second_member(stage: Stage) -> None:
    since_s = stage.log.now_s()
    stage.start(2)
    stage.wait(lambda: _fetches(stage, 2, since_s), stage.limits.start_s)
    stage.watch(1)
    stage.stop(2)
    stage.recovers()


def _fetches(stage: Stage, program: int, since_s: float) -> bool:
    return any(
        one.api == "Fetch" and one.at_s > since_s and one.link.program == program for one in list(stage.log.exchanges)
    )


@_scenario("The topic gets two more partitions.", frozenset({ClientKind.CONSUMER}))
def partitions_are_added(stage: Stage) -> None:
    stage.add_partitions(2)
    stage.watch(3)
    stage.recovers()


@_scenario("All brokers restart in other racks, one after the other.", GROUPS)
def racks_change(stage: Stage) -> None:
    for broker, rack in {1: "b", 2: "c", 3: "a"}.items():
        stage.cluster.restart_broker(broker, rack=rack)
        stage.watch(1)
    stage.recovers()


# ---- producers


@_scenario("The responses to four Produce requests are lost; the records are appended.", PRODUCERS)
def lost_acknowledgements(stage: Stage) -> None:
    for _ in range(4):
        stage.inject(Disconnect(applied=True), "Produce", times=1)
    stage.recovers()
    stage.watch(4)


@_scenario("Brokers respond NOT_ENOUGH_REPLICAS to Produce for 1.5 s.", PRODUCERS)
def not_enough_replicas(stage: Stage) -> None:
    stage.inject(Error(ErrorCode.NOT_ENOUGH_REPLICAS), "Produce", seconds=_FOR_S)
    stage.recovers()
    stage.watch(4)


@_scenario("Single Produce requests fail, and those after them do not.", PRODUCERS)
def single_batches_fail(stage: Stage) -> None:
    for _ in range(4):
        stage.inject(Error(ErrorCode.NOT_LEADER_OR_FOLLOWER), "Produce", times=1)
    stage.recovers()
    stage.watch(4)


@_scenario("Another producer begins with the transactional id.", TRANSACTIONAL)
def fenced_producer(stage: Stage) -> None:
    stage.may_end = True
    stage.fence_producers()
    stage.watch(3)


@_scenario("The transaction coordinator responds CONCURRENT_TRANSACTIONS for 1 s.", TRANSACTIONAL)
def concurrent_transactions(stage: Stage) -> None:
    apis = ("AddPartitionsToTxn", "InitProducerId", "EndTxn")
    stage.inject(Error(ErrorCode.CONCURRENT_TRANSACTIONS), *apis, seconds=1)
    stage.recovers()


def applicable(kinds: frozenset[ClientKind]) -> Mapping[str, ClientScenario]:
    """Return the scenarios for a client."""
    return {name: scenario for name, scenario in SCENARIOS.items() if scenario.kinds & kinds}
