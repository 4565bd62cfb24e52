"""Random histories of share groups (KIP-932), from a seed.

    ShareHistory(Random(7), Duel(oracle)).run(60)

Writes do not fail here, for the reason in consumer_scripts.py.
"""

from collections.abc import Callable
from random import Random

from tests.coordinator.consumer_scripts import MEMBERS, TOPICS, Cluster, Json, OpRunner

Member = tuple[str, str]


class ShareHistory:
    """A random history. `epochs`: those that the members know, by group and member id."""

    def __init__(self, rng: Random, runner: OpRunner) -> None:
        self.rng = rng
        self.runner = runner
        self.groups = ["g", "h", "sg"] if rng.random() < 0.4 else ["g"]
        self.members = rng.sample(MEMBERS, rng.choice([1, 2, 3, 4, 6]))
        self.epochs: dict[Member, int] = {}
        config: Json = {"group.share.assignment.interval.ms": rng.choice([0, 0, 1000, 5000])}
        if rng.random() < 0.15:
            config["group.share.max.size"] = rng.choice([1, 2, 3])
        self.runner.op("config", **config)
        self.cluster = Cluster(rng, runner)
        for name in rng.sample(TOPICS, rng.randint(0, 5)):
            self.cluster.put_topic(name)
        self.cluster.send_image(brokers=True)

    def run(self, steps: int) -> None:
        """Take so many steps."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (30, self.beat),
            (14, self.join),
            (5, self.leave),
            (6, self.change_subscription),
            (4, self.misbehave),
            (8, self.advance),
            (6, self.cluster.change_topics),
            (1, self.cluster.change_racks),
            (2, self.reload),
            (2, self.look),
            (1, self.configure_group),
            (2, self.delete_groups),
            (3, self.alter_offsets),
            (2, self.delete_offsets),
            (2, self.describe_offsets),
            (1, self.other_protocol),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            self.rng.choices([action for _, action in actions], weights)[0]()

    def alter_offsets(self) -> None:
        """Often while the group has members, which is an error."""
        rng = self.rng
        topics = [
            {
                "topicName": name,
                "partitions": [
                    {"partitionIndex": index, "startOffset": rng.choice([0, 7, 1 << 33])}
                    for index in rng.sample(range(6), rng.randint(0, 4))
                ],
            }
            for name in dict.fromkeys(self._names())
        ]
        self.runner.request("AlterShareGroupOffsets", groupId=self._maybe_emptied(), topics=topics)

    def delete_offsets(self) -> None:
        topics = [{"topicName": name} for name in self._names()]
        self.runner.request("DeleteShareGroupOffsets", groupId=self._maybe_emptied(), topics=topics)

    def describe_offsets(self) -> None:
        topics = [{"topicName": name, "partitions": [0, 2, 1, 17]} for name in self._names()]
        groups = [{"groupId": group, "topics": self.rng.choice([None, topics])} for group in self.groups]
        self.runner.request("DescribeShareGroupOffsets", groups=groups)

    def _maybe_emptied(self) -> str:
        """Return a group, in most cases after its members have left."""
        group = self.rng.choice([*self.groups, "other", ""] if self.rng.random() < 0.1 else self.groups)
        if self.rng.random() < 0.7:
            for member in [one for one in self.epochs if one[0] == group]:
                self.runner.request("ShareGroupHeartbeat", groupId=group, memberId=member[1], memberEpoch=-1)
                del self.epochs[member]
        return group

    def join(self) -> None:
        member = self.rng.choice(self.groups), self.rng.choice(self.members)
        self._send(member, memberEpoch=0, subscribedTopicNames=self._names(least=1))

    def beat(self) -> None:
        member = self._any_member()
        if member is None:
            return self.join()
        full = {"subscribedTopicNames": self._names()} if self.rng.random() < 0.05 else {}
        return self._send(member, memberEpoch=self.epochs[member], **full)

    def leave(self) -> None:
        member = self._any_member()
        if member is not None:
            self.runner.request("ShareGroupHeartbeat", groupId=member[0], memberId=member[1], memberEpoch=-1)
            del self.epochs[member]

    def change_subscription(self) -> None:
        member = self._any_member()
        if member is not None:
            self._send(member, memberEpoch=self.epochs[member], subscribedTopicNames=self._names())

    def misbehave(self) -> None:
        """Send wrong epochs, wrong ids or invalid requests."""
        group, member_id = member = self._any_member() or (self.rng.choice(self.groups), self.rng.choice(self.members))
        epoch = self.epochs.get(member, 0)
        odd: Json = self.rng.choice(
            [
                {"memberEpoch": epoch + 3},
                {"memberEpoch": max(epoch - 1, 1)},
                {"memberEpoch": max(epoch - 2, 1)},
                {"memberEpoch": -2},
                {"memberEpoch": 0},
                {"memberEpoch": 0, "subscribedTopicNames": []},
                {"memberEpoch": epoch, "memberId": "nobody"},
                {"memberEpoch": -1, "memberId": "nobody"},
                {"memberEpoch": -1, "groupId": "nothing"},
                {"memberEpoch": epoch, "memberId": " "},
                {"memberEpoch": epoch, "memberId": ""},
                {"memberEpoch": epoch, "groupId": ""},
                {"memberEpoch": epoch, "groupId": "nothing"},
                {"memberEpoch": epoch, "rackId": ""},
            ]
        )
        self.runner.request("ShareGroupHeartbeat", **{"groupId": group, "memberId": member_id, **odd})

    def other_protocol(self) -> None:
        """Join as a consumer, or commit an offset, in a group that may be a share group."""
        group = self.rng.choice([*self.groups, "other"])
        if self.rng.random() < 0.5:
            self.runner.request(
                "ConsumerGroupHeartbeat",
                1,
                groupId=group,
                memberId="consumer",
                memberEpoch=0,
                rebalanceTimeoutMs=5000,
                subscribedTopicNames=["t0"],
                topicPartitions=[],
            )
        else:
            self._send(("other", "m1"), memberEpoch=0, subscribedTopicNames=["t0"])

    def advance(self) -> None:
        self.runner.op("advance", ms=self.rng.choice([1, 500, 1000, 5000, 5001, 30_000, 44_000, 45_000, 700_000]))

    def reload(self) -> None:
        """Load the log, or load it without its last records.

        The log can then end before the share state of initializing partitions was written.
        """
        if self.rng.random() < 0.5:
            self.runner.op("reload")
            return
        records = self.runner.op("log")["records"]
        kept = records[: max(len(records) - self.rng.choice([1, 1, 1, 2, 3, 8]), 0)]
        self.runner.op("load", records=[{"key": one["key"], "value": one["value"]} for one in kept])

    def look(self) -> None:
        self.runner.op("timers")
        self.runner.request("ShareGroupDescribe", groupIds=self.groups)
        self.runner.request("ListGroups")

    def configure_group(self) -> None:
        self.runner.op(
            "groupConfig",
            group=self.rng.choice(self.groups),
            configs={
                "share.session.timeout.ms": self.rng.choice([45_000, 50_000, 60_000]),
                "share.heartbeat.interval.ms": self.rng.choice([5000, 10_000]),
            },
        )

    def delete_groups(self) -> None:
        names = self.rng.sample([*self.groups, "other", "nothing"], self.rng.randint(1, len(self.groups) + 2))
        self.runner.request("DeleteGroups", 2, groupsNames=names)

    def _names(self, least: int = 0) -> list[str]:
        names = self.rng.sample(TOPICS, max(self.rng.choice([0, 1, 1, 2, 3, 5]), least))
        return [*names, names[0]] if names and self.rng.random() < 0.1 else names

    def _send(self, member: Member, **body: object) -> None:
        if self.rng.random() < 0.1:
            body["rackId"] = self.rng.choice(["a", "b"])
        client_id = "client" if self.rng.random() < 0.95 else "other"
        group, member_id = member
        operation: Json = {"groupId": group, "memberId": member_id, **body}
        response = self.runner.request("ShareGroupHeartbeat", client_id=client_id, **operation)["response"]
        if not response["errorCode"]:
            self.epochs[member] = response["memberEpoch"]
        elif response["errorCode"] in (25, 110):  # unknown member, fenced: the member must rejoin
            self.epochs.pop(member, None)

    def _any_member(self) -> Member | None:
        return self.rng.choice(list(self.epochs)) if self.epochs else None
