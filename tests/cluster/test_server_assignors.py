"""Groups of real clients (KIP-848) whose broker has server-side assignors that know racks."""

import json
import subprocess
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from quorate.assignors import GroupAssignment, GroupSpec, RackAwareUniformAssignor, SubscribedTopicDescriber
from quorate.assignors.what_if import Choice, outcomes, usual_choices
from quorate.cluster import EmbeddedCluster
from quorate.cluster.waiting import wait_for
from quorate.codecs.api.broker import DescribeConfigsRequest
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.integration.live_groups import live_situation
from tests.assignors.fewest_moves import optimum
from tests.broker.broker import missing_tools, tools
from tests.broker.fixtures import need_broker
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire
from tests.cluster.test_client_matrix import HAS_FRANZ, built
from tests.integration.groups import Member, group_state
from tests.integration.limits import LIMIT_MS

RACKS = ("a", "b", "c")
QUICK_GROUPS = {
    **QUICK,
    "group.consumer.heartbeat.interval.ms": 200,
    "group.consumer.min.heartbeat.interval.ms": 200,
    "group.consumer.assignment.interval.ms": 0,
}
Start = Callable[..., Member]


class RoundRobin:
    """A plug-in. `fault` is raised."""

    name = "round-robin"

    def __init__(self) -> None:
        self.fault: Exception | None = None

    def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber) -> GroupAssignment:
        if self.fault is not None:
            raise self.fault
        member_ids = sorted(group_spec.member_ids)
        target: dict[str, dict[Any, list[int]]] = {member_id: {} for member_id in member_ids}
        for topic_id in group_spec.member_subscription(member_ids[0]).subscribed_topic_ids:
            for partition in range(topic_describer.num_partitions(topic_id)):
                target[member_ids[partition % len(member_ids)]].setdefault(topic_id, []).append(partition)
        return target


@pytest.fixture
def plug_in() -> RoundRobin:
    return RoundRobin()


@pytest.fixture
def kafka(plug_in: RoundRobin) -> Iterator[EmbeddedCluster]:
    properties = {
        **QUICK_GROUPS,
        "group.consumer.assignors": ["rack-aware-uniform", "uniform", plug_in],
        "group.consumer.regex.refresh.interval.ms": 10_000,
    }
    with EmbeddedCluster(racks=RACKS, properties=properties, seed=1) as made:
        yield made
        assert made.failures == []


@pytest.fixture
def start(kafka: EmbeddedCluster) -> Iterator[Start]:
    with ExitStack() as stack:

        def started(name: str, rack: str, *topics: str, **config: Any) -> Member:
            more = {name.replace("_", "."): value for name, value in config.items()}
            return stack.enter_context(Member(kafka, "g", topics or ("orders",), name=name, rack=rack, **more))

        yield started


def create(kafka: EmbeddedCluster, topic: str, assignment: Sequence[Sequence[int]]) -> None:
    kafka.create_topic(topic, assignment=[list(replicas) for replicas in assignment])


def locality(kafka: EmbeddedCluster, members: Mapping[str, Member]) -> tuple[int, int]:
    """Return the numbers of local and of assigned partitions, as members know them."""
    found = local = 0
    for name, member in members.items():
        for topic, partition in member.assigned:
            (described,) = kafka.topology(topic).topics
            found += 1
            local += name[0] in described.racks[partition]
    return local, found


def best(kafka: EmbeddedCluster, topic: str, owners: Mapping[int, int] | None = None) -> tuple[int, int]:
    """Return the most partitions that can be local, and the fewest moves from `owners` to that."""
    (described,) = kafka.topology(topic).topics
    return optimum(described.racks, RACKS, [(owners or {}).get(one, -1) for one in range(described.partitions)])


def is_stable(kafka: EmbeddedCluster, members: Mapping[str, Member], local: int, partitions: int) -> None:
    counts = [len(member.assigned) for member in members.values()]
    wait_for(
        f"{local} of {partitions} partitions are local",
        lambda: (
            locality(kafka, members) == (local, partitions)
            and len({at for member in members.values() for at in member.assigned}) == partitions
        ),
        LIMIT_MS,
    )
    assert all(member.error is None for member in members.values()), counts


# In make test 6 and 16 have few and more partitions for each member.
@pytest.mark.parametrize("partitions", [6, 16, pytest.param(60, marks=pytest.mark.long)])
def test_locality_recovers_after_brokers_change_racks_with_the_fewest_moves(
    kafka: EmbeddedCluster, start: Start, partitions: int
) -> None:
    create(kafka, "orders", [[1 + number % 3] for number in range(partitions)])
    members = {name: start(name, name) for name in RACKS}
    is_stable(kafka, members, best(kafka, "orders")[0], partitions)
    for broker, rack in ((1, "b"), (1, "a"), (2, "c"), (3, "b"), (2, "b"), (3, "c")):
        before = {at: name for name, member in members.items() for _, at in member.assigned}
        epoch = group_state(kafka, "g").epoch
        kafka.restart_broker(broker, rack=rack)
        local, moves = best(kafka, "orders", {at: RACKS.index(name) for at, name in before.items()})
        wait_for("the rebalance", lambda epoch=epoch: group_state(kafka, "g").epoch > epoch, LIMIT_MS)
        is_stable(kafka, members, local, partitions)
        assert group_state(kafka, "g").epoch == epoch + 1  # one rebalance
        assert sum(before[at] != name for name, member in members.items() for _, at in member.assigned) == moves


