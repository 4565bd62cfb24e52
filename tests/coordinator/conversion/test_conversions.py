"""Scenarios of online migration (KIP-848) on Kafka's coordinator and ours."""

import base64
from typing import Any

import pytest

from quorate.codecs import decode_record
from quorate.codecs.consumer_protocol import decode_assignment
from tests.coordinator.classic_scene import Scene
from tests.coordinator.mixed_scripts import assignment, subscription
from tests.coordinator.scripts import Json
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

NONE, UNKNOWN_SERVER, NOT_COORDINATOR, ILLEGAL_GENERATION, INCONSISTENT, UNKNOWN = 0, -1, 16, 22, 23, 25
REBALANCING, NO_GROUP, MEMBER_ID_REQUIRED, FULL, FENCED = 27, 69, 79, 81, 82
POLICY = "group.consumer.migration.policy"


GIVEN = b"\0\3" + b"\0\0\0\2" + b"\0\2t0" + b"\0\0\0\1" + b"\0\0\0\1" + b"\0\1t" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
"""An assignment of two topics, of version 3."""
DAMAGED = [
    *(GIVEN[:end] for end in range(1, len(GIVEN))),
    GIVEN[:2] + b"\xff\xff\xff\xff" + GIVEN[6:],  # null in a field that is not nullable
    GIVEN[:6] + b"\xff\xff" + GIVEN[8:],
    GIVEN[:10] + b"\xff\xff\xff\xff" + GIVEN[14:],
    GIVEN[:2] + b"\0\0\0\x63" + GIVEN[6:],  # more topics than bytes
    GIVEN[:-4] + b"\0\0\0\1",
    b"\xff\xff" + GIVEN[2:],
]
ANNOUNCED = b"\0\3\0\0\0\1\0\2t0\xff\xff\xff\xff\0\0\0\1\0\2t0\0\0\0\1\0\0\0\1\0\0\0\7\0\1a"
"""A subscription of version 3 with an owned partition, a generation and a rack."""


def offers(*topics: str, **owned: Any) -> list[Json]:
    return [{"name": "range", "metadata": subscription(*(topics or ("t0",)), **owned)}]


def names(reply: Json) -> list[str]:
    """Return the types of a response's records; tombstones have a minus."""
    made = [decode_record(bytes.fromhex(record["key"]), _bytes(record["value"])) for record in reply["records"]]
    return [("-" if one.value is None else "") + one.name for one in made]  # type: ignore[union-attr]


def _bytes(hexadecimal: str | None) -> bytes | None:
    return None if hexadecimal is None else bytes.fromhex(hexadecimal)


