"""Random histories of classic groups.

Scripts have names (`$1`, `$2`, ...) instead of member ids that Kafka generates, so that a script
can be repeated, also without some of its lines.
"""

import base64
import json
import re
from collections import Counter
from random import Random
from typing import Any

from quorate.codecs.consumer_protocol import encode_protocol
from quorate.codecs.messages.protocol import ConsumerProtocolSubscription
from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.state import ClassicState, ConsumerGroup, StreamsGroup
from tests.coordinator.scripts import Duel, Json

TOPICS = [(f"t{number}", f"AAAAAAAAAAEAAAAAAAAA{letter}Q") for number, letter in enumerate("ABC")]


class NamedDuel(Duel):
    """A duel whose script has names instead of ids that Kafka generates.

    `reloads`: reload both logs after a failed write that is known to leave traces in Kafka
    (docs/explanation/consumer-groups.md): its maps have another order, and changes without a
    record are reverted. Without it, the order of tombstones matters everywhere.
    """

    def __init__(self, oracle: Any, *, note: str = "", reloads: bool = True) -> None:
        super().__init__(oracle, note=note, any_order=reloads)
        self.named_lines: list[Json] = []
        self.ids: dict[str, str] = {}
        self.reloads = reloads
        # Whether an empty consumer group was removed, or a group created, without a record.
        self._unwritten = False

    @property
    def script(self) -> list[Json]:
        """The lines, with names."""
        return self.named_lines

    def op(self, op: str, *, names: str | None = None, **fields: Any) -> Json:
        """Run an op on both sides. `names`: the name for this line's generated id."""
        self.named_lines.append({"op": op, **({"names": names} if names else {}), **fields})
        with_ids = re.sub(r"\$\d+", lambda found: self.ids.get(found[0], found[0]), json.dumps(fields))
        log, before, known = self.ours.log, self._consumer_groups(), set(self.ours.shard.state.groups)
        fails = op != "failNextAppend" and log.fail_next is not None
        kafka = super().op(op, **json.loads(with_ids))
        if names and self.generated_ids:
            self.ids[names] = self.generated_ids[0]
        after = self._consumer_groups()
        if op == "reload":
            self._unwritten = False
        elif (before - after or set(self.ours.shard.state.groups) - known) and not kafka.get("records"):
            self._unwritten = True
        failed = fails and log.fail_next is None
        if self.reloads and ((failed and after) or (self._unwritten and log.fail_next is not None)):
            self.op("reload")
        return kafka

    def named_id(self, member_id: str) -> str:
        """Replace generated ids in a member id by their names."""
        for name, generated in self.ids.items():
            member_id = member_id.replace(generated, name)
        return member_id

    def check_counts(self) -> None:
        """Check the counters of all classic groups."""
        for group in self.ours.shard.state.groups.values():
            if isinstance(group, LiveGroup):
                check_counts(group)

    def _consumer_groups(self) -> set[str]:
        """Return the groups of which a failed write leaves traces in Kafka."""
        groups = self.ours.shard.state.groups.items()
        return {name for name, group in groups if isinstance(group, ConsumerGroup | StreamsGroup)}


def subscription(*topics: str) -> str:
    return base64.b64encode(
        encode_protocol(ConsumerProtocolSubscription(topics=topics, user_data=None, owned_partitions=()), 1)
    ).decode()


def check_counts(group: LiveGroup) -> None:
    """Check a group's counters against its members."""
    members = group.members
    assert set(group.order) == set(members)
    assert group.joining_count == sum(member.joining is not None for member in members.values())
    offered = Counter(protocol.name for member in members.values() for protocol in member.protocols)
    assert {name: count for name, count in group.supporters.items() if count} == offered
    assert group.static_members == {
        member.group_instance_id: member.member_id
        for member in members.values()
        if member.group_instance_id is not None
    }
    assert not group.pending & set(members)
    assert not members or group.leader in members
    assert members or group.phase is not ClassicState.STABLE