def test_added_partitions_and_new_topics_of_a_regex_are_local(kafka: EmbeddedCluster, start: Start) -> None:
    create(kafka, "orders.eu", [[1], [2], [3]])
    members = {name: start(name, name, "^orders\\..*") for name in RACKS}
    is_stable(kafka, members, 3, 3)
    kept = {name: member.assigned for name, member in members.items()}
    kafka.add_partitions("orders.eu", 9)
    racks = [one[0] for one in kafka.topology("orders.eu").topics[0].racks]
    is_stable(kafka, members, sum(min(racks.count(rack), 3) for rack in RACKS), 9)
    assert all(kept[name] <= member.assigned for name, member in members.items())
    create(kafka, "orders.us", [[3], [2], [1]])
    is_stable(kafka, members, sum(min(racks.count(rack) + 1, 4) for rack in RACKS), 12)


def test_a_member_that_moves_to_another_rack_gets_local_partitions(kafka: EmbeddedCluster, start: Start) -> None:
    create(kafka, "orders", [[1 + number % 2] for number in range(6)])
    members = {name: start(name, name[0]) for name in ("a", "b")}
    is_stable(kafka, members, 6, 6)
    first = members["a"].assigned
    members.pop("a").close()
    is_stable(kafka, members, 3, 6)
    members["b-again"] = start("b-again", "b")
    is_stable(kafka, members, 3, 6)
    members.pop("b").close()
    members["a-again"] = start("a-again", "a")
    is_stable(kafka, members, 6, 6)
    assert members["a-again"].assigned == first


def test_a_fault_of_a_plug_in_is_in_the_brokers_log_and_the_members_keep_their_partitions(
    kafka: EmbeddedCluster, start: Start, plug_in: RoundRobin, caplog: pytest.LogCaptureFixture
) -> None:
    create(kafka, "orders", [[1]] * 4)
    first = start("a", "a", group_remote_assignor="round-robin")
    wait_for("the partitions", lambda: len(first.assigned) == 4, LIMIT_MS)
    plug_in.fault = LookupError("no model")
    second = start("b", "b", group_remote_assignor="round-robin")
    fault = "assignor round-robin (tests.cluster.test_server_assignors:RoundRobin) raised LookupError: no model"
    wait_for("a fault in the log", lambda: any(fault in kafka.logs(broker.id) for broker in kafka.brokers), LIMIT_MS)
    assert fault in caplog.text
    assert (len(first.assigned), len(second.assigned)) == (4, 0)
    plug_in.fault = None
    third = start("c", "c", group_remote_assignor="round-robin")
    wait_for("all have partitions", lambda: len(first.assigned) + len(third.assigned) >= 3, LIMIT_MS)


def test_a_live_group_of_uniform_is_compared_with_assignors_that_know_racks(
    kafka: EmbeddedCluster, start: Start
) -> None:
    create(kafka, "orders", [[1 + number % 3] for number in range(6)])
    members = {name: start(name, name, group_remote_assignor="uniform") for name in RACKS}
    wait_for("all partitions", lambda: locality(kafka, members)[1] == 6, LIMIT_MS)
    for broker, rack in ((1, "b"), (2, "c"), (3, "a")):  # uniform ignores racks, so some change leaves it remote
        if locality(kafka, members)[0] == 6:
            kafka.restart_broker(broker, rack=rack)
    situation = live_situation(kafka.bootstrap_servers.split(","), "g", {}, 60_000)
    path = "tests.coordinator.plug_in:PlugIn"
    chosen = [*usual_choices(None, situation), Choice(name=path, side="server", options={}, text=path)]
    found = {one.label: one.explanation.local for one in outcomes(chosen, situation)}
    assert next(iter(found)) == "uniform"
    assert found["uniform"] < found["rack-aware-uniform"] == best(kafka, "orders")[0]
    assert found[path] == 6


