"""Random histories of streams groups (KIP-1071), from a seed.

    StreamsHistory(Random(7), Duel(oracle)).run(60)

Most of the time members behave like clients: they report the tasks and epochs of the last response.
Writes fail in between, and both logs are then loaded again, for the reason in consumer_scripts.py.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

from quorate.coordinator.state import StreamsGroup
from tests.coordinator.consumer_scripts import TOPICS, Cluster, Json
from tests.coordinator.scripts import Duel

MEMBERS = ["m1", "m2", "m3", "a", "b", "AaAa", "BBBB", "AaBB"]
INSTANCES = ["i1", "i2"]
PROCESSES = ["p1", "p2", "p3"]
SUBTOPOLOGIES = ["0", "1", "2", "10", "11", "AaAa", "BBBB"]
"""Of these, "0" and "11" share a bucket of a HashMap, and the last two a hash."""
TAGS = [None, [], [("zone", "a")], [("zone", "b"), ("rack", "r1")], [("AaAa", "x"), ("BBBB", "y")]]
ENDPOINTS = [None, None, ("host-1", 80), ("host-2", 9999), ("host-1", 81)]

WRITE_ERRORS = ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "MESSAGE_TOO_LARGE", "UNKNOWN_TOPIC_OR_PARTITION"]


def random_topology(rng: Random, group: str, epoch: int, topics: Sequence[str] = TOPICS) -> Json:
    """Return a topology as a request has it."""
    ids = rng.sample(SUBTOPOLOGIES, rng.choice([1, 1, 2, 2, 3, 5]))
    subtopologies: list[Json] = []
    repartitions: list[str] = []
    for index, one in enumerate(ids):
        sources = rng.sample(topics, rng.choice([1, 1, 2, 3]))
        repartition_sources = [
            {"name": name, "partitions": rng.choice([0, 0, 0, 2, 5]), "replicationFactor": rng.choice([0, 0, 1, 3])}
            for name in repartitions
            if rng.random() < 0.7
        ]
        if repartition_sources and rng.random() < 0.5:
            sources = []
        repartitions = [f"{group}-{one}-{number}-repartition" for number in range(rng.choice([0, 0, 1, 2]))]
        changelogs = [
            {
                "name": f"{group}-{one}-{number}-changelog",
                "partitions": 0,
                "replicationFactor": rng.choice([0, 0, 1]),
                "topicConfigs": [{"key": key, "value": "x"} for key in rng.sample(["cleanup.policy", "a", "b"], 2)],
            }
            for number in range(rng.choice([0, 1, 1, 2]))
        ]
        copartitions: list[Json] = []
        if len(sources) + len(repartition_sources) > 1 and rng.random() < 0.3:
            copartitions = [
                {
                    "sourceTopics": list(range(len(sources))),
                    "sourceTopicRegex": [],
                    "repartitionSourceTopics": list(range(len(repartition_sources))),
                }
            ]
        for topic in repartition_sources:
            topic["topicConfigs"] = rng.choice([[], [{"key": "retention.ms", "value": "-1"}]])
        subtopologies.append(
            {
                "subtopologyId": one,
                "sourceTopics": sources,
                "sourceTopicRegex": ["t.*"] if rng.random() < 0.005 else [],
                "repartitionSinkTopics": repartitions if index + 1 < len(ids) else [],
                "stateChangelogTopics": changelogs,
                "repartitionSourceTopics": repartition_sources,
                "copartitionGroups": copartitions,
            }
        )
    return {"epoch": epoch, "subtopologies": subtopologies}


@dataclass
class Client:
    """A member's own view of its membership. `owned`: the tasks of the last response, by role."""

    group: str
    member_id: str
    instance_id: str | None
    process_id: str
    epoch: int = 0
    endpoint_epoch: int = 0
    owned: dict[str, list[Json]] = field(default_factory=lambda: {role: [] for role in ROLES})


ROLES = ("activeTasks", "standbyTasks", "warmupTasks")
NO_TASKS: Json = {role: [] for role in ROLES}


