"""Client-side assignors of KIP-848 in quorate's consumers, on brokers that support them."""

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack
from typing import Any

import pytest
from kafka.errors import UnsupportedVersionError

from quorate.assignors import LagAwareAssignor, Member, RackAwareUniformAssignor, Topology
from quorate.cluster import TEST_PROPERTIES, EmbeddedCluster
from quorate.cluster.waiting import wait_for
from quorate.codecs.client_assignors import AssignedMetadata
from quorate.codecs.errors import InputError
from quorate.consumers.client_assignors import (
    AssignmentFailed,
    AssignorMetadata,
    ConsumerAssignor,
    MemberAssignment,
    OfferedAssignors,
)
from quorate.consumers.kafka_python import KafkaConsumer
from tests.integration.conftest import QUICK
from tests.integration.limits import LIMIT_MS

pytestmark = [pytest.mark.without_containers, pytest.mark.scenario("beyond Kafka")]

TOPIC = "orders"
CONFIGS = {**TEST_PROPERTIES, **QUICK, "group.consumer.heartbeat.interval.ms": 100}

Plan = Mapping[str, Iterable[int]]


class Planned(ConsumerAssignor):
    """Assigns by a plan of the test: letters of members → partitions of orders.

    A member's letter is its metadata.
    """

    name = "planned"

    def __init__(self, letter: str, plan: Callable[[frozenset[str]], Plan]) -> None:
        self.letter, self.plan = letter, plan
        self.reason = 0
        self.computed = 0
        self.received: list[AssignedMetadata] = []

    def metadata(self) -> AssignorMetadata:
        return AssignorMetadata(self.letter.encode(), version=self.maximum_version, reason=self.reason)

    def assign(self, group: Mapping[str, Member], topics: Topology) -> Any:
        ids = {(member.user_data or b"").decode(): member_id for member_id, member in group.items()}
        self.computed += 1
        plan = self.plan(frozenset(ids))
        return {
            ids.get(letter, letter): MemberAssignment([(TOPIC, one) for one in plan[letter]], f"for {letter}".encode())
            for letter in plan
        }

    def on_assignment(self, partitions: Any, metadata: AssignedMetadata, epoch: int) -> None:
        self.received.append(metadata)


class Group:
    """Consumers with letters, polled by the test."""

    def __init__(self, cluster: EmbeddedCluster, plan: Callable[[frozenset[str]], Plan]) -> None:
        self.cluster, self.plan = cluster, plan
        self.assignors: dict[str, Planned] = {}
        self.consumers: dict[str, KafkaConsumer] = {}
        self._stack = ExitStack()

    def join(self, letter: str, assignor: Planned | None = None, **config: Any) -> Planned:
        self.assignors[letter] = assignor or Planned(letter, lambda letters: self.plan(letters))
        self.consumers[letter] = one = KafkaConsumer(
            TOPIC,
            group_id="billing",
            group_protocol="consumer",
            client_assignors=[self.assignors[letter]],
            **{**self.cluster.client_config, **config},
        )
        self._stack.callback(one.close)
        return self.assignors[letter]

    def owned(self) -> dict[str, list[int]]:
        for one in self.consumers.values():
            one.poll(timeout_ms=20)
        return {
            letter: sorted(partition.partition for partition in one.assignment())
            for letter, one in self.consumers.items()
        }

    def settle(self, **expected: list[int]) -> None:
        wait_for(f"members own {expected}", lambda: self.owned() == expected, LIMIT_MS)

    def computed(self) -> int:
        return sum(one.computed for one in self.assignors.values())

    def epoch(self, letter: str) -> int:
        return int(self.consumers[letter].group_metadata().generation_id)

    def __enter__(self) -> "Group":
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


@pytest.fixture
def cluster() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties={**CONFIGS, "group.consumer.client.assignors.enable": "true"}) as one:
        one.create_topic(TOPIC, partitions=6)
        yield one


DOCUMENT = {
    frozenset("A"): {"A": range(6)},
    frozenset("AB"): {"A": [0, 1, 2], "B": [3, 4, 5]},
    frozenset("ABC"): {"A": [0, 1], "B": [3, 4], "C": [2, 5]},
    frozenset("BC"): {"B": [3, 4, 0], "C": [5, 1, 2]},
}
"""The example of KIP-848's document, whose partitions begin with 1."""


def test_example_of_the_document_with_three_consumers(cluster: EmbeddedCluster) -> None:
    with Group(cluster, DOCUMENT.__getitem__) as group:
        group.join("A")
        group.settle(A=[0, 1, 2, 3, 4, 5])
        group.join("B")
        group.settle(A=[0, 1, 2], B=[3, 4, 5])
        before = group.epoch("A")
        # A new reason starts a rebalance, which changes nothing here.
        group.assignors["B"].reason = 1
        wait_for("a new epoch", lambda: group.owned() and group.epoch("A") > before, LIMIT_MS)
        group.settle(A=[0, 1, 2], B=[3, 4, 5])

        group.join("C")
        group.settle(A=[0, 1], B=[3, 4], C=[2, 5])
        assert {one.received[-1].metadata for one in group.assignors.values()} == {b"for A", b"for B", b"for C"}
        # One member computes the target of an epoch.
        computed = group.computed()
        assert computed <= group.epoch("C")

        group.consumers.pop("A").close()
        group.settle(B=[0, 3, 4], C=[1, 2, 5])


