"""Features of quorate's coordinators that Kafka does not have, over sockets of embedded brokers.

They are client-side assignors (KIP-848), and the metadata hash as in the text of KIP-1101.
"""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from quorate.assignors import Assignment, Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.prepared import install_request
from quorate.cluster import TEST_PROPERTIES, EmbeddedCluster
from quorate.cluster.waiting import wait_for
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupInstallAssignmentRequest,
    ConsumerGroupPrepareAssignmentRequest,
    api_of,
)
from quorate.codecs.api.broker import ApiVersionsRequest
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import AnnouncedAssignors, ClientAssignor, ComputeAssignment
from quorate.codecs.tags import read_tags, written_tags
from quorate.coordinator import HashAlgorithm, group_hash, topic_hash
from tests.cluster.helpers.wire import Wire
from tests.integration.conftest import QUICK
from tests.integration.groups import Member, all_of, group_state, settled, wait_for_epoch
from tests.integration.limits import LIMIT_MS

pytestmark = [pytest.mark.without_containers, pytest.mark.scenario("beyond Kafka")]

CONFIGS = {**TEST_PROPERTIES, **QUICK}
GROUP, TOPIC = "billing", "orders"


class Weighted(Assignor):
    """An assignor by weights, which members send in its metadata; coordinators lack this data."""

    name = "weighted"

    def assign_group(self, group: GroupSpec) -> Assignment:
        wants = [int(member.user_data or b"0") for member in group.members.values()]
        ends = np.minimum(np.cumsum([0, *wants]), 6)
        return Assignment(group.topology, group.member_ids, ends, np.arange(int(ends[-1])))


class Assigning:
    """A member that runs `Weighted` on request, with its own connection to the coordinator."""

    def __init__(self, cluster: EmbeddedCluster, member_id: str, wants: int) -> None:
        self.cluster, self.member_id, self.wants = cluster, member_id, wants
        self.epoch = 0
        self.owned: tuple[TopicPartitions, ...] = ()
        self.computed = 0

    def beat(self) -> None:
        """One heartbeat, and the assignment of the group if this member is to make it."""
        joins: dict[str, Any] = {
            "rebalance_timeout_ms": 60_000,
            "subscribed_topic_names": (TOPIC,),
            "unknown_tags": written_tags(
                AnnouncedAssignors(client_assignors=(ClientAssignor(name="weighted", metadata=b"%d" % self.wants),))
            ),
        }
        me = {"group_id": GROUP, "member_id": self.member_id, "member_epoch": self.epoch}
        request = ConsumerGroupHeartbeatRequest(**me, topic_partitions=self.owned, **({} if self.epoch else joins))
        response = self._request(request, 1)
        if response.error_code in (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID):
            self.epoch, self.owned = 0, ()
        if response.error_code:
            return
        self.epoch = me["member_epoch"] = response.member_epoch
        if response.assignment is not None:
            self.owned = tuple(
                TopicPartitions(topic_id=topic_partition.topic_id, partitions=topic_partition.partitions)
                for topic_partition in response.assignment.topic_partitions
            )
        if read_tags(ComputeAssignment, response.unknown_tags).should_compute_assignment:
            prepared = self._request(ConsumerGroupPrepareAssignmentRequest(**me))
            if not prepared.error_code:
                assert prepared.assignor_name == "weighted"
                self.computed += not self._request(install_request(prepared, Weighted(), **me)).error_code

    def count(self) -> int:
        return sum(len(one.partitions) for one in self.owned)

    def _request(self, request: Any, version: int = 0) -> Any:
        at = self.cluster.coordinator_of(GROUP)
        (port,) = (int(broker.address.rpartition(":")[2]) for broker in self.cluster.brokers if broker.id == at)
        with Wire(port) as wire:
            return wire.request(request, version)


def share(members: list[Assigning], *counts: int) -> None:
    """Heartbeats of all until they have so many partitions."""

    def reached() -> bool:
        for member in members:
            member.beat()
        return [member.count() for member in members] == list(counts)

    wait_for(f"members have {counts} partitions", reached, LIMIT_MS)


def test_a_member_assigns_for_its_group_over_sockets_also_after_the_coordinator_moved() -> None:
    settings = {**CONFIGS, "group.consumer.client.assignors.enable": "true"}
    with EmbeddedCluster(racks=["a", "b", "c"], properties=settings) as cluster:
        cluster.create_topic(TOPIC, partitions=6, replicas=3)
        with Wire(int(cluster.brokers[0].address.rpartition(":")[2])) as wire:
            response = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
        keys = {api_key.api_key for api_key in response.api_keys}
        apis = (ConsumerGroupPrepareAssignmentRequest, ConsumerGroupInstallAssignmentRequest)
        assert keys >= {api_of(one).key for one in apis}

        members = [Assigning(cluster, "a", 5), Assigning(cluster, "b", 1)]
        share(members, 5, 1)
        assert sum(member.computed for member in members) >= 1

        cluster.stop_broker(cluster.coordinator_of(GROUP))
        before = sum(member.computed for member in members)
        members.append(Assigning(cluster, "c", 4))
        share(members, 5, 1, 0)
        assert sum(member.computed for member in members) > before


def test_without_the_config_no_broker_takes_assignments_of_members() -> None:
    with EmbeddedCluster(properties=CONFIGS) as cluster:
        with Wire(int(cluster.brokers[0].address.rpartition(":")[2])) as wire:
            response = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)
        assert not {api_of(ConsumerGroupPrepareAssignmentRequest).key} & {
            api_key.api_key for api_key in response.api_keys
        }


@pytest.fixture
def murmur() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(racks=["a", "b", "c"], properties={**CONFIGS, "hash.algorithm": "murmur3"}) as cluster:
        cluster.create_topic(TOPIC, partitions=6, replicas=2)
        yield cluster


def murmur3(cluster: EmbeddedCluster) -> int:
    """Compute the hash from the cluster's metadata."""
    form = HashAlgorithm.MURMUR3
    hashes = {
        topic.name: topic_hash(topic.id, topic.name, topic.racks, form)
        for topic in cluster.topology(TOPIC).topics
        if topic.id is not None
    }
    return group_hash(hashes, form)


def test_a_coordinator_with_the_hash_of_the_kips_text_reassigns_when_the_hash_changes(murmur: EmbeddedCluster) -> None:
    with ExitStack() as stack:
        members = [stack.enter_context(Member(murmur, GROUP, [TOPIC], name=f"m{number}")) for number in range(2)]
        settled(members, all_of(TOPIC, 6))
        before = group_state(murmur, GROUP)
        assert before.metadata_hash == murmur3(murmur)

        murmur.add_partitions(TOPIC, 8)
        settled(members, all_of(TOPIC, 8))
        after = group_state(murmur, GROUP)
        assert after.metadata_hash == murmur3(murmur) != before.metadata_hash
        assert after.epoch > before.epoch

        # Another coordinator knows the hash that it finds: nothing has changed, and nothing is
        # reassigned.
        coordinator = murmur.coordinator_of(GROUP)
        broker = next(one for one in murmur.brokers if one.id == coordinator)
        murmur.restart_broker(coordinator, rack=broker.rack)
        settled(members, all_of(TOPIC, 8))
        murmur.restart_broker(coordinator, rack="elsewhere")
        moved = wait_for_epoch(
            murmur, GROUP, lambda state: state.metadata_hash == murmur3(murmur), "the hash has the new rack"
        )
        assert [one for epoch, one in moved.epochs if epoch > after.epoch] == [moved.metadata_hash]