class StreamsHistory:
    """A random history. `clients`: by group and member id."""

    def __init__(self, rng: Random, runner: Duel) -> None:
        self.rng = rng
        self.runner = runner
        self.groups = ["g", "h"] if rng.random() < 0.25 else ["g"]
        self.members = rng.sample(MEMBERS, rng.choice([1, 2, 3, 4, 6]))
        self.clients: dict[tuple[str, str], Client] = {}
        config: Json = {
            "group.streams.assignment.interval.ms": rng.choice([0, 0, 0, 1000, 5000]),
            "group.streams.initial.rebalance.delay.ms": rng.choice([0, 0, 0, 1000, 3000]),
            "group.streams.num.standby.replicas": rng.choice([0, 0, 1, 2]),
        }
        if rng.random() < 0.15:
            config["group.streams.max.size"] = rng.choice([1, 2, 3])
        if rng.random() < 0.3:
            config["group.streams.num.warmup.replicas"] = rng.choice([0, 1])
        if rng.random() < 0.2:
            config["group.streams.rack.aware.assignment.tags"] = rng.choice(["zone", "zone,rack"])
        self.runner.op("config", **config)
        self.cluster = Cluster(rng, runner)
        for name in TOPICS:
            if rng.random() < 0.9:
                self.cluster.put_topic(name)
        self.cluster.send_image(brokers=True)
        self.topologies = {group: random_topology(rng, group, rng.choice([0, 0, 3])) for group in self.groups}

    def run(self, steps: int) -> None:
        """Take so many steps."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (34, self.beat),
            (14, self.join),
            (4, self.leave),
            (4, self.change_metadata),
            (6, self.misbehave),
            (8, self.advance),
            (9, self.create_internal_topics),
            (3, self.cluster.change_topics),
            (1, self.cluster.change_racks),
            (1, self.drop_internal_topic),
            (2, self.reload),
            (4, self.look),
            (1, self.configure_group),
            (2, self.delete_groups),
            (1, self.other_topology),
            (4, self.use_offsets),
            (1, self.other_protocol),
            (2, self.fail),
        ]
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            self.rng.choices([action for _, action in actions], weights)[0]()

    # ---- members

    def join(self) -> None:
        rng = self.rng
        group, member_id = rng.choice(self.groups), rng.choice(self.members)
        known = self.clients.get((group, member_id))
        instance_id = rng.choice(INSTANCES) if rng.random() < 0.25 else None
        process_id = rng.choice(PROCESSES)
        if known is not None and rng.random() < 0.8:
            instance_id, process_id = known.instance_id, known.process_id
        self._join(Client(group, member_id, instance_id, process_id))

    def _join(self, client: Client, **more: Any) -> None:
        body = {
            "memberEpoch": 0,
            "rebalanceTimeoutMs": self.rng.choice([5000, 30_000, 60_000]),
            "topology": self.topologies[client.group],
            "processId": client.process_id,
            **NO_TASKS,
            **self._metadata(),
            **more,
        }
        if self.rng.random() < 0.02:
            for role in ROLES:
                del body[role]
        self._send(client, **body)

    def _metadata(self, share: float = 0.3) -> Json:
        rng = self.rng
        body: Json = {}
        if rng.random() < share:
            body["userEndpoint"] = _endpoint(rng.choice(ENDPOINTS))
        if rng.random() < share:
            tags = rng.choice(TAGS)
            body["clientTags"] = None if tags is None else [{"key": key, "value": value} for key, value in tags]
        if rng.random() < share / 2:
            body["rackId"] = rng.choice(["a", "b"])
        return body

    def beat(self) -> None:
        client = self._any_client()
        return self.join() if client is None else self._beat(client)

    def _beat(self, client: Client) -> None:
        body: Json = dict(client.owned) if self.rng.random() < 0.6 else {}
        if self.rng.random() < 0.1:
            body["taskOffsets"] = self._offsets(client)
        if self.rng.random() < 0.05:
            body["taskEndOffsets"] = self._offsets(client)
        if self.rng.random() < 0.01:
            body["shutdownApplication"] = True
        self._send(client, memberEpoch=client.epoch, **body)

    def _offsets(self, client: Client) -> list[Json]:
        tasks = [
            {"subtopologyId": task["subtopologyId"], "partition": one, "offset": self.rng.choice([0, 5, 1 << 40])}
            for task in client.owned["activeTasks"]
            for one in task["partitions"]
        ]
        return [*tasks, *tasks[:1]] if self.rng.random() < 0.1 else tasks

    def leave(self) -> None:
        client = self._any_client()
        if client is None:
            return
        epoch = -2 if client.instance_id is not None and self.rng.random() < 0.7 else -1
        body: Json = {"shutdownApplication": True} if self.rng.random() < 0.1 else {}
        self._send(client, memberEpoch=epoch, **body)
        self.clients.pop((client.group, client.member_id), None)
        if epoch == -2 and self.rng.random() < 0.6:
            new = self.rng.choice([client.member_id, *self.members])
            self._join(Client(client.group, new, client.instance_id, self.rng.choice([client.process_id, "p9"])))

    def change_metadata(self) -> None:
        client = self._any_client()
        if client is not None:
            body = self._metadata(0.5)
            if self.rng.random() < 0.3:
                body["processId"] = client.process_id = self.rng.choice(PROCESSES)
            self._send(client, memberEpoch=client.epoch, **body)

    def misbehave(self) -> None:
        """Send wrong epochs, ids or tasks, or invalid requests."""
        rng = self.rng
        client = self._any_client() or Client(rng.choice(self.groups), rng.choice(self.members), None, "p1")
        epoch = client.epoch
        task = {"subtopologyId": rng.choice(SUBTOPOLOGIES), "partitions": [rng.choice([0, 1, 2, 39, -1])]}
        nothing = NO_TASKS
        odd: Json = rng.choice(
            [
                {"memberEpoch": epoch + 3},
                {"memberEpoch": max(epoch - 1, 1)},
                {"memberEpoch": max(epoch - 1, 1), **client.owned},
                {"memberEpoch": max(epoch - 2, 1), **nothing},
                {"memberEpoch": -2},
                {"memberEpoch": -3},
                {"memberEpoch": 0},
                {"memberEpoch": 0, "rebalanceTimeoutMs": 1000},
                {"memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topology": self.topologies[client.group], **nothing}
                | {"activeTasks": [task]},
                {"memberEpoch": epoch, "memberId": "nobody"},
                {"memberEpoch": -1, "memberId": "nobody"},
                {"memberEpoch": -1, "memberId": "nobody", "shutdownApplication": True},
                {"memberEpoch": -1, "groupId": "nothing"},
                {"memberEpoch": epoch, "memberId": " "},
                {"memberEpoch": epoch, "groupId": ""},
                {"memberEpoch": epoch, "groupId": "nothing"},
                {"memberEpoch": epoch, "rackId": ""},
                {"memberEpoch": epoch, "instanceId": rng.choice(["", "i1", "i2", "i9"])},
                {"memberEpoch": epoch, "activeTasks": []},
                {"memberEpoch": epoch, "topology": self.topologies[client.group]},
                {"memberEpoch": epoch, **nothing, rng.choice(ROLES): [task]},
                {"memberEpoch": epoch, **nothing, "activeTasks": [task, task]},
                {"memberEpoch": epoch, **nothing},
                {"memberEpoch": epoch, "clientTags": [{"key": "a", "value": "b"}, {"key": "a", "value": "c"}]},
                {"memberEpoch": epoch, "endpointInformationEpoch": rng.choice([-1, 0, 7])},
            ]
        )
        self._send(client, **{"processId": client.process_id, **odd})

    def _send(self, client: Client, **body: Any) -> None:
        rng = self.rng
        if client.instance_id is not None:
            body.setdefault("instanceId", client.instance_id)
        body = {
            "groupId": client.group,
            "memberId": client.member_id,
            "endpointInformationEpoch": client.endpoint_epoch,
            **{name: value for name, value in body.items() if value is not None},
        }
        response = self.runner.request(
            "StreamsGroupHeartbeat",
            rng.choice([0, 1, 1, 1]),
            client_id="client" if rng.random() < 0.95 else "other",
            **body,
        )["response"]
        where = body["groupId"], body["memberId"]
        if response["errorCode"] in (25, 110):  # unknown member, fenced: the member must rejoin
            self.clients.pop(where, None)
        if response["errorCode"] or response["memberEpoch"] < 0:
            return
        if body["memberEpoch"] == 0:
            client = Client(*where, body.get("instanceId"), body.get("processId", ""))
            self.clients = {
                place: one
                for place, one in self.clients.items()
                if one.group != client.group or one.instance_id is None or one.instance_id != client.instance_id
            }
            self.clients[where] = client
        client.epoch = response["memberEpoch"]
        if rng.random() < 0.9:
            client.endpoint_epoch = response["endpointInformationEpoch"]
        if response["activeTasks"] is not None and rng.random() < 0.9:
            client.owned = {role: response[role] for role in ROLES}

    def _any_client(self) -> Client | None:
        return self.rng.choice(list(self.clients.values())) if self.clients else None

    # ---- topics

    def create_internal_topics(self) -> None:
        """Create the internal topics that a group lacks, as a broker does."""
        for group in self.groups:
            found = self.runner.ours.shard.state.groups.get(group)
            configured = found.configured if isinstance(found, StreamsGroup) else None
            for name, topic in (configured.internal_topics_to_be_created if configured else {}).items():
                self.cluster.put_topic(name)
                topic_id, partitions = self.cluster.topics[name]
                count = topic.num_partitions if self.rng.random() < 0.97 else topic.num_partitions + 1
                self.cluster.topics[name] = (topic_id, [partitions[0]] * count)
        self.cluster.send_image()

    def drop_internal_topic(self) -> None:
        names = [name for name in self.cluster.topics if name not in TOPICS]
        if names:
            del self.cluster.topics[self.rng.choice(names)]
            self.cluster.send_image()

    def other_topology(self) -> None:
        """Join with another topology, of the same, an older or a newer epoch."""
        group = self.rng.choice(self.groups)
        before = self.topologies[group]
        self.topologies[group] = random_topology(self.rng, group, max(before["epoch"] + self.rng.choice([-1, 0, 1]), 0))
        self.join()
        if self.rng.random() < 0.7:
            self.topologies[group] = before

    # ---- the coordinator

    def advance(self) -> None:
        self.runner.op("advance", ms=self.rng.choice([1, 500, 1000, 3000, 5000, 5001, 30_000, 44_000, 45_000, 700_000]))

    def reload(self) -> None:
        """Load the log, or load it without its last records."""
        if self.rng.random() < 0.6:
            self.runner.op("reload")
            return
        records = self.runner.op("log")["records"]
        kept = records[: max(len(records) - self.rng.choice([1, 1, 1, 2, 3, 8]), 0)]
        self.runner.op("load", records=[{"key": one["key"], "value": one["value"]} for one in kept if "key" in one])

    def fail(self) -> None:
        """Let one write fail, and load the log.

        What a failed write leaves in memory, such as the configured topology, is compared first, by
        heartbeats: those of groups with one member, as Kafka's maps may have another order. Nothing
        fails after a group was removed without a record, which Kafka reverts, too
        (docs/explanation/consumer-groups.md).
        """
        if self._removed_unwritten():
            self.runner.op("reload")
        self.runner.op("failNextAppend", error=self.rng.choice(WRITE_ERRORS))
        writes = [self.join, self.beat, self.leave, self.change_metadata, self.use_offsets, self.delete_groups]
        for _ in range(6):
            self.rng.choice([*writes, self.other_protocol, self.other_topology, self.advance])()
            if self.runner.ours.log.fail_next is None or self._removed_unwritten():
                break
        if not self._removed_unwritten():
            self._compare_memory()
        self.runner.op("reload")

    def _removed_unwritten(self) -> bool:
        state = self.runner.ours.shard.state
        return bool(state.removed or state.unwritten)

    def _compare_memory(self) -> None:
        self.runner.op("timers")
        for client in list(self.clients.values()):
            group = self.runner.ours.shard.state.groups.get(client.group)
            if isinstance(group, StreamsGroup) and len(group.members) < 2:
                self._beat(client)

    def look(self) -> None:
        self.runner.op("timers")
        self.runner.request("StreamsGroupDescribe", 0, groupIds=self.groups)
        flag = self.rng.random() < 0.5
        self.runner.request(
            "StreamsGroupDescribe", 1, groupIds=[*self.groups, "nothing"], includeTopologyDescription=flag
        )
        self.runner.request("ListGroups")

    def configure_group(self) -> None:
        self.runner.op(
            "groupConfig",
            group=self.rng.choice(self.groups),
            configs=self.rng.choice(
                [
                    {"streams.session.timeout.ms": 50_000, "streams.heartbeat.interval.ms": 10_000},
                    {"streams.num.standby.replicas": self.rng.choice([0, 1, 2])},
                    {"streams.initial.rebalance.delay.ms": self.rng.choice([0, 2000])},
                    {"streams.assignment.interval.ms": self.rng.choice([0, 3000])},
                    {"streams.rack.aware.assignment.tags": "zone,cluster"},
                    {"streams.num.warmup.replicas": 0, "streams.task.offset.interval.ms": 20_000},
                    {"streams.acceptable.recovery.lag": 17},
                ]
            ),
        )

    def delete_groups(self) -> None:
        names = self.rng.sample([*self.groups, "nothing"], self.rng.randint(1, len(self.groups) + 1))
        if self.rng.random() < 0.5:
            for client in [one for one in self.clients.values() if one.group in names]:
                self._send(client, memberEpoch=-1)
                self.clients.pop((client.group, client.member_id), None)
        self.runner.request("DeleteGroups", 2, groupsNames=names)

    def use_offsets(self) -> None:
        """Commit, fetch and delete offsets, often with another member epoch."""
        rng = self.rng
        client = self._any_client() or Client(rng.choice(self.groups), "m1", None, "p1", epoch=-1)
        epoch = client.epoch + rng.choice([0, 0, 0, -1, -1, -2, 1])
        name = rng.choice([*TOPICS, *self.cluster.topics])
        partitions = rng.sample(range(5), rng.choice([1, 2]))
        group = client.group
        who = {"memberId": client.member_id, "generationIdOrMemberEpoch": epoch}
        if rng.random() < 0.15:
            who = rng.choice([{"memberId": "", "generationIdOrMemberEpoch": -1}, {**who, "memberId": "nobody"}])
        commits = [
            {"partitionIndex": one, "committedOffset": 7, "committedLeaderEpoch": -1, "committedMetadata": ""}
            for one in partitions
        ]
        commit = [{"name": name, "partitions": commits}]
        kind = rng.random()
        if kind < 0.5:
            self.runner.request("OffsetCommit", rng.choice([8, 9, 9, 9]), groupId=group, topics=commit, **who)
        elif kind < 0.65:
            version = rng.choice([3, 5])
            self.runner.request(
                "TxnOffsetCommit", version, groupId=group, transactionalId="t", producerId=1, producerEpoch=0,
                topics=commit, **who
            )  # fmt: skip
            if self.runner.ours.log.fail_next is None:  # the transaction coordinator retries a failed marker
                self.runner.op("endTxn", producerId=1, producerEpoch=0, result=rng.choice(["COMMIT", "ABORT"]))
        elif kind < 0.85:
            topics = rng.choice([None, [{"name": name, "partitionIndexes": partitions}]])
            one = {"groupId": group, "memberId": client.member_id, "memberEpoch": epoch, "topics": topics}
            self.runner.request("OffsetFetch", 9, groups=[one], requireStable=rng.random() < 0.5)
        else:
            deleted = [{"name": name, "partitions": [{"partitionIndex": one} for one in partitions]}]
            self.runner.request("OffsetDelete", groupId=group, topics=deleted)

    def other_protocol(self) -> None:
        """Use another protocol in a group, or join a new one as a streams member."""
        rng = self.rng
        group = rng.choice([*self.groups, "other"])
        kind = rng.random()
        if kind < 0.4:
            protocols = [{"name": "range", "metadata": ""}]
            self.runner.request(
                "JoinGroup", 3, groupId=group, memberId=rng.choice(["", "x"]), sessionTimeoutMs=10_000,
                rebalanceTimeoutMs=10_000, protocolType="consumer", protocols=protocols
            )  # fmt: skip
        elif kind < 0.6:
            offsets = [{"partitionIndex": 0, "committedOffset": 3, "committedLeaderEpoch": -1, "committedMetadata": ""}]
            self.runner.request(
                "OffsetCommit", 8, groupId=group, memberId="", generationIdOrMemberEpoch=-1,
                topics=[{"name": "t0", "partitions": offsets}]
            )  # fmt: skip
        elif kind < 0.8:
            self.runner.request(
                "ConsumerGroupHeartbeat", 1, groupId=group, memberId="consumer", memberEpoch=0,
                rebalanceTimeoutMs=5000, subscribedTopicNames=["t0"], topicPartitions=[]
            )  # fmt: skip
        else:
            topology = random_topology(rng, "other", 0)
            self.runner.request(
                "StreamsGroupHeartbeat", 1, groupId="other", memberId="m1", memberEpoch=0, rebalanceTimeoutMs=5000,
                topology=topology, processId="p1", endpointInformationEpoch=0, **NO_TASKS
            )  # fmt: skip


def _endpoint(endpoint: tuple[str, int] | None) -> Json | None:
    return None if endpoint is None else {"host": endpoint[0], "port": endpoint[1]}
