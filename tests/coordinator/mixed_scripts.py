"""Random histories of groups with members of both protocols (KIP-848, "Migration").

Most of the time members behave like clients: they send the generation, epoch and partitions of the
last response, leaders assign, and members rejoin when a response requires it. Writes fail only at
the end.

The module is long because any step can follow any other: they share the state of the members.
"""

import base64
from dataclasses import dataclass, field
from random import Random
from typing import Any

from quorate.codecs import Uuid
from quorate.codecs.consumer_protocol import decode_assignment, encode_protocol
from quorate.codecs.errors import DecodeError
from quorate.codecs.messages.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ProtocolTopicPartition,
)
from tests.coordinator.classic_scripts import NamedDuel
from tests.coordinator.scripts import Json

TOPICS = ["t0", "t1", "orders.eu"]


def subscription(
    *topics: str, owned: dict[str, list[int]] | None = None, rack: str | None = None, version: int = 3
) -> str:
    """Return a member's subscription in base64."""
    return _packed(
        ConsumerProtocolSubscription(topics=topics, owned_partitions=_listed(owned or {}), rack_id=rack), version
    )


def assignment(partitions: dict[str, list[int]], *, user_data: bytes | None = None, version: int = 3) -> str:
    """Return a leader's assignment for a member in base64."""
    return _packed(ConsumerProtocolAssignment(assigned_partitions=_listed(partitions), user_data=user_data), version)


def _listed(partitions: dict[str, list[int]]) -> tuple[ProtocolTopicPartition, ...]:
    return tuple(ProtocolTopicPartition(topic=topic, partitions=tuple(some)) for topic, some in partitions.items())


def _packed(message: ConsumerProtocolSubscription | ConsumerProtocolAssignment, version: int) -> str:
    return base64.b64encode(encode_protocol(message, version)).decode()


@dataclass
class Member:
    """A member's own view of its membership.

    `owned`: by topic name for a classic member, by topic id for others.
    """

    group: str
    member_id: str
    instance_id: str | None
    classic: bool
    epoch: int = -1
    owned: dict[str, list[int]] = field(default_factory=dict)
    topics: list[str] = field(default_factory=list)
    assignors: list[str] = field(default_factory=list)
    protocol: str = "range"
    version: int = 3
    rack: str | None = None
    joined_members: list[Json] = field(default_factory=list)
    """The members in the JoinGroup response to a leader."""


