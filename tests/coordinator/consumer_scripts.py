"""Random histories of consumer groups (KIP-848), from a seed.

    history = History(Random(7), Duel(oracle))
    history.run(60)

Most of the time members behave like clients: they send the epoch and the partitions of the last
response. Sometimes they do not.

Writes do not fail here. Kafka's coordinator replays records before it writes them, and what it
reverts leaves traces: maps have another order (a Describe shows members twice until the next
write), and the cached topic hashes are lost. Kafka then notices other racks, and increments the
epoch, earlier than ours. test_consumer_groups.py has scenarios with failed writes.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Any, Protocol

from quorate.codecs import Uuid
from tests.coordinator.plug_in import FAULTS

Json = dict[str, Any]

TOPICS = ["t0", "t1", "orders.eu", "orders.us", "a-long-name_4", "x"]
REGEXES = ["t.*", "orders\\..*", "t[0-9]|x", "none", ".*", "", "orders\\.(eu|us)", "(?i)ORDERS.+", "["]
MEMBERS = ["m1", "m2", "m3", "a", "b", "Zoe", "member-12", "uuid-1", "AaAa", "BBBB", "AaBB"]
INSTANCES = ["i1", "i2"]
ASSIGNORS = [None, None, None, "uniform", "range"]


class OpRunner(Protocol):
    """Runs ops on both coordinators, or on one of them."""

    def op(self, op: str, **fields: Any) -> Json:
        """Run an op of the oracle's protocol."""

    def request(self, api: str, version: int | None = None, *, client_id: str = "client", **body: Any) -> Json:
        """One request."""


class Cluster:
    """Changing topics and brokers. `topics`: id and replicas by name."""

    def __init__(self, rng: Random, runner: OpRunner) -> None:
        self.rng = rng
        self.runner = runner
        self.brokers: dict[int, str | None] = {0: "a", 1: "b", 2: None}
        self.topics: dict[str, tuple[str, list[list[int]]]] = {}
        self._ids = 0

    def change_topics(self) -> None:
        rng = self.rng
        name = rng.choice(TOPICS)
        kind = rng.random()
        if name not in self.topics or kind < 0.15:
            self.put_topic(name)
        elif kind < 0.4:
            del self.topics[name]
        else:
            topic_id, partitions = self.topics[name]
            more = rng.choice([1, 2, 5, 20])
            self.topics[name] = (topic_id, partitions + [self._replicas() for _ in range(more)])
        self.send_image()

    def change_racks(self) -> None:
        self.brokers = {broker: self.rng.choice(["a", "b", "c", None]) for broker in range(self.rng.randint(1, 4))}
        self.send_image(brokers=True, topics=self.rng.random() < 0.5)

    def put_topic(self, name: str) -> None:
        self._ids += 1
        low = self.rng.choice([self._ids, self._ids << 32, self.rng.getrandbits(64)])
        topic_id = Uuid(self._ids.to_bytes(8, "big") + low.to_bytes(8, "big"))
        count = self.rng.choice([1, 2, 3, 4, 7, 12, 13, 24, 40])
        self.topics[name] = (str(topic_id), [self._replicas() for _ in range(count)])

    def _replicas(self) -> list[int]:
        return self.rng.sample([0, 1, 2, 7], self.rng.randint(1, 3))

    def send_image(self, *, brokers: bool = False, topics: bool = True) -> None:
        reported: Json = {}
        if brokers:
            reported["brokers"] = [
                {"id": broker} if rack is None else {"id": broker, "rack": rack}
                for broker, rack in self.brokers.items()
            ]
        if topics:
            reported["topics"] = [
                {"name": name, "id": topic_id, "partitions": partitions}
                for name, (topic_id, partitions) in self.topics.items()
            ]
        self.runner.op("image", **reported)


@dataclass
class Client:
    """A member's own view of its membership."""

    group: str
    member_id: str
    instance_id: str | None
    epoch: int = 0
    owned: dict[str, list[int]] = field(default_factory=dict)
    names: list[str] | None = None
    regex: str | None = None