class ClassicHistory:
    """Generates requests of members, most of them valid.

    `anything`: `AnyRequests`, to mix arbitrary requests in.
    """

    def __init__(
        self, rng: Random, duel: NamedDuel, *, groups: int = 2, statics: bool = True, anything: Any = None
    ) -> None:
        self.rng = rng
        self.duel = duel
        self.groups = [f"g{number}" for number in range(groups)]
        self.statics = statics
        self.named = 0
        # What the members know of the group.
        self.ids: dict[str, list[tuple[str, str | None]]] = {group: [] for group in self.groups}
        self.generation: dict[str, int] = dict.fromkeys(self.groups, 0)
        self.leader: dict[str, str] = dict.fromkeys(self.groups, "")
        self.protocol: dict[str, str] = dict.fromkeys(self.groups, "range")
        self.groups_of_joins: dict[int, str] = {}
        self.producers: set[int] = set()
        self.topics: dict[str, str] = {}
        # Passed, as any_requests.py imports this module.
        self.anything = anything and anything(rng, duel, groups=self.groups, first_name=1000, op=self.op)

    def run(self, steps: int) -> None:
        self.duel.op(
            "config",
            **{
                "group.initial.rebalance.delay.ms": self.rng.choice([0, 0, 1000, 3000]),
                "group.max.size": self.rng.choice([2, 3, 1000, 1000, 1000]),
                "offsets.retention.minutes": 30,
            },
        )
        self.image()
        for _ in range(steps):
            step, *_ = self.rng.choices(*zip(*self.weights(), strict=True))
            step()
            if self.rng.random() < 0.4:
                self.duel.op("timers")
        self.fail()
        self.describe()
        self.reload()
        self.look()

    def fail(self) -> None:
        """Let writes fail at the end of the history.

        Kafka's maps keep their size after a reverted change, and then list a deleted group twice.
        """
        error = self.rng.choice(["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE"])
        self.op("failNextAppend", error=error)
        for _ in range(4):
            self.rng.choice([self.all_sync, self.settle, self.join_static, self.all_join, self.leave, self.advance])()
            self.duel.op("timers")

    def weights(self) -> list[tuple[Any, int]]:
        return [
            (self.join, 14),
            (self.join_again, 10),
            (self.join_static, 8 if self.statics else 0),
            (self.all_join, 3),
            (self.settle, 6),
            (self.sync, 12),
            (self.all_sync, 8),
            (self.heartbeat, 8),
            (self.leave, 4),
            (self.commit, 4),
            (self.commit_in_transaction, 1),
            (self.delete_offsets, 1),
            (self.delete_group, 1),
            (self.look, 4),
            (self.advance, 8),
            (self.clean_up, 1),
            (self.reload, 1),
            (self.image, 1),
            (self.any_request, 4 if self.anything else 0),
        ]

    def any_request(self) -> None:
        """Send any request to one of the groups, at any version (any_requests.py)."""
        self.anything.topics = dict(self.topics)
        self.anything.send()

    # Groups, member ids and protocols

    def group(self) -> str:
        return self.rng.choice(self.groups)

    def any_member(self, group: str) -> tuple[str, str | None]:
        """Return a member id, mostly with its instance id."""
        known = self.ids[group][-6:]
        if not known or self.rng.random() < 0.06:
            return self.rng.choice([("nobody", None), ("", None), ("nobody", "i0")])
        member, instance = self.rng.choice(known)
        if self.rng.random() < 0.08:
            instance = self.rng.choice([None, "i0", "i1"])
        return member, instance

    def protocols(self) -> list[dict[str, str]]:
        names = self.rng.choice(
            [
                ["range"],
                ["range"],
                ["range", "roundrobin"],
                ["roundrobin", "range"],
                ["sticky", "cooperative-sticky", "range"],
            ]
        )
        metadata = self.rng.choice([subscription("t0"), subscription("t0"), subscription("t0", "t1"), "AAA="])
        return [{"name": name, "metadata": metadata} for name in names]

    def on_join_response(self, group: str, response: Json) -> None:
        if response.get("errorCode") == 0 and response.get("generationId", -1) >= 0:
            self.generation[group] = response["generationId"]
            self.leader[group] = self.duel.named_id(response["leader"])
            self.protocol[group] = response["protocolName"]

    def op(self, op: str, **fields: Any) -> Json:
        reply = self.duel.op(op, **fields)
        self.duel.check_counts()
        for one in reply.get("completed", ()):
            if one["api"] == "JoinGroup" and one["id"] in self.groups_of_joins:
                self.on_join_response(self.groups_of_joins[one["id"]], one["response"])
        return reply

    # Members

    def send_join(
        self, group: str, member: str, instance: str | None, protocols: list[dict[str, str]], version: int
    ) -> None:
        self.named += 1
        client = self.rng.choice(["c", "client"])
        body: dict[str, Any] = {
            "groupId": group,
            "sessionTimeoutMs": self.rng.choice([6000, 10_000, 10_000, 30_000, 30_000, 5000]),
            "memberId": member,
            "protocolType": "connect" if self.rng.random() < 0.03 else "consumer",
            "protocols": [] if self.rng.random() < 0.02 else protocols,
        }
        if version >= 1:
            body["rebalanceTimeoutMs"] = self.rng.choice([10_000, 10_000, 30_000, 5000])
        if version >= 5:
            body["groupInstanceId"] = instance
        name = f"${self.named}"
        reply = self.op("request", api="JoinGroup", version=version, clientId=client, body=body, names=name)
        self.groups_of_joins[reply["id"]] = group
        if not member and name in self.duel.ids:
            prefix = client if instance is None or version < 5 else instance
            self.ids[group].append((f"{prefix}-{name}", instance))
        if reply.get("response"):
            self.on_join_response(group, reply["response"])

    def join(self) -> None:
        """Join as a new member, and mostly rejoin with the generated id."""
        group = self.group()
        version = self.rng.choice([0, 1, 3, 4, 5, 6, 7, 8, 9, 9, 9])
        protocols = self.protocols()
        before = len(self.ids[group])
        self.send_join(group, "", None, protocols, version)
        if version >= 4 and len(self.ids[group]) > before and self.rng.random() < 0.8:
            self.send_join(group, self.ids[group][-1][0], None, protocols, version)

    def join_again(self) -> None:
        group = self.group()
        member, instance = self.any_member(group)
        self.send_join(group, member, instance, self.protocols(), self.rng.choice([5, 7, 9]))

    def join_static(self) -> None:
        self.send_join(
            self.group(), "", self.rng.choice(["i0", "i1", "i2"]), self.protocols(), self.rng.choice([5, 8, 9, 9])
        )

    def all_join(self) -> None:
        group = self.group()
        for member, instance in self.ids[group][-6:]:
            self.send_join(group, member, instance, [{"name": "range", "metadata": subscription("t0")}], 9)

    def settle(self) -> None:
        """Let all members join and sync in any order, and then mostly a static member rejoin."""
        group = self.group()
        reported = self.op("request", api="DescribeGroups", version=6, body={"groups": [group]})["response"]["groups"][
            0
        ]
        members = [(self.duel.named_id(one["memberId"]), one["groupInstanceId"]) for one in reported["members"]]
        self.rng.shuffle(members)
        for member, instance in members:
            self.send_join(group, member, instance, [{"name": "range", "metadata": subscription("t0")}], 9)
        self.op("advance", ms=self.rng.choice([0, 3000]))
        self.rng.shuffle(members)
        for member, instance in members:
            self.send_sync(group, member, instance, sensible=True)
        instances = [instance for _, instance in members if instance is not None]
        if instances and self.rng.random() < 0.7:
            protocols = self.rng.choice([self.protocols(), [{"name": "range", "metadata": subscription("t1")}]])
            self.send_join(group, "", self.rng.choice(instances), protocols, self.rng.choice([5, 8, 9, 9]))

    def send_sync(self, group: str, member: str, instance: str | None, *, sensible: bool = False) -> None:
        version = self.rng.choice([0, 2, 3, 4, 5, 5])
        body: dict[str, Any] = {"groupId": group, "memberId": member}
        body["generationId"] = self.generation[group] + (0 if sensible else self.rng.choice([0] * 12 + [-1, 1]))
        if version >= 3:
            body["groupInstanceId"] = instance
        if version >= 5:
            odd = 0.5 if sensible else self.rng.random()
            body["protocolType"] = "consumer" if odd > 0.03 else self.rng.choice([None, "connect"])
            body["protocolName"] = self.protocol[group] if odd < 0.97 else self.rng.choice([None, "other"])
        if member == self.leader[group] or (not sensible and self.rng.random() < 0.05):
            members = self.rng.sample(self.ids[group], self.rng.randint(0, len(self.ids[group])))
            body["assignments"] = [
                {"memberId": one, "assignment": self.rng.choice(["", "AAAA", "AQID"])} for one, _ in members
            ]
        self.op("request", api="SyncGroup", version=version, body=body)

    def sync(self) -> None:
        group = self.group()
        self.send_sync(group, *self.any_member(group))

    def all_sync(self) -> None:
        group = self.group()
        for member, instance in self.ids[group][-6:]:
            self.send_sync(group, member, instance)

    def heartbeat(self) -> None:
        group = self.group()
        member, instance = self.any_member(group)
        version = self.rng.choice([0, 2, 3, 4])
        body: dict[str, Any] = {"groupId": group, "memberId": member}
        body["generationId"] = self.generation[group] + self.rng.choice([0] * 8 + [-1, 1])
        if version >= 3:
            body["groupInstanceId"] = instance
        self.op("request", api="Heartbeat", version=version, body=body)

    def leave(self) -> None:
        group = self.rng.choice([*self.groups, *self.groups, "nothing", ""] if self.rng.random() < 0.2 else self.groups)
        version = self.rng.randint(0, 5)
        if version < 3:
            self.op(
                "request",
                api="LeaveGroup",
                version=version,
                body={
                    "groupId": group,
                    "memberId": self.any_member(self.groups[0])[0]
                    if group not in self.ids
                    else self.any_member(group)[0],
                },
            )
            return
        leaving = []
        for _ in range(self.rng.choice([1, 1, 1, 2, 3])):
            member, instance = self.any_member(group if group in self.ids else self.groups[0])
            if instance is not None and self.rng.random() < 0.5:
                member = ""
            leaving.append(
                {"memberId": member, "groupInstanceId": instance, **({"reason": "so"} if version >= 5 else {})}
            )
        self.op("request", api="LeaveGroup", version=version, body={"groupId": group, "members": leaving})

    # Offsets, topics and time

    def commit(self) -> None:
        group = self.group()
        member, instance = self.rng.choice([self.any_member(group), self.any_member(group), ("", None)])
        generation = self.rng.choice([self.generation[group]] * 4 + [-1, self.generation[group] + 1])
        self.op(
            "request",
            api="OffsetCommit",
            version=9,
            body={
                "groupId": group,
                "memberId": member,
                "groupInstanceId": instance,
                "generationIdOrMemberEpoch": generation,
                "topics": [
                    {"name": name, "partitions": [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": ""}]}
                    for name, _ in self.rng.sample(TOPICS, 2)
                ],
            },
        )

    def commit_in_transaction(self) -> None:
        group = self.group()
        member, instance = self.any_member(group)
        version = self.duel.last_version("TxnOffsetCommit")
        (name, topic_id), *_ = TOPICS
        self.op(
            "request",
            api="TxnOffsetCommit",
            version=version,
            body={
                "transactionalId": "x",
                "groupId": group,
                "producerId": 1,
                "producerEpoch": 0,
                "generationIdOrMemberEpoch": self.rng.choice([self.generation[group], -1]),
                "memberId": member,
                "groupInstanceId": instance,
                "topics": [
                    {
                        **({"topicId": topic_id} if version >= 6 else {"name": name}),
                        "partitions": [{"partitionIndex": 1, "committedOffset": 7, "committedMetadata": ""}],
                    }
                ],
            },
        )
        self.op("endTxn", producerId=1, producerEpoch=0, result="COMMIT")

    def delete_offsets(self) -> None:
        topics = [{"name": name, "partitions": [{"partitionIndex": 0}]} for name, _ in TOPICS]
        self.op("request", api="OffsetDelete", version=0, body={"groupId": self.group(), "topics": topics})

    def delete_group(self) -> None:
        self.op("request", api="DeleteGroups", version=2, body={"groupsNames": self.rng.choices(self.groups, k=2)})

    def look(self) -> None:
        self.describe()
        self.op("request", api="ListGroups", version=5, body={})

    def describe(self) -> None:
        self.op(
            "request",
            api="DescribeGroups",
            version=self.rng.choice([0, 5, 6]),
            body={"groups": [*self.groups, "nothing"]},
        )

    def advance(self) -> None:
        self.op("advance", ms=self.rng.choice([100, 1000, 3000, 3000, 5000, 10_000, 30_000, 300_000, 2_000_000]))

    def clean_up(self) -> None:
        self.op("cleanup")

    def reload(self) -> None:
        self.op("reload")

    def image(self) -> None:
        kept = self.rng.sample(TOPICS, self.rng.randint(1, 3))
        self.topics = dict(kept)
        self.op("image", topics=[{"name": name, "id": topic_id, "partitions": 2} for name, topic_id in kept])