def test_assignor_that_fails_keeps_the_assignment_and_reports_its_code(cluster: EmbeddedCluster) -> None:
    fails = threading.Event()

    def plan(letters: frozenset[str]) -> Plan:
        if fails.is_set():
            raise AssignmentFailed(7)
        return DOCUMENT[letters]

    with Group(cluster, plan) as group:
        group.join("A")
        group.settle(A=[0, 1, 2, 3, 4, 5])
        fails.set()
        group.join("B")
        wait_for(
            "all receive the code",
            lambda: group.owned() and all(any(r.error == 7 for r in o.received) for o in group.assignors.values()),
            LIMIT_MS,
        )
        assert group.owned() == {"A": [0, 1, 2, 3, 4, 5], "B": []}
        fails.clear()
        group.assignors["B"].reason = 1
        group.settle(A=[0, 1, 2], B=[3, 4, 5])


@pytest.mark.parametrize(
    "nonsense",
    [{"A": [0, 1], "B": [1, 2]}, {"A": [99], "B": []}, {"A": [0], "unknown": [1]}, {"A": ["0"]}, {"A": [2**40]}],
    ids=["twice", "unknown partition", "unknown member", "text", "too large"],
)
def test_invalid_assignment_is_rejected_once_and_the_group_continues(cluster: EmbeddedCluster, nonsense: Plan) -> None:
    plans: dict[frozenset[str], Plan] = {**DOCUMENT, frozenset("AB"): nonsense}
    with Group(cluster, lambda letters: plans[letters]) as group:
        group.join("A")
        group.settle(A=[0, 1, 2, 3, 4, 5])
        group.join("B")
        received = group.assignors["B"].received
        wait_for("B receives the error", lambda: group.owned() and any(one.error for one in received), LIMIT_MS)
        computed = group.computed()
        for _ in range(10):
            assert group.owned() == {"A": [0, 1, 2, 3, 4, 5], "B": []}
        assert group.computed() == computed
        plans[frozenset("AB")] = DOCUMENT[frozenset("AB")]
        group.assignors["A"].reason = 1
        group.settle(A=[0, 1, 2], B=[3, 4, 5])


def test_assignor_that_hangs_is_replaced_by_another_member(cluster: EmbeddedCluster) -> None:
    released = threading.Event()

    def hang(letters: frozenset[str]) -> Plan:
        if letters == frozenset("AB"):
            released.wait(60)
        return DOCUMENT[letters]

    with Group(cluster, DOCUMENT.__getitem__) as group:
        # The rebalance timeout is the time for the computation.
        group.join("A", Planned("A", hang), max_poll_interval_ms=2_000)
        group.settle(A=[0, 1, 2, 3, 4, 5])
        group.join("B", Planned("B", hang), max_poll_interval_ms=2_000)
        wait_for(
            "a member computes",
            lambda: group.owned() and sum(o.computed for o in group.assignors.values()) == 2,
            LIMIT_MS,
        )
        (slow,) = (one for one in group.assignors.values() if one.computed == (2 if one.letter == "A" else 1))
        other = group.assignors["B" if slow.letter == "A" else "A"]
        other.plan = DOCUMENT.__getitem__
        group.settle(A=[0, 1, 2], B=[3, 4, 5])
        released.set()


def test_versions_without_a_common_one_leave_the_assignment_to_the_brokers(cluster: EmbeddedCluster) -> None:
    with Group(cluster, DOCUMENT.__getitem__) as group:
        group.join("A")
        group.settle(A=[0, 1, 2, 3, 4, 5])
        newer = Planned("B", DOCUMENT.__getitem__)
        newer.minimum_version = newer.maximum_version = 5
        group.join("B", newer)
        wait_for("3 each", lambda: [len(some) for some in group.owned().values()] == [3, 3], LIMIT_MS)
        assert newer.computed == 0


def test_assignors_of_quorate_need_no_adapter(cluster: EmbeddedCluster) -> None:
    for assignor in (RackAwareUniformAssignor(), LagAwareAssignor()):
        with ExitStack() as stack:
            some = [
                stack.enter_context(
                    KafkaConsumer(
                        TOPIC,
                        group_id=assignor.name,
                        group_protocol="consumer",
                        client_assignors=[assignor],
                        **cluster.client_config,
                    )
                )
                for _ in range(2)
            ]

            def shared(some: list[Any] = some) -> bool:
                for one in some:
                    one.poll(timeout_ms=20)
                return [len(one.assignment()) for one in some] == [3, 3]

            wait_for("3 each", shared, LIMIT_MS)


def test_brokers_without_client_side_assignors(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedCluster(properties=CONFIGS) as cluster:
        cluster.create_topic(TOPIC, partitions=6)
        assignor = Planned("A", DOCUMENT.__getitem__)
        options = {"group_id": "g", "group_protocol": "consumer", "client_assignors": [assignor]}
        with pytest.raises(UnsupportedVersionError, match=r"group\.consumer\.client\.assignors\.enable"):
            KafkaConsumer(TOPIC, **options, **cluster.client_config)
        with KafkaConsumer(TOPIC, **options, client_assignor_fallback="server", **cluster.client_config) as one:
            wait_for("all", lambda: (one.poll(timeout_ms=20), len(one.assignment()) == 6)[1], LIMIT_MS)
        assert "do not support client-side assignors" in caplog.text
        assert assignor.computed == 0


def test_two_assignors_of_one_name_are_rejected() -> None:
    with pytest.raises(InputError, match="planned"):
        OfferedAssignors([Planned("A", DOCUMENT.__getitem__), Planned("B", DOCUMENT.__getitem__)])