class Migration(Scene):
    """A group with one topic of four partitions, t0."""

    def __init__(self, oracle: Oracle, **config: Any) -> None:
        super().__init__(oracle, **{"group.consumer.assignment.interval.ms": 0, **config})
        self.op("image", topics=[{"name": "t0", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": 4}])

    def classic(self, *, given: str | None = None, **more: Any) -> str:
        """Create a stable classic group of one member, which owns all, and return the member id."""
        more = {"protocols": offers(), **more}
        if more.get("instance"):
            line = self.join(**more)
            member_id: str = self.joined(line)["memberId"]
        else:
            member_id = self.join(**more)["response"]["memberId"]
            self.join(member_id, **more)
        self.sync(member_id, 1, **{member_id: assignment({"t0": [0, 1, 2, 3]}) if given is None else given})
        return member_id

    def pair(self, *, first: str = "", second: str = "", protocols: list[Json] | None = None) -> tuple[str, str]:
        """Create a stable classic group of two members at generation 2, and return the member ids.

        `protocols`: those of the first member.
        """
        leader: str = self.join(protocols=protocols or offers())["response"]["memberId"]
        self.join(leader, protocols=protocols or offers())
        other: str = self.join(protocols=offers())["response"]["memberId"]
        self.join(other, protocols=offers())
        self.join(leader, protocols=protocols or offers())
        self.sync(leader, 2, **{leader: first, other: second})
        self.sync(other, 2)
        return leader, other

    def beat(self, member_id: str, epoch: int, **more: Any) -> Json:
        """ConsumerGroupHeartbeat."""
        joining = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["t0"], "topicPartitions": []}
        return self.request(
            "ConsumerGroupHeartbeat",
            1,
            **{"memberId": member_id, "memberEpoch": epoch, **(joining if epoch == 0 else {}), **more},
        )

    def synced(self, member_id: str, generation: int) -> dict[str, list[int]]:
        """Return the assignment in a SyncGroup response."""
        body = {"protocolType": "consumer", "protocolName": "range", "assignments": []}
        response = self.request("SyncGroup", 5, memberId=member_id, generationId=generation, **body)["response"]
        assert response["errorCode"] == NONE
        found: Any = decode_assignment(base64.b64decode(response["assignment"])).message
        return {
            assigned_partition.topic: list(assigned_partition.partitions)
            for assigned_partition in found.assigned_partitions
        }

    def kind(self) -> str:
        """Return the kind of the group."""
        listed = self.duel.op("request", api="ListGroups", version=5, body={})["response"]["groups"]
        return str(listed[0]["groupType"])

    def leave(self, *members: Json) -> Json:
        """LeaveGroup."""
        return self.request("LeaveGroup", 5, members=list(members))


def test_a_streams_member_with_the_ids_of_an_earlier_consumer_expires(oracle: Oracle) -> None:
    scene = Migration(oracle)
    scene.beat("m", 0, instanceId="i")
    scene.join("m", instance="i", protocols=offers())  # the session timer of the consumer group stays
    scene.leave({"memberId": "m", "groupInstanceId": "i"})
    subtopology = {"subtopologyId": "0", "sourceTopics": ["t0"]}
    tasks: Json = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}
    joins = {"memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 5000, "processId": "p", **tasks}
    topology = {"epoch": 0, "subtopologies": [subtopology]}
    assert scene.request("StreamsGroupHeartbeat", 1, **joins, topology=topology)["response"]["errorCode"] == NONE
    assert "-StreamsGroupMemberMetadata" in names(scene.advance(45_000))


class TestUpgrade:
    def test_upgraded_group_keeps_its_members_and_their_partitions(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.classic()
        reply = scene.beat("new", 0)
        assert names(reply)[:6] == [
            "-GroupMetadata",
            "ConsumerGroupMemberMetadata",
            "ConsumerGroupMetadata",
            "ConsumerGroupTargetAssignmentMember",
            "ConsumerGroupTargetAssignmentMetadata",
            "ConsumerGroupCurrentMemberAssignment",
        ]
        assert reply["response"]["memberEpoch"] == 2
        assert reply["response"]["assignment"]["topicPartitions"] == []
        assert scene.kind() == "consumer"

    def test_partitions_move_when_the_classic_member_revokes_them(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        member = scene.classic()
        scene.beat("new", 0)
        assert scene.heartbeat(member, 1) == REBALANCING
        reported = scene.join(member, protocols=offers(owned={"t0": [0, 1, 2, 3]}))["response"]
        assert (reported["generationId"], reported["leader"], reported["members"]) == (1, "", [])
        assert scene.synced(member, 1) == {"t0": [0, 1]}
        assert scene.heartbeat(member, 1) == REBALANCING
        reported = scene.join(member, protocols=offers(owned={"t0": [0, 1]}))["response"]
        assert reported["generationId"] == 2
        assert scene.synced(member, 2) == {"t0": [0, 1]}
        assert scene.heartbeat(member, 2) == NONE
        free = scene.beat("new", 2, topicPartitions=[])["response"]["assignment"]["topicPartitions"]
        assert [one["partitions"] for one in free] == [[2, 3]]

    def test_member_with_a_pending_join_must_rejoin(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        member = scene.classic()
        other = scene.join(protocols=offers())["response"]["memberId"]
        waiting = scene.join(other, protocols=offers())
        scene.beat("new", 0)
        assert scene.responses[waiting["id"]]["errorCode"] == REBALANCING
        assert scene.heartbeat(member, 1) == REBALANCING

    def test_replacing_a_static_classic_member_leaves_own_partitions_unassigned(self, oracle: Oracle) -> None:
        """Kafka's map of owners still contains the member's previous partitions.

        Found by seed 9122928 of bench/coordinator_differential.py.
        """
        scene = Migration(oracle)
        member = scene.classic(instance="i0", given=assignment({"t0": [0, 1, 2, 3]}))
        scene.beat("new", 0, instanceId="i1")
        scene.join(member, instance="i0", protocols=offers(owned={"t0": [0, 1]}))
        scene.duel.op("image", topics=[{"name": "t0", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": 5}])
        (synced,) = scene.beat("new", 0, instanceId="i0")["response"]["assignment"]["topicPartitions"]
        assert sorted(synced["partitions"]) == [0, 1, 4]

    @pytest.mark.parametrize(
        ("given", "config", "code"),
        [
            (None, {POLICY: "downgrade"}, NO_GROUP),
            (None, {POLICY: "disabled"}, NO_GROUP),
            (None, {POLICY: "upgrade"}, NONE),
            (None, {"group.consumer.max.size": 1}, FULL),
            (assignment({"t0": [0]}, user_data=b"x"), {}, NO_GROUP),
            (assignment({"t0": [0]}, user_data=b""), {}, NONE),
            ("AAA=", {}, NO_GROUP),
            ("", {}, NONE),
            (assignment({"gone": [0], "t0": [1, 1]}), {}, NONE),
        ],
    )
    def test_group_that_cannot_be_upgraded_stays_classic(
        self, oracle: Oracle, given: str | None, config: Json, code: int
    ) -> None:
        scene = Migration(oracle, **config)
        scene.classic(given=given)
        assert scene.beat("new", 0)["response"]["errorCode"] == code
        assert scene.kind() == ("classic" if code else "consumer")

    def test_truncated_or_damaged_assignment_is_rejected_as_by_kafka(self, oracle: Oracle) -> None:
        codes = {self.upgrade_error(oracle, given=base64.b64encode(damaged).decode()) for damaged in DAMAGED}
        assert codes == {NO_GROUP}

    def test_some_damaged_assignments_are_unknown_server_errors_in_4_3(self, oracle_4_3: Oracle) -> None:
        """KAFKA-20570."""
        codes = {self.upgrade_error(oracle_4_3, given=base64.b64encode(damaged).decode()) for damaged in DAMAGED}
        assert codes == {UNKNOWN_SERVER, NO_GROUP}

    def test_truncated_subscription_is_rejected_as_by_kafka(self, oracle: Oracle) -> None:
        # The part that JoinGroup decodes.
        whole = len(ANNOUNCED) - len(ANNOUNCED.partition(b"\xff\xff\xff\xff")[2])
        cuts = [base64.b64encode(ANNOUNCED[:end]).decode() for end in range(whole, len(ANNOUNCED))]
        codes = {self.upgrade_error(oracle, protocols=[{"name": "range", "metadata": cut}]) for cut in cuts}
        assert codes == {NO_GROUP}

    def upgrade_error(self, oracle: Oracle, **classic: Any) -> int:
        """Return the error code for upgrading a classic group of one such member."""
        scene = Migration(oracle)
        scene.classic(**classic)
        code: int = scene.beat("new", 0)["response"]["errorCode"]
        assert scene.kind() == "classic"
        return code

    def test_group_with_a_partition_assigned_twice_stays_classic(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.pair(first=assignment({"t0": [0, 1]}), second=assignment({"t0": [1, 2]}))
        assert scene.beat("new", 0)["response"]["errorCode"] == UNKNOWN_SERVER
        assert scene.kind() == "classic"

    def test_group_of_another_protocol_type_stays_classic(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.classic(protocolType="connect")
        assert scene.beat("new", 0)["response"]["errorCode"] == NO_GROUP

    def test_static_member_can_replace_itself(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        member = scene.classic(instance="i")
        reply = scene.beat("new", 0, instanceId="i")["response"]
        assert [topic_partition["partitions"] for topic_partition in reply["assignment"]["topicPartitions"]] == [
            [0, 1, 2, 3]
        ]
        assert (
            scene.request("Heartbeat", 4, memberId=member, generationId=1, groupInstanceId="i")["response"]["errorCode"]
            == FENCED
        )


class TestClassicMembers:
    def test_member_id_is_required_to_join(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.beat("new", 0)
        reported = scene.join(protocols=offers())["response"]
        assert reported["errorCode"] == MEMBER_ID_REQUIRED
        assert scene.join(reported["memberId"], protocols=offers())["response"]["errorCode"] == NONE
        assert scene.join(version=3, protocols=offers())["response"]["errorCode"] == NONE

    @pytest.mark.parametrize(
        ("more", "code"),
        [
            ({"protocolType": "connect"}, INCONSISTENT),
            ({"protocols": []}, INCONSISTENT),
            ({"protocols": [{"name": "other", "metadata": subscription("t0")}]}, INCONSISTENT),
            ({"protocols": [{"name": "range", "metadata": "AAA="}]}, INCONSISTENT),
        ],
    )
    def test_member_without_a_common_protocol_is_rejected(self, oracle: Oracle, more: Json, code: int) -> None:
        scene = Migration(oracle)
        scene.classic()
        scene.beat("new", 0)
        assert scene.join("x", **{"protocols": offers(), **more})["response"]["errorCode"] == code

    @pytest.mark.parametrize(
        ("config", "code"), [({POLICY: "disabled"}, INCONSISTENT), ({"group.consumer.max.size": 1}, FULL)]
    )
    @pytest.mark.parametrize("protocols", [offers(), []])
    def test_migration_policy_can_reject_classic_members(
        self, oracle: Oracle, config: Json, code: int, protocols: list[Json]
    ) -> None:
        scene = Migration(oracle, **config)
        scene.beat("new", 0)
        assert scene.join("x", protocols=protocols)["response"]["errorCode"] == code

    def test_member_that_does_not_sync_or_rejoin_in_time_is_fenced(self, oracle: Oracle) -> None:
        scene = Migration(oracle, **{POLICY: "upgrade"})
        scene.beat("new", 0)
        member = scene.join("x", protocols=offers())["response"]["memberId"]
        for _ in range(3):
            scene.heartbeat(member, 2)
            scene.advance(5_000)
        scene.duel.op("timers")
        scene.heartbeat(member, 2)
        scene.advance(5_000)
        assert scene.heartbeat(member, 2) == UNKNOWN

    def test_member_with_an_undecodable_preferred_protocol_gets_no_sync_response(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        unread, other = scene.pair(protocols=[{"name": "x", "metadata": ""}, *offers()])
        scene.beat("new", 0, subscribedTopicNames=[], subscribedTopicRegex="nothing")
        assert scene.sync(other, 2)["response"]["errorCode"] == NONE
        assert scene.sync(unread, 2)["response"] is None
        scene.timers()

    def test_members_of_the_other_protocol_have_no_generation(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.beat("new", 0)
        scene.join("x", protocols=offers())
        assert scene.heartbeat("new", 2) == UNKNOWN
        assert scene.heartbeat("x", 9) == ILLEGAL_GENERATION
        assert scene.sync("x", 9)["response"]["errorCode"] == ILLEGAL_GENERATION
        assert scene.sync("nobody", 2)["response"]["errorCode"] == UNKNOWN

    def test_subscriptions_and_racks_are_those_of_the_embedded_protocol(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.op(
            "image",
            topics=[
                {"name": name, "id": f"AAAAAAAAAAEAAAAAAAAA{letter}Q", "partitions": 4}
                for name, letter in (("t0", "A"), ("t1", "B"))
            ],
        )
        scene.beat("new", 0)
        scene.join("x", protocols=offers("t1", "t0", "t1", rack="a"))
        described = scene.duel.op("request", api="ConsumerGroupDescribe", version=1, body={"groupIds": ["g"]})
        member = next(one for one in described["response"]["groups"][0]["members"] if one["memberId"] == "x")
        assert (member["rackId"], member["subscribedTopicNames"]) == ("a", ["t0", "t1"])


class TestDowngrade:
    def mixed(self, oracle: Oracle, **config: Any) -> tuple[Migration, str]:
        """Create a group of a classic member and a static consumer, each with two partitions."""
        scene = Migration(oracle, **config)
        scene.beat("new", 0, instanceId="i")
        scene.join("x", protocols=offers())
        scene.beat(
            "new", 2, instanceId="i", topicPartitions=[{"topicId": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": [0, 1]}]
        )
        scene.join("x", protocols=offers())
        return scene, "x"

    def test_leave_of_the_last_consumer_protocol_member_downgrades(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        reply = scene.beat("new", -1, instanceId="i")
        assert names(reply) == [
            *["-ConsumerGroupCurrentMemberAssignment"] * 2,
            *["-ConsumerGroupTargetAssignmentMember"] * 2,
            "-ConsumerGroupTargetAssignmentMetadata",
            *["-ConsumerGroupMemberMetadata"] * 2,
            "-ConsumerGroupPartitionMetadata",
            "-ConsumerGroupMetadata",
            "GroupMetadata",
        ]
        assert (scene.kind(), scene.state()) == ("classic", "PreparingRebalance")
        assert scene.heartbeat(member, 3) == REBALANCING
        reported = scene.joined(scene.join(member, protocols=offers()))
        assert (reported["generationId"], reported["leader"]) == (4, member)

    def test_session_timeout_of_the_last_consumer_protocol_member_downgrades(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        scene.synced(member, 3)
        for _ in range(6):
            scene.heartbeat(member, 3)
            scene.advance(9_000)
        assert scene.kind() == "classic"

    def test_removal_of_the_last_consumer_protocol_member_by_an_admin_downgrades(self, oracle: Oracle) -> None:
        scene, _ = self.mixed(oracle)
        assert scene.leave({"memberId": "", "groupInstanceId": "i"})["response"]["members"][0]["errorCode"] == NONE
        assert scene.kind() == "classic"

    def test_last_consumer_protocol_member_rejoins_as_a_classic_member(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        reply = scene.join(instance="i", protocols=offers())
        assert reply["response"]["generationId"] == 3
        assert (scene.kind(), scene.state()) == ("classic", "Stable")
        assert scene.heartbeat(member, 3) == NONE
        assert scene.synced(reply["response"]["memberId"], 3)

    def test_rejoin_as_a_classic_member_with_other_topics_triggers_a_rebalance(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        scene.join(instance="i", protocols=offers("t1"))
        assert (scene.kind(), scene.state()) == ("classic", "PreparingRebalance")
        assert scene.heartbeat(member, 3) == REBALANCING

    @pytest.mark.parametrize("config", [{POLICY: "upgrade"}, {"group.max.size": 1}])
    @pytest.mark.parametrize("leaves", [False, True])
    def test_group_stays_if_the_policy_or_size_excludes_a_downgrade(
        self, oracle: Oracle, config: Json, leaves: bool
    ) -> None:
        scene, _ = self.mixed(oracle, **config)
        scene.join("y", protocols=offers())
        if leaves:
            scene.beat("new", -1, instanceId="i")
        else:
            scene.join(instance="i", protocols=offers())
        assert scene.kind() == "consumer"

    def test_last_consumer_protocol_member_and_a_classic_member_leave_at_once(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        scene.join("y", protocols=offers())
        reported = scene.leave({"memberId": "y"}, {"memberId": "new"}, {"memberId": "nobody"})["response"]["members"]
        assert [one["errorCode"] for one in reported] == [NONE, NONE, UNKNOWN]
        assert scene.kind() == "classic"
        assert scene.members() == [member]

    def test_several_classic_members_leave_at_once(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        scene.join("y", protocols=offers())
        reply = scene.leave(*({"memberId": one} for one in ("y", member, "y")))
        assert [one["errorCode"] for one in reply["response"]["members"]] == [NONE, NONE, NONE]
        gone = ["-ConsumerGroupCurrentMemberAssignment", "-ConsumerGroupTargetAssignmentMember"]
        assert names(reply) == [*[*gone, "-ConsumerGroupMemberMetadata"] * 2, "ConsumerGroupMetadata"]

    def test_several_members_with_regexes_leave_at_once(self, oracle: Oracle) -> None:
        """Regexes are removed in the order of Kafka's HashMap of regexes, not of the members."""
        scene, _ = self.mixed(oracle)
        members = [f"m{number}" for number in range(8)]
        for number, name in enumerate(members):
            scene.beat(name, 0, subscribedTopicNames=None, subscribedTopicRegex=f"t{number % 4}*")
        dropped = names(scene.leave(*({"memberId": name} for name in members)))[24:]
        assert dropped == ["-ConsumerGroupRegularExpression"] * 4 + ["ConsumerGroupMetadata"]

    def test_group_is_not_downgraded_when_all_members_leave_at_once(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.beat("new", 0)
        scene.beat("new", -1)
        assert scene.kind() == "consumer"

    def test_group_with_undecodable_subscriptions_is_not_downgraded(self, oracle: Oracle) -> None:
        scene = Migration(oracle)
        scene.beat("new", 0)
        scene.join("x", protocols=[*offers(), {"name": "other", "metadata": "AA=="}])
        scene.join("y", protocols=[{"name": "other", "metadata": subscription("t0")}])
        assert scene.beat("new", -1)["response"]["errorCode"] == NO_GROUP
        assert scene.kind() == "consumer"

    def test_failed_write_reverts_a_downgrade(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        scene.op("failNextAppend", error="NOT_LEADER_OR_FOLLOWER")
        assert scene.beat("new", -1, instanceId="i")["response"]["errorCode"] == NOT_COORDINATOR
        assert scene.heartbeat(member, 3) == NONE  # a classic group would be rebalancing
        scene.op("reload")
        assert scene.kind() == "consumer"

    def test_upgrade_and_downgrade_survive_a_reload(self, oracle: Oracle) -> None:
        scene, member = self.mixed(oracle)
        scene.beat("new", -1, instanceId="i")
        scene.op("reload")
        assert (scene.kind(), scene.state()) == ("classic", "Stable")
        scene.beat("new", 0)
        scene.op("reload")
        assert scene.kind() == "consumer"
        assert scene.heartbeat(member, 3) == REBALANCING