class MixedHistory:
    """A random history of one or two groups.

    `group`: that of the current step; `anything`: `AnyRequests`, to mix arbitrary requests in.
    """

    def __init__(
        self,
        rng: Random,
        duel: NamedDuel,
        *,
        statics: bool = True,
        well_behaved: bool = False,
        anything: Any = None,
    ) -> None:
        self.rng = rng
        self.duel = duel
        self.statics = statics
        self.well_behaved = well_behaved
        self.groups = ["g", "h"] if rng.random() < 0.3 else ["g"]
        self.group = "g"
        self.members_of: dict[str, dict[str, Member]] = {group: {} for group in self.groups}
        self.senders: dict[int, Member] = {}
        self.named = 0
        self.partitions: dict[str, int] = {}
        self.topic_ids: dict[str, int] = {}
        self.named_topics = 0
        # Passed, as any_requests.py imports this module.
        self.anything = anything and anything(rng, duel, groups=self.groups, first_name=1000, op=self.op)

    def run(self, steps: int) -> None:
        rng = self.rng
        config: Json = {
            "group.initial.rebalance.delay.ms": rng.choice([0, 0, 1000]),
            "group.consumer.assignment.interval.ms": rng.choice([0, 0, 0, 1000]),
        }
        if rng.random() < 0.25:
            config["group.consumer.migration.policy"] = rng.choice(["upgrade", "downgrade", "disabled"])
        if rng.random() < 0.1:
            config["group.consumer.max.size"] = rng.choice([1, 2, 3])
        if rng.random() < 0.1:
            config["group.max.size"] = rng.choice([1, 2, 3])
        self.op("config", **config)
        self.change_topics(all_of_them=True)
        weights = [
            (self.join_classic, 10),
            (self.join_consumer, 7),
            (self.follow, 45),
            (self.settle, 6),
            (self.leave, 7),
            (self.switch, 5 if self.statics else 0),
            (self.misbehave, 0 if self.well_behaved else 4),
            (self.advance, 6),
            (self.change_topics, 2),
            (self.reload, 1),
            (self.look, 2),
            (self.commit, 2),
            (self.any_request, 4 if self.anything else 0),
        ]
        for _ in range(steps):
            step, *_ = rng.choices(*zip(*weights, strict=True))
            self.group = rng.choice(self.groups)
            step()
            if rng.random() < 0.5:
                self.op("timers")
        self.look()
        self.fail()
        self.reload()
        self.look()

    def any_request(self) -> None:
        """Send any request to one of the groups, at any version (any_requests.py)."""
        self.anything.topics = {name: str(Uuid(one.to_bytes(16, "big"))) for name, one in self.topic_ids.items()}
        self.anything.send()

    @property
    def members(self) -> dict[str, Member]:
        """Those that consider themselves members, by id."""
        return self.members_of[self.group]

    def op(self, op: str, **fields: Any) -> Json:
        reply = self.duel.op(op, **fields)
        self.duel.check_counts()
        for one in reply.get("completed", ()):
            member = self.senders.get(one["id"])
            if member is not None and one["api"] == "JoinGroup":
                self.on_join_response(member, one["response"])
            elif member is not None and one["api"] == "SyncGroup":
                self.on_sync_response(member, one["response"])
        return reply

    def request(self, api: str, version: int, **body: Any) -> Json:
        return self.op("request", api=api, version=version, clientId="c", body={"groupId": self.group, **body})

    def any_member(self) -> Member | None:
        return self.rng.choice(list(self.members.values())) if self.members else None

    def instance(self) -> str | None:
        return self.rng.choice(["i0", "i1", "i2"]) if self.statics and self.rng.random() < 0.4 else None

    # Classic members

    def join_classic(self) -> None:
        rng = self.rng
        member = Member(self.group, "", self.instance(), True)
        member.version = rng.choice([0, 1, 2, 3, 3, 3])
        member.rack = rng.choice([None, None, "a", "b"])
        member.assignors = rng.choice([["range"], ["range"], ["range", "roundrobin"], ["roundrobin", "range"]])
        self.subscribe(member)
        self.send_join(member)

    def subscribe(self, member: Member) -> None:
        member.topics = self.rng.sample(TOPICS, self.rng.choice([0, 1, 1, 1, 2, 2, 3, 3]))

    def send_join(self, member: Member, **odd: Any) -> None:
        rng = self.rng
        data = subscription(*member.topics, owned=member.owned, rack=member.rack, version=member.version)
        version = rng.choice([5, 9, 9]) if member.instance_id is not None else rng.choice([3, 4, 6, 9, 9])
        body: Json = {
            "memberId": member.member_id,
            "sessionTimeoutMs": rng.choice([10_000, 30_000]),
            "rebalanceTimeoutMs": rng.choice([10_000, 30_000]),
            "protocolType": "consumer",
            "protocols": [{"name": name, "metadata": data} for name in member.assignors],
            **odd,
        }
        if version >= 5:
            body["groupInstanceId"] = member.instance_id
        self.named += 1
        name = f"${self.named}"
        reply = self.op(
            "request", api="JoinGroup", version=version, clientId="c", body={"groupId": self.group, **body}, names=name
        )
        self.senders[reply["id"]] = member
        if not member.member_id and name in self.duel.ids:
            short = len(self.duel.ids[name]) == 22
            prefix = member.instance_id if member.instance_id is not None and version >= 5 else "c"
            member.member_id = name if short else f"{prefix}-{name}"
            if member.instance_id is not None:
                for other in [one for one in self.members.values() if one.instance_id == member.instance_id]:
                    if rng.random() < 0.8:
                        del self.members[other.member_id]
            self.members[member.member_id] = member
        response = reply.get("response")
        if response and response["errorCode"] == 79 and rng.random() < 0.9:
            self.send_join(member)
        elif response:
            self.on_join_response(member, response)

    def on_join_response(self, member: Member, response: Json) -> None:
        members = self.members_of[member.group]
        if response["errorCode"] == 25:
            members.pop(member.member_id, None)
        if response["errorCode"] == 0:
            member.member_id = self.duel.named_id(response["memberId"])
            members[member.member_id] = member
            member.epoch = response["generationId"]
            member.protocol = response["protocolName"]
            member.joined_members = response["members"]

    def send_sync(self, member: Member, **odd: Any) -> None:
        version = self.rng.choice([3, 5, 5])
        body: Json = {
            "memberId": member.member_id,
            "generationId": member.epoch,
            "groupInstanceId": member.instance_id,
            "assignments": self.given(member),
            **odd,
        }
        if version >= 5:
            body = {"protocolType": "consumer", "protocolName": member.protocol, **body}
        else:
            body.pop("protocolName", None)
        reply = self.request("SyncGroup", version, **body)
        self.senders[reply["id"]] = member
        if reply.get("response"):
            self.on_sync_response(member, reply["response"])

    def given(self, leader: Member) -> list[Json]:
        """Return a leader's assignment: mostly a distribution of all partitions."""
        rng = self.rng
        if not leader.joined_members:
            return []
        ids = [self.duel.named_id(joined_member["memberId"]) for joined_member in leader.joined_members]
        shares: dict[str, dict[str, list[int]]] = {one: {} for one in ids}
        for topic, count in self.partitions.items():
            for partition in range(count):
                if rng.random() < 0.95:
                    shares[rng.choice(ids)].setdefault(topic, []).append(partition)
        kind = rng.random()
        if kind < 0.03:  # t0-0 is assigned twice, mostly to two members
            shares[rng.choice(ids)].setdefault("t0", []).append(0)
        given = []
        for one, share in shares.items():
            user_data = b"x" if 0.1 < kind < 0.13 else rng.choice([None, b""])
            data = assignment(share, user_data=user_data, version=rng.choice([0, 1, 3]))
            if kind > 0.96:
                data = rng.choice(["AAA=", "AQ==", "//8=", ""])
            given.append({"memberId": one, "assignment": data})
        if 0.13 < kind < 0.2:
            given[0]["assignment"] = assignment({"gone": [0], **shares[ids[0]]})
        return given if rng.random() < 0.95 else given[1:]

    def on_sync_response(self, member: Member, response: Json) -> None:
        if response["errorCode"] == 27 and self.rng.random() < 0.7:
            member.joined_members = []
        if response["errorCode"] == 0 and member.classic:
            try:
                found = decode_assignment(base64.b64decode(response["assignment"])).message
            except DecodeError:
                return
            assert isinstance(found, ConsumerProtocolAssignment)
            member.owned = {
                assigned_partition.topic: list(assigned_partition.partitions)
                for assigned_partition in found.assigned_partitions
            }

    def send_heartbeat(self, member: Member, **odd: Any) -> None:
        body = {
            "memberId": member.member_id,
            "generationId": member.epoch,
            "groupInstanceId": member.instance_id,
            **odd,
        }
        reply = self.request("Heartbeat", 4, **body)
        if reply["response"]["errorCode"] == 27 and self.rng.random() < 0.8:
            if self.rng.random() < 0.3:
                member.owned = {}
            self.send_join(member)
        elif reply["response"]["errorCode"] in (25, 22, 82) and self.rng.random() < 0.6:
            self.members.pop(member.member_id, None)

    # Members of the new protocol

    def join_consumer(self) -> None:
        rng = self.rng
        member = Member(self.group, rng.choice(["m1", "m2", "m3", "AaAa", "BBBB"]), self.instance(), False)
        self.subscribe(member)
        self.beat(member, full=True, memberEpoch=0, topicPartitions=[])

    def beat(self, member: Member, *, full: bool = False, **body: Any) -> None:
        rng = self.rng
        body = {"memberId": member.member_id, "instanceId": member.instance_id, **body}
        body.setdefault("memberEpoch", max(member.epoch, 0))
        if rng.random() < 0.7:
            body.setdefault(
                "topicPartitions", [{"topicId": one, "partitions": some} for one, some in member.owned.items()]
            )
        if full or body["memberEpoch"] == 0:
            body["rebalanceTimeoutMs"] = rng.choice([5000, 60_000])
            body["subscribedTopicNames"] = member.topics
            body["topicPartitions"] = [] if body["memberEpoch"] == 0 else body.get("topicPartitions")
            if rng.random() < 0.2:
                body["subscribedTopicRegex"] = rng.choice(["t.*", "orders.*"])
            if rng.random() < 0.2:
                body["serverAssignor"] = rng.choice(["uniform", "range"])
            if rng.random() < 0.2:
                body["rackId"] = rng.choice(["a", "b"])
        response = self.request("ConsumerGroupHeartbeat", 1, **body)["response"]
        if response["errorCode"]:
            if response["errorCode"] in (25, 110):
                self.members.pop(member.member_id, None)
            return
        if member.instance_id is not None:
            for other in [one for one in self.members.values() if one.instance_id == member.instance_id]:
                if rng.random() < 0.8:
                    self.members.pop(other.member_id, None)
        self.members[member.member_id] = member
        member.epoch = response["memberEpoch"]
        if response["assignment"] is not None:
            member.owned = {
                topic_partition["topicId"]: topic_partition["partitions"]
                for topic_partition in response["assignment"]["topicPartitions"]
            }

    # Both

    def follow(self) -> None:
        """Let a member send its next request, or a similar one."""
        member = self.any_member()
        if member is None:
            return self.join_classic()
        kind = self.rng.random()
        if not member.classic:
            if kind < 0.1:
                self.subscribe(member)
            return self.beat(member, full=kind < 0.2)
        if kind < 0.25:
            if kind < 0.05:
                self.subscribe(member)
            return self.send_join(member)
        if kind < 0.5:
            return self.send_sync(member)
        return self.send_heartbeat(member)

    def settle(self) -> None:
        """Let all members send their requests, twice."""
        for _ in range(2):
            for join in (True, False):
                for member in self.rng.sample(
                    sorted(self.members.values(), key=lambda one: one.member_id), len(self.members)
                ):
                    if not member.classic:
                        self.beat(
                            member, topicPartitions=[{"topicId": i, "partitions": p} for i, p in member.owned.items()]
                        )
                    elif join:
                        self.send_join(member)
                    else:
                        self.send_sync(member)
                self.op("advance", ms=self.rng.choice([0, 1000, 3000]))

    def leave(self) -> None:
        member = self.any_member()
        if member is None:
            return
        if member.classic or self.rng.random() < 0.2:
            by_name = member.instance_id is not None and self.rng.random() < 0.4
            one = {"memberId": "" if by_name else member.member_id, "groupInstanceId": member.instance_id}
            others = [{"memberId": "nobody", "groupInstanceId": None}] if self.rng.random() < 0.2 else []
            if self.rng.random() < 0.2:
                others += [{"memberId": other, "groupInstanceId": None} for other in list(self.members)[:2]]
            version = 3 if member.instance_id is not None else self.rng.choice([0, 3])
            if version == 0:
                self.request("LeaveGroup", 0, memberId=member.member_id)
            else:
                self.request("LeaveGroup", version, members=[one, *others])
        else:
            epoch = -2 if member.instance_id is not None and self.rng.random() < 0.6 else -1
            self.request(
                "ConsumerGroupHeartbeat",
                1,
                memberId=member.member_id,
                instanceId=member.instance_id,
                memberEpoch=epoch,
            )
            if epoch == -2:
                if self.rng.random() < 0.5:
                    self.become(member, classic=self.rng.random() < 0.5)
                return
        if self.rng.random() < 0.9:
            self.members.pop(member.member_id, None)

    def switch(self) -> None:
        """Let a static member rejoin, mostly with the other protocol."""
        found = [one for one in self.members.values() if one.instance_id is not None]
        if found:
            member = self.rng.choice(found)
            self.become(member, classic=member.classic if self.rng.random() < 0.25 else not member.classic)

    def become(self, old: Member, *, classic: bool) -> None:
        member = Member(self.group, "", old.instance_id, classic, topics=old.topics)
        if self.rng.random() < 0.3:
            self.subscribe(member)
        if classic:
            member.assignors = old.assignors or ["range"]
            if self.rng.random() < 0.1:
                member.member_id = old.member_id
            self.send_join(member)
        else:
            member.member_id = old.member_id if self.rng.random() < 0.2 else self.rng.choice(["m1", "m2", "m3", "m4"])
            self.beat(member, full=True, memberEpoch=0, topicPartitions=[])

    def misbehave(self) -> None:
        rng = self.rng
        member = self.any_member() or Member(self.group, "nobody", None, True, topics=["t0"], assignors=["range"])
        kind = rng.randrange(8)
        if kind == 0:
            self.send_sync(member, generationId=member.epoch + rng.choice([-1, 1]))
        elif kind == 1:
            self.send_sync(member, protocolName="other") if rng.random() < 0.5 else self.send_sync(member)
        elif kind == 2:
            self.send_heartbeat(member, generationId=member.epoch + rng.choice([-1, 1]))
        elif kind == 3:
            self.send_heartbeat(member, groupInstanceId=rng.choice(["i0", "i9", None]))
        elif kind == 4 and member.classic:
            odd = rng.choice(
                [
                    {"protocols": [{"name": "other", "metadata": subscription("t0")}]},
                    {"protocols": [{"name": "range", "metadata": "AAA="}]},
                    {"protocols": []},
                    {"protocolType": "connect"},
                    {"memberId": "somebody"},
                ]
            )
            self.send_join(member, **odd)
        elif kind == 5:
            self.beat(member, memberEpoch=max(member.epoch, 0) + 1, topicPartitions=[])
        elif kind == 6:
            member.classic = not member.classic
            member.owned = {}
            member.assignors = member.assignors or ["range"]
        else:
            self.request("LeaveGroup", 3, members=[{"memberId": "nobody", "groupInstanceId": rng.choice([None, "i0"])}])

    def commit(self) -> None:
        member = self.any_member()
        if member is not None:
            partitions = [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": ""}]
            self.request(
                "OffsetCommit",
                9,
                memberId=member.member_id,
                groupInstanceId=None,
                generationIdOrMemberEpoch=member.epoch,
                topics=[{"name": "t0", "partitions": partitions}],
            )

    # Topics and time

    def advance(self) -> None:
        self.op("advance", ms=self.rng.choice([1, 1000, 3000, 5000, 5000, 10_000, 30_000, 46_000]))

    def change_topics(self, *, all_of_them: bool = False) -> None:
        rng = self.rng
        names = TOPICS if all_of_them or rng.random() < 0.7 else rng.sample(TOPICS, 2)
        self.partitions = {
            name: self.partitions.get(name, 0) + rng.choice([0, 1, 3] if self.partitions else [1, 2, 4, 13])
            for name in names
        }
        self.partitions = {name: count or 1 for name, count in self.partitions.items()}
        for name in set(self.topic_ids) - set(names):
            del self.topic_ids[name]
        for name in names:
            if name not in self.topic_ids:
                self.named_topics += 1
                self.topic_ids[name] = self.named_topics
        racks = [rng.choice(["a", "b", None]) for _ in range(3)]
        brokers = [{"id": id_, **({} if rack is None else {"rack": rack})} for id_, rack in enumerate(racks)]
        some = {"brokers": brokers} if all_of_them or rng.random() < 0.3 else {}
        self.op(
            "image",
            topics=[
                {
                    "name": name,
                    "id": str(Uuid(self.topic_ids[name].to_bytes(16, "big"))),
                    "partitions": [[number % 3, (number + 1) % 3] for number in range(count)],
                }
                for name, count in self.partitions.items()
            ],
            **some,
        )

    def reload(self) -> None:
        self.op("reload")

    def look(self) -> None:
        self.op("timers")
        self.op("request", api="ListGroups", version=5, body={})
        self.op("request", api="DescribeGroups", version=6, body={"groups": self.groups})
        self.op("request", api="ConsumerGroupDescribe", version=1, body={"groupIds": self.groups})

    def fail(self) -> None:
        """Let one write fail.

        State is compared only after a load, as Kafka's maps keep traces of a reverted change.
        """
        error = self.rng.choice(["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE"])
        self.op("failNextAppend", error=error)
        self.rng.choice([self.leave, self.follow, self.join_consumer, self.join_classic, self.switch])()
        self.op("timers")
