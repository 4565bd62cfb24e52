"""Scenarios of classic groups on Kafka's coordinator and ours."""

from typing import Any

import pytest

from tests.coordinator.classic_scene import RANGE, Scene
from tests.coordinator.classic_scripts import subscription
from tests.oracle.client import Oracle

NONE, ILLEGAL_GENERATION, INCONSISTENT, INVALID_GROUP, UNKNOWN, REBALANCING, NOT_EMPTY = 0, 22, 23, 24, 25, 27, 68
MEMBER_ID_REQUIRED, MAX_SIZE, FENCED, COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR, SUBSCRIBED = 79, 81, 82, 15, 16, 86


@pytest.mark.oracle
class TestTogetherWithKafka:
    """Every response is compared. The assertions state what the scenario is about."""

    def test_one_member_joins_syncs_and_leaves(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        first = scene.join()
        member = first["response"]["memberId"]
        assert first["response"]["errorCode"] == MEMBER_ID_REQUIRED
        assert len(first["records"]) == 1  # the group is recorded before its first member
        assert scene.timers()[f"heartbeat-g-{member}"] == 10_000
        waiting = scene.join(member)
        assert scene.timers()["join-g"] == 3000
        assert scene.state() == "PreparingRebalance"
        scene.advance(3000)
        assert scene.joined(waiting)["leader"] == member
        assert scene.state() == "CompletingRebalance"
        assert scene.timers()["sync-g"] == 20_000
        synced = scene.sync(member, 1, **{member: "AQID"})
        assert synced["response"]["assignment"] == "AQID"
        assert len(synced["records"]) == 1
        assert scene.state() == "Stable"
        assert scene.heartbeat(member, 1) == NONE
        assert scene.heartbeat(member, 0) == ILLEGAL_GENERATION
        leaving = scene.request("LeaveGroup", 5, members=[{"memberId": member}])
        assert len(leaving["records"]) == 1
        assert scene.state() == "Empty"
        assert scene.heartbeat(member, 1) == UNKNOWN

    @pytest.mark.parametrize("api", ["JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup"])
    def test_empty_group_id_is_rejected(self, oracle: Oracle, api: str) -> None:
        scene = Scene(oracle)
        protocol: dict[str, Any] = {"protocolType": "consumer", "protocolName": "range"} if api == "SyncGroup" else {}
        for version in (0, 2, 3, 4, 5):
            reply = scene.request(api, min(version, 4) if api == "Heartbeat" else version, groupId="", **protocol)
            assert reply["response"]["errorCode"] == INVALID_GROUP

    @pytest.mark.parametrize("session_ms", [5999, 6000, 1_800_000, 1_800_001])
    def test_session_timeout_out_of_bounds_is_rejected(self, oracle: Oracle, session_ms: int) -> None:
        code = Scene(oracle).join("x", sessionTimeoutMs=session_ms)["response"]["errorCode"]
        assert code == (UNKNOWN if 6000 <= session_ms <= 1_800_000 else 26)

    def test_version_0_uses_the_session_timeout_as_rebalance_timeout(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        scene.join(version=0)
        assert scene.timers()["sync-g"] == 10_000

    def test_initial_rebalance_is_extended_while_members_join(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        waiting = scene.join(version=3)
        seconds = 0
        while waiting["id"] not in scene.responses:
            scene.join(version=3)
            scene.advance(1000)
            seconds += 1
        assert seconds == 20  # extended up to the rebalance timeout

    @pytest.mark.parametrize("count", [14, 30])
    def test_members_are_listed_in_the_order_of_kafkas_map(self, oracle: Oracle, count: int) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        requests = [scene.join(version=3) for _ in range(count)]
        members = [scene.wait_for(request)["memberId"] for request in requests]
        leader = scene.described()["members"][0]["memberId"]
        assert set(scene.members()) == set(members)
        scene.request(
            "LeaveGroup", 5, members=[{"memberId": leader}, {"memberId": members[0]}, {"memberId": members[1]}]
        )
        for member in scene.members():
            scene.join(member)
        assert scene.state() == "CompletingRebalance"
        response = next(reply for reply in reversed(scene.responses.values()) if reply["members"])
        scene.sync(response["leader"], response["generationId"], **dict.fromkeys(scene.members(), "AAAA"))
        assert scene.state() == "Stable"
        scene.op("reload")
        assert len(scene.members()) == len(set(members) - {leader, *members[:2]})

    def test_protocol_with_most_votes_is_selected(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        for names in (["range", "roundrobin"], ["roundrobin", "range", "sticky"], ["roundrobin", "range"]):
            scene.member(protocols=[{"name": name, "metadata": subscription("t0")} for name in names])
        scene.advance(10_000)
        assert next(iter(scene.responses.values()))["protocolName"] == "roundrobin"
        assert scene.join(protocols=[{"name": "sticky", "metadata": ""}])["response"]["errorCode"] == INCONSISTENT

    @pytest.mark.parametrize("names", [["cooperative-sticky", "range"], ["roundrobin", "range"], ["sticky", "range"]])
    def test_first_protocol_in_javas_map_wins_a_tie(self, oracle: Oracle, names: list[str]) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        for order in (names, names[::-1]):
            scene.member(protocols=[{"name": name, "metadata": subscription("t0")} for name in order])
        scene.advance(10_000)
        chosen = {reply["protocolName"] for reply in scene.responses.values()}
        assert chosen == {"sticky" if "sticky" in names else "range"}

    def test_member_that_does_not_sync_is_removed(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        silent = scene.member()
        scene.heartbeat(silent, 1)
        for _ in range(3):
            scene.advance(6000)
            scene.heartbeat(silent, 1)
        scene.advance(6000)
        assert scene.state() == "Empty"

    def test_member_that_does_not_rejoin_is_removed_unless_it_is_static(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        dynamic = scene.member()
        scene.join(instance="i", sessionTimeoutMs=60_000)
        scene.join(dynamic)
        assert scene.state() == "CompletingRebalance"
        scene.join(protocols=RANGE, version=3, sessionTimeoutMs=60_000)
        scene.advance(20_000)
        assert len(scene.members()) == 2
        assert dynamic not in scene.members()
        assert any(member.startswith("i-") for member in scene.members())

    def test_rebalance_waits_for_absent_static_members_until_their_sessions_expire(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.joined(scene.join(instance="i", sessionTimeoutMs=100_000))["memberId"]
        scene.sync(member, 1, **{member: "AAAA"})
        dynamic = scene.member()
        scene.request("LeaveGroup", 5, members=[{"memberId": dynamic}])
        for _ in range(3):
            scene.advance(20_000)
            assert scene.state() == "PreparingRebalance"
            assert scene.timers()["join-g"] == 20_000
        scene.advance(60_000)
        assert scene.state() == "Empty"

    def test_new_member_times_out_after_five_minutes(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.joined(scene.join(instance="i", sessionTimeoutMs=1_800_000, rebalanceTimeoutMs=1_000_000))[
            "memberId"
        ]
        scene.sync(member, 1, **{member: "AAAA"})
        waiting = scene.join(instance="j")
        scene.advance(299_999)
        assert waiting["id"] not in scene.responses
        scene.advance(1)
        assert scene.responses[waiting["id"]]["errorCode"] == UNKNOWN

    @pytest.mark.parametrize("version", [5, 8, 9])
    @pytest.mark.parametrize("is_leader", [True, False])
    def test_restarted_static_member_keeps_its_assignment(self, oracle: Oracle, version: int, is_leader: bool) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 1000})
        requests = [scene.join(instance="i"), scene.join(instance="j")]
        responses = [scene.wait_for(request) for request in requests]
        leader = responses[0]["leader"]
        instance = leader.partition("-")[0] if is_leader else ({"i", "j"} - {leader.partition("-")[0]}).pop()
        members = [response["memberId"] for response in responses]
        for member in members:
            scene.sync(member, 1, **(dict.fromkeys(members, "AAAA") if member == leader else {}))
        assert scene.state() == "Stable"
        joined = scene.join(instance=instance, version=version)
        assert len(joined["records"]) == 1
        assert scene.state() == "Stable"  # no rebalance
        response = joined["response"]
        assert response["generationId"] == 1
        if version == 9:
            assert response["skipAssignment"] is is_leader
            assert bool(response["members"]) is is_leader
        else:
            assert response["leader"] == leader  # its previous id, if it was the leader
        assert scene.sync(response["memberId"], 1)["response"]["assignment"] == "AAAA"
        old = next(member for member in members if member.startswith(f"{instance}-"))
        fenced = scene.request("Heartbeat", 4, memberId=old, groupInstanceId=instance, generationId=1)
        assert fenced["response"]["errorCode"] == FENCED

    def test_restarted_static_member_with_another_protocol_triggers_a_rebalance(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        both = [*RANGE, {"name": "roundrobin", "metadata": subscription("t0")}]
        member = scene.joined(scene.join(instance="i", protocols=both))["memberId"]
        scene.sync(member, 1, **{member: "AAAA"})
        assert scene.joined(scene.join(instance="i", protocols=both[::-1]))["generationId"] == 2

    def test_pending_duplicate_of_a_static_member_is_fenced(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        first = scene.join(instance="i")
        second = scene.join(instance="i")
        assert scene.responses[first["id"]]["errorCode"] == FENCED
        scene.advance(10_000)
        assert scene.responses[second["id"]]["errorCode"] == NONE

    def test_static_members_leave_by_instance_id(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        scene.joined(scene.join(instance="i"))
        leaving = scene.request(
            "LeaveGroup", 3, members=[{"memberId": "", "groupInstanceId": name} for name in ("i", "i", "j")]
        )
        assert [member["errorCode"] for member in leaving["response"]["members"]] == [NONE, UNKNOWN, UNKNOWN]
        assert scene.state() == "Empty"

    def test_full_group_rejects_new_members(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.max.size": 1})
        member = scene.member()
        scene.sync(member, 1, **{member: "AAAA"})
        assert scene.join()["response"]["errorCode"] == MAX_SIZE

    def test_loaded_group_larger_than_the_limit_rebalances(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 1000})
        requests = [scene.join(version=3) for _ in range(3)]
        leader = scene.wait_for(requests[0])["leader"]
        records = scene.sync(leader, 1, **{leader: "AAAA"})["records"]
        scene.op("config", **{"group.max.size": 2})
        scene.op("load", records=records)
        assert scene.state() == "PreparingRebalance"
        *_, last = [scene.join(member)["response"] for member in scene.members()]
        assert last is not None
        assert last["errorCode"] == MAX_SIZE

    def test_sessions_restart_when_the_log_is_loaded(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.member()
        scene.sync(member, 1, **{member: "AAAA"})
        scene.advance(9000)
        scene.op("reload")
        assert scene.timers()[f"heartbeat-g-{member}"] == 10_000
        scene.advance(10_000)
        assert scene.state() == "Empty"

    def test_offset_commits_extend_a_members_session(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.member()
        scene.sync(member, 1, **{member: "AAAA"})
        for _ in range(4):
            scene.advance(9000)
            scene.request(
                "OffsetCommit",
                9,
                memberId=member,
                generationIdOrMemberEpoch=1,
                topics=[{"name": "t0", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}],
            )
        assert scene.state() == "Stable"

    def test_offset_commits_are_rejected_while_a_rebalance_completes(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.member()
        topics = [{"name": "t0", "partitions": [{"partitionIndex": 0, "committedOffset": 1}]}]
        rejected = scene.request("OffsetCommit", 9, memberId=member, generationIdOrMemberEpoch=1, topics=topics)
        assert rejected["response"]["topics"][0]["partitions"][0]["errorCode"] == REBALANCING

    def test_undecodable_subscriptions_count_as_all_topics(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.member(protocols=[{"name": "range", "metadata": "AA=="}])
        scene.sync(member, 1, **{member: "AAAA"})
        scene.op("timers")
        reply = scene.request("OffsetDelete", 0, topics=[{"name": "other", "partitions": [{"partitionIndex": 0}]}])
        assert reply["response"]["topics"][0]["partitions"][0]["errorCode"] == SUBSCRIBED

    @pytest.mark.parametrize("error", ["NOT_ENOUGH_REPLICAS", "NOT_LEADER_OR_FOLLOWER", "MESSAGE_TOO_LARGE"])
    def test_failed_write_of_an_assignment_triggers_a_rebalance(self, oracle: Oracle, error: str) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 1000})
        requests = [scene.join(version=3) for _ in range(2)]
        responses = [scene.wait_for(request) for request in requests]
        leader = responses[0]["leader"]
        follower = next(response["memberId"] for response in responses if response["memberId"] != leader)
        waiting = scene.sync(follower, 1)
        scene.op("failNextAppend", error=error)
        failed = scene.sync(leader, 1, **{leader: "AAAA", follower: "AAAA"})
        assert failed["response"]["errorCode"] == scene.responses[waiting["id"]]["errorCode"] != NONE
        assert scene.state() == "PreparingRebalance"

    def test_failed_write_reverts_the_restart_of_a_static_member(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.joined(scene.join(instance="i"))["memberId"]
        scene.sync(member, 1, **{member: "AAAA"})
        scene.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
        assert scene.join(instance="i")["response"]["errorCode"] == COORDINATOR_NOT_AVAILABLE
        assert scene.members() == [member]
        assert scene.heartbeat(member, 1) == NONE

    def test_group_that_cannot_be_written_does_not_exist(self, oracle: Oracle) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        scene.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
        assert scene.join(version=1)["response"]["errorCode"] == COORDINATOR_NOT_AVAILABLE
        assert scene.described()["groupState"] == "Dead"
        # The timer of its rebalance remains. When it fires, a new group has the same id, but no
        # members: it begins no generation.
        assert scene.join()["response"]["errorCode"] == MEMBER_ID_REQUIRED
        scene.advance(3000)
        assert scene.state() == "Empty"

    def test_group_can_be_deleted_after_its_last_member_left(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        member = scene.member()
        deleting = {"api": "DeleteGroups", "version": 2, "body": {"groupsNames": ["g"]}}
        assert scene.op("request", **deleting)["response"]["results"][0]["errorCode"] == NOT_EMPTY
        scene.request("LeaveGroup", 5, members=[{"memberId": member}])
        assert scene.op("request", **deleting)["response"]["results"][0]["errorCode"] == NONE
        assert scene.state() == "Dead"

    @pytest.mark.parametrize("join", [{"version": 3}, {"version": 9}, {"instance": "i"}])
    def test_classic_group_replaces_an_empty_consumer_group(self, oracle: Oracle, join: dict[str, Any]) -> None:
        scene = Scene(oracle)
        self.empty_consumer_group(scene)
        joined = scene.join(**join)
        assert len(joined["records"]) == 4  # tombstones, then the new group
        assert scene.state() in ("CompletingRebalance", "Empty")
        scene.op("reload")
        assert scene.state() == "Empty"

    def test_empty_consumer_group_remains_if_the_new_classic_group_cannot_be_written(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        self.empty_consumer_group(scene)
        scene.op("failNextAppend", error="NOT_ENOUGH_REPLICAS")
        assert scene.join(version=3)["response"]["errorCode"] == COORDINATOR_NOT_AVAILABLE
        scene.op("reload")  # before this reload, Kafka lists the group twice
        listed = scene.op("request", api="ListGroups", version=5, body={})["response"]["groups"]
        assert [group["groupType"] for group in listed] == ["consumer"]

    def test_unknown_member_removes_an_empty_consumer_group_from_memory(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        self.empty_consumer_group(scene)
        assert scene.join("me")["response"]["errorCode"] == UNKNOWN
        assert len(scene.join()["records"]) == 1  # no tombstones, as there is no group

    @pytest.mark.parametrize("removal", ["join", "delete", "cleanup"])
    def test_empty_streams_group_can_be_replaced_and_deleted(self, oracle: Oracle, removal: str) -> None:
        scene = Scene(oracle)
        image = {"topics": [{"name": "t", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": 2}]}
        oracle.call("image", **image)
        topology = {"epoch": 1, "subtopologies": [{"subtopologyId": "0", "sourceTopics": ["t"]}]}
        tasks: dict[str, Any] = {"activeTasks": [], "standbyTasks": [], "warmupTasks": []}
        member = {"groupId": "g", "memberId": "m", "endpointInformationEpoch": -1, "rebalanceTimeoutMs": 60_000}
        joining = {**member, "memberEpoch": 0, "processId": "p", "topology": topology, **tasks}
        for body in (joining, {"groupId": "g", "memberId": "m", "memberEpoch": -1}):
            oracle.call("request", api="StreamsGroupHeartbeat", version=0, body=body)
        records = oracle.call("log")["records"]
        scene.op("config")
        scene.op("load", records=[{"key": record["key"], "value": record["value"]} for record in records])
        if removal == "join":
            reply = scene.join()
        elif removal == "delete":
            reply = scene.op("request", api="DeleteGroups", version=2, body={"groupsNames": ["g"]})
        else:
            reply = scene.op("cleanup")
        types = [int(record["key"][:4], 16) for record in reply["records"]]
        assert types == [20, 17, 23, *([2] if removal == "join" else [])]
        scene.op("reload")
        assert scene.state() == ("Empty" if removal == "join" else "Dead")

    @pytest.mark.parametrize("member_left", [False, True])
    def test_empty_share_group_is_not_replaced_by_a_classic_group(self, oracle: Oracle, member_left: bool) -> None:
        scene = Scene(oracle)
        for epoch in (0, -1)[: 1 + member_left]:
            body = {"groupId": "g", "memberId": "m", "memberEpoch": epoch, "subscribedTopicNames": ["t"]}
            oracle.call("request", api="ShareGroupHeartbeat", version=1, body=body)
        records = oracle.call("log")["records"]
        scene.op("config")
        scene.op("load", records=[{"key": record["key"], "value": record["value"]} for record in records])
        assert scene.join()["response"]["errorCode"] == INCONSISTENT
        assert scene.sync("m", 1)["response"]["errorCode"] == UNKNOWN
        assert scene.heartbeat("m", 1) == UNKNOWN
        assert scene.request("LeaveGroup", 1, memberId="m")["response"]["errorCode"] == UNKNOWN
        response = scene.request("LeaveGroup", 5, members=[{"memberId": "m"}])["response"]
        assert response["members"][0]["errorCode"] == UNKNOWN

    def test_member_that_lists_a_protocol_twice_gets_no_response(self, oracle: Oracle) -> None:
        scene = Scene(oracle)
        waiting = scene.join(version=3, protocols=RANGE * 2)
        scene.advance(60_000)
        assert waiting["id"] not in scene.responses
        assert scene.state() == "PreparingRebalance"
        assert scene.join(version=3)["response"]["errorCode"] == INCONSISTENT
        scene.advance(300_000)
        assert scene.state() == "Empty"

    def test_a_protocol_that_a_member_lists_twice_may_be_selected_although_another_lacks_it(
        self, oracle: Oracle
    ) -> None:
        scene = Scene(oracle, **{"group.initial.rebalance.delay.ms": 3000})
        other = [{"name": "roundrobin", "metadata": subscription("t0")}]
        waiting = [
            scene.join(version=3, protocols=[*RANGE, *RANGE, *other]),
            scene.join(version=3, protocols=other),
        ]
        scene.advance(60_000)
        assert not [one for one in waiting if one["id"] in scene.responses]
        assert scene.state() == "PreparingRebalance"

    def empty_consumer_group(self, scene: Scene) -> None:
        """Create a consumer group with a member, which leaves."""
        body = {"rebalanceTimeoutMs": 60_000, "subscribedTopicNames": ["t0"], "topicPartitions": []}
        scene.request("ConsumerGroupHeartbeat", 1, memberId="m", memberEpoch=0, **body)
        scene.request("ConsumerGroupHeartbeat", 1, memberId="m", memberEpoch=-1)