class History:
    """A random history.

    `regexes`, `statics`: share of members with a regex or an instance id. `plug_in`: the broker has
    the assignor of tests/coordinator/plug_in.py, which fails for members in some racks. `clients`:
    those that consider themselves members, by group and member id.
    """

    def __init__(
        self, rng: Random, runner: OpRunner, *, regexes: float = 0.4, statics: float = 0.4, plug_in: bool = False
    ) -> None:
        self.rng = rng
        self.runner = runner
        self.regexes = regexes
        self.statics = statics
        self.assignors = [None, None, None, "plug-in", "uniform"] if plug_in else ASSIGNORS
        self.racks = ["a", "b", "c"] * 7 + FAULTS if plug_in else ["a", "b", "c"]
        self.racked = 0.8 if plug_in else 0.3
        self.groups = ["g", "h"] if rng.random() < 0.4 else ["g"]
        self.members = rng.sample(MEMBERS, rng.choice([1, 2, 3, 4, 6]))
        self.clients: dict[tuple[str, str], Client] = {}
        self.cluster = Cluster(rng, runner)
        self.steps = 0
        config: Json = {"group.consumer.assignment.interval.ms": rng.choice([0, 0, 1000, 5000])}
        if rng.random() < 0.15:
            config["group.consumer.max.size"] = rng.choice([1, 2, 3])
        if plug_in:
            config["group.consumer.assignors"] = ["oracle.PlugIn", "uniform"]
        elif rng.random() < 0.2:
            config["group.consumer.assignors"] = rng.choice([["range", "uniform"], ["range"], ["uniform"]])
        if regexes and rng.random() < 0.3:
            config["executor"] = "manual"
        self.runner.op("config", **config)
        for name in rng.sample(TOPICS, rng.randint(0, 4)):
            self.cluster.put_topic(name)
        self.cluster.send_image(brokers=True)

    def run(self, steps: int) -> None:
        """Take so many steps."""
        actions: list[tuple[int, Callable[[], None]]] = [
            (30, self.beat),
            (14, self.join),
            (5, self.leave),
            (5, self.change_subscription),
            (4, self.misbehave),
            (8, self.advance),
            (4, self.cluster.change_topics),
            (1, self.cluster.change_racks),
            (2, self.reload),
            (2, self.look),
            (1, self.configure_group),
            (1, self.delete_group),
        ]
        if self.regexes:
            actions.append((3, self.run_tasks))
        weights = [weight for weight, _ in actions]
        for _ in range(steps):
            self.rng.choices([action for _, action in actions], weights)[0]()
            self.steps += 1

    # Members

    def join(self) -> None:
        group, member_id = self.rng.choice(self.groups), self.rng.choice(self.members)
        known = self.clients.get((group, member_id))
        instance = self.rng.choice(INSTANCES) if self.statics and self.rng.random() < self.statics else None
        if known is not None and self.rng.random() < 0.8:
            instance = known.instance_id
        client = Client(group, member_id, instance)
        self._subscribe(client)
        self._send(client, full=True, memberEpoch=0, topicPartitions=[])

    def beat(self) -> None:
        """Send a heartbeat: short, full, or with owned partitions after a revocation."""
        client = self._any_member()
        if client is None:
            return self.join()
        body: Json = {"memberEpoch": client.epoch}
        kind = self.rng.random()
        if kind < 0.6:
            body["topicPartitions"] = _listed(client.owned)
        return self._send(client, full=kind < 0.15, **body)

    def leave(self) -> None:
        client = self._any_member()
        if client is None:
            return
        epoch = -2 if client.instance_id is not None and self.rng.random() < 0.7 else -1
        reply = self.runner.request("ConsumerGroupHeartbeat", 1, **self._base(client), memberEpoch=epoch)
        if not reply["response"]["errorCode"]:
            if epoch == -1:
                self.clients.pop((client.group, client.member_id), None)
            else:
                client.epoch, client.owned = epoch, {}
                if self.rng.random() < 0.7:
                    self._come_back(client)

    def _come_back(self, client: Client) -> None:
        if self.rng.random() < 0.7:
            self.clients.pop((client.group, client.member_id), None)
            client.member_id = self.rng.choice(self.members)
        if self.rng.random() < 0.3:
            self._subscribe(client)
        self._send(client, full=True, memberEpoch=0, topicPartitions=[])

    def change_subscription(self) -> None:
        client = self._any_member()
        if client is None:
            return
        self._subscribe(client)
        body: Json = {"memberEpoch": client.epoch, "subscribedTopicNames": client.names}
        if client.regex is not None:
            body["subscribedTopicRegex"] = client.regex
        if self.rng.random() < 0.5:
            body["topicPartitions"] = _listed(client.owned)
        self._send(client, **body)

    def misbehave(self) -> None:
        """Send wrong epochs, wrong ids or invalid requests."""
        client = self._any_member() or Client(
            self.rng.choice(self.groups), self.rng.choice(self.members), None, names=["t0"]
        )
        odd: Json = self.rng.choice(
            [
                {"memberEpoch": client.epoch + self.rng.choice([1, 5])},
                {"memberEpoch": max(client.epoch - 1, 1)},
                {"memberEpoch": max(client.epoch - 1, 1), "topicPartitions": _listed(client.owned)},
                {"memberEpoch": -3},
                {"memberEpoch": -2},
                {"memberEpoch": 0},
                {"memberEpoch": client.epoch, "memberId": "nobody"},
                {"memberEpoch": client.epoch, "memberId": " "},
                {"memberEpoch": client.epoch, "groupId": ""},
                {"memberEpoch": client.epoch, "groupId": "nothing"},
                {"memberEpoch": client.epoch, "instanceId": "i1"},
                {"memberEpoch": client.epoch, "instanceId": ""},
                {"memberEpoch": client.epoch, "rackId": ""},
                {"memberEpoch": client.epoch, "rackId": "r9"},
                {"memberEpoch": client.epoch, "serverAssignor": "nope"},
                {"memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []},
                {"memberEpoch": 0, "rebalanceTimeoutMs": 1000, "subscribedTopicNames": ["t0"]},
                {
                    "memberEpoch": client.epoch,
                    "topicPartitions": [{"topicId": str(Uuid(bytes(15) + b"\x07")), "partitions": [0]}],
                },
            ]
        )
        body = {**self._base(client), **odd}
        if not client.epoch and odd.get("memberEpoch") == 0 and "rebalanceTimeoutMs" not in odd:
            body |= {"rebalanceTimeoutMs": 1000, "topicPartitions": [], "subscribedTopicNames": ["t0"]}
        self.runner.request("ConsumerGroupHeartbeat", self.rng.choice([1, 1, 0]) if body["memberId"] else 1, **body)

    def _subscribe(self, client: Client) -> None:
        rng = self.rng
        client.names = rng.sample(TOPICS, rng.choice([0, 1, 1, 2, 3])) if rng.random() < 0.8 else ["t0", "t1"]
        if rng.random() < 0.1 and client.names:
            client.names = [*client.names, client.names[0]]
        client.regex = None
        if self.regexes and rng.random() < self.regexes:
            client.regex = rng.choice(REGEXES)
            if rng.random() < 0.7:
                client.names = []

    def _base(self, client: Client) -> Json:
        base: Json = {"groupId": client.group, "memberId": client.member_id}
        if client.instance_id is not None:
            base["instanceId"] = client.instance_id
        return base

    def _send(self, client: Client, *, full: bool = False, **body: Any) -> None:
        rng = self.rng
        body = {**self._base(client), **body}
        if full:
            body.setdefault("rebalanceTimeoutMs", rng.choice([5000, 60_000, 300_000]))
            body.setdefault("topicPartitions", _listed(client.owned))
            if client.names is not None or client.regex is None:
                body.setdefault("subscribedTopicNames", client.names or [])
            if client.regex is not None:
                body.setdefault("subscribedTopicRegex", client.regex)
            assignor = rng.choice(self.assignors)
            if assignor is not None:
                body["serverAssignor"] = assignor
            if rng.random() < self.racked:
                body["rackId"] = rng.choice(self.racks)
        client_id = "client" if rng.random() < 0.95 else "other"
        reply = self.runner.request("ConsumerGroupHeartbeat", 1, client_id=client_id, **body)
        response = reply["response"]
        if response["errorCode"]:
            if response["errorCode"] in (25, 110):  # unknown member, fenced: the member must rejoin
                self.clients.pop((client.group, client.member_id), None)
            return
        self.clients[client.group, client.member_id] = client
        client.epoch = response["memberEpoch"]
        assignment = response["assignment"]
        if assignment is not None and rng.random() < 0.9:
            client.owned = {
                topic_partition["topicId"]: topic_partition["partitions"]
                for topic_partition in assignment["topicPartitions"]
            }

    def _any_member(self) -> Client | None:
        return self.rng.choice(list(self.clients.values())) if self.clients else None

    # Topics, configs and time

    def advance(self) -> None:
        self.runner.op("advance", ms=self.rng.choice([1, 500, 1000, 5000, 5001, 10_001, 44_000, 45_000, 700_000]))

    def reload(self) -> None:
        self.runner.op("reload")

    def run_tasks(self) -> None:
        self.runner.op("runTasks")

    def look(self) -> None:
        self.runner.op("timers")
        self.runner.request("ConsumerGroupDescribe", 1, groupIds=self.groups)

    def configure_group(self) -> None:
        self.runner.op(
            "groupConfig",
            group=self.rng.choice(self.groups),
            configs={
                "consumer.session.timeout.ms": self.rng.choice([45_000, 50_000, 60_000]),
                "consumer.heartbeat.interval.ms": self.rng.choice([5000, 10_000]),
            },
        )

    def delete_group(self) -> None:
        self.runner.request("DeleteGroups", 2, groupsNames=[self.rng.choice(self.groups)])


def _listed(owned: dict[str, list[int]]) -> list[Json]:
    return [{"topicId": topic_id, "partitions": partitions} for topic_id, partitions in owned.items()]