def test_plug_ins_stay_loaded_when_configs_change_and_the_cluster_is_upgraded(
    kafka: EmbeddedCluster, start: Start, plug_in: RoundRobin
) -> None:
    def loaded() -> Any:
        found: Any = kafka.core.broker_configs.coordinator.server_assignors["round-robin"]
        return found.plug_in

    create(kafka, "orders", [[1]] * 4)
    member = start("a", "a", group_remote_assignor="round-robin")
    wait_for("the partitions", lambda: len(member.assigned) == 4, LIMIT_MS)
    kafka.set_config("broker:", {"log.retention.ms": "600000"})
    assert loaded() is plug_in
    kafka.upgrade("4.4.1")
    assert loaded() is plug_in
    other = start("b", "b", group_remote_assignor="round-robin")
    wait_for("each has its share", lambda: len(member.assigned) == len(other.assigned) == 2, LIMIT_MS)
    resource = DescribeConfigsResource(
        resource_type=4, resource_name="1", configuration_keys=("group.consumer.assignors",)
    )
    with Wire(kafka.core.brokers[1].port) as wire:
        (described,) = wire.request(DescribeConfigsRequest(resources=(resource,)), 4).results
    assert described.configs[0].value == "rack-aware-uniform,uniform,round-robin"


@pytest.fixture
def _tools() -> None:
    need_broker()
    if (reason := missing_tools()) is not None:
        pytest.skip(reason)


@pytest.mark.usefixtures("_tools")
def test_java_and_librdkafka_members_share_a_group(kafka: EmbeddedCluster, start: Start, tmp_path: Path) -> None:
    create(kafka, "orders", [[1 + number % 2] for number in range(4)])
    config = tmp_path / "client.properties"
    config.write_text("client.rack=b\ngroup.remote.assignor=rack-aware-uniform\n")
    options = ("-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error")
    command = [
        *tools(*options),
        *("org.apache.kafka.tools.VerifiableConsumer", "--bootstrap-server", kafka.bootstrap_servers),
        *("--topic", "orders", "--group-id", "g", "--group-protocol", "consumer", "--command-config", str(config)),
    ]
    member = start("a", "a")
    wait_for("the partitions", lambda: len(member.assigned) == 4, LIMIT_MS)
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assigned: set[int] = set()
            for line in process.stdout:
                event = json.loads(line) if line.startswith("{") else {"name": "a warning of the JVM"}
                if event["name"] == "partitions_assigned":
                    assigned |= {one["partition"] for one in event["partitions"]}
                if assigned == {1, 3}:
                    break
            assert assigned == {1, 3}
            wait_for("local partitions", lambda: member.assigned == {("orders", 0), ("orders", 2)}, LIMIT_MS)
        finally:
            process.terminate()


def test_lag_aware_reads_the_logs_and_the_committed_offsets_of_the_cluster() -> None:
    properties = {**QUICK_GROUPS, "group.consumer.assignors": "lag-aware"}
    with EmbeddedCluster(racks=RACKS, properties=properties, seed=1) as kafka, ExitStack() as stack:
        kafka.create_topic("orders", partitions=4)
        producer = Producer({"bootstrap.servers": kafka.bootstrap_servers})
        for partition, records in enumerate((400, 30, 20, 300)):
            for _ in range(records):
                producer.produce("orders", b"one", partition=partition)
        assert producer.flush(LIMIT_MS / 1000) == 0
        # The lags are 0, 30, 20 and 300: partition 0 was read.
        other = Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": "g"})
        other.commit(offsets=[TopicPartition("orders", 0, 400)], asynchronous=False)
        other.close()
        members = []
        for name in ("a", "b"):
            member = Member(kafka, "g", ("orders",), name=name, **{"enable.auto.commit": False})
            members.append(stack.enter_context(member))
            wait_for("partitions", lambda member=member: bool(member.assigned), LIMIT_MS)
        expected = [{0, 3}, {1, 2}]

        def by_lag() -> bool:
            return sorted(sorted(at for _, at in member.assigned) for member in members) == list(map(sorted, expected))

        wait_for("an assignment by lag", by_lag, LIMIT_MS)


class NamedUniform(RackAwareUniformAssignor):
    """Has the name that franz-go requests: `uniform` or `range`, without a choice."""

    name = "uniform"


@pytest.mark.skipif(not HAS_FRANZ, reason="Go or franz-go is missing: scripts/setup-go fetches it")
def test_franz_go_members_get_local_partitions() -> None:
    properties = {**QUICK_GROUPS, "group.consumer.assignors": [NamedUniform()]}
    with EmbeddedCluster(racks=RACKS, properties=properties, seed=1) as kafka, ExitStack() as stack:
        create(kafka, "orders", [[1 + number % 3] for number in range(6)])
        owned: dict[str, set[int]] = {}

        def follow(rack: str, lines: Iterable[str]) -> None:
            for line in lines:
                owned[rack] = {*map(int, line.split())}

        for rack in RACKS:
            command = [built("./member"), kafka.bootstrap_servers, "g", "orders", rack]
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
            assert process.stdin is not None
            assert process.stdout is not None
            reader = threading.Thread(target=follow, args=[rack, process.stdout])
            reader.start()
            for end in (process.stdout.close, reader.join, process.wait, process.stdin.close):
                stack.callback(end)  # the last one is called first
        local = {rack: {place, place + 3} for place, rack in enumerate(RACKS)}
        wait_for("local partitions", lambda: owned == local, LIMIT_MS)
        assert kafka.failures == []
