"""Administration of a Kafka cluster over its protocol, by kafka-python.

Each call returns when its effect is visible on all brokers that are up.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import closing
from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any
from uuid import UUID

from quorate.cluster.errors import ClusterError
from quorate.cluster.parameters import check_topic
from quorate.cluster.waiting import wait_for
from quorate.codecs import CONSUMER_OFFSETS, Uuid, read_live
from quorate.codecs.printable import listed
from quorate.coordinator.partitioning import partition_for

if TYPE_CHECKING:
    from kafka import KafkaAdminClient

    from quorate.assignors import Topology
    from quorate.codecs import LogEntry

HIDDEN = "(hidden)"
"""Stands for the value of a sensitive config, which brokers do not return."""


class AdminOperations(ABC):
    """Topics, partitions, replicas, configs and coordinators of the cluster at `client_config`."""

    timeout_ms: int = 60_000
    """How long each operation waits for its effect."""

    @property
    @abstractmethod
    def bootstrap_servers(self) -> str:
        """Addresses for clients on this host: "127.0.0.1:PORT" of all brokers, comma-separated."""

    @property
    def client_config(self) -> dict[str, Any]:
        """Configs for kafka-python's clients to connect to the cluster, including security."""
        return {"bootstrap_servers": self.bootstrap_servers}

    @property
    @abstractmethod
    def responsive_servers(self) -> str:
        """`bootstrap_servers` without brokers that are known to be stopped or paused.

        A client that first tries a paused broker waits for half a minute.
        """

    @abstractmethod
    def wait_ready(self) -> None:
        """Wait until the cluster is ready.

        All started brokers are registered and unfenced, and each partition of `__consumer_offsets`
        has a leader.
        """

    @property
    def admin(self) -> "KafkaAdminClient":
        """An admin client, for operations without a method here.

        It is closed with the cluster, when a broker starts or stops, and when network cuts of
        containers are healed. Read the property again after that.
        """
        self._check_blocking()
        return self._admin

    def _check_blocking(self) -> None:  # noqa: B027 - optional
        """Raise `ClusterError` where a blocking client would wait for ever."""

    @cached_property
    def _admin(self) -> "KafkaAdminClient":
        from kafka import KafkaAdminClient

        config = {**self.client_config, "bootstrap_servers": self.responsive_servers}
        return KafkaAdminClient(**config, client_id="quorate-integration")

    def close_admin(self) -> None:
        """Close the admin client, if one was created."""
        client = self.__dict__.pop("_admin", None)
        if client is not None:
            client.close()

    # Topics

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replicas: int = 1,
        assignment: Sequence[Sequence[int]] | None = None,
        config: Mapping[str, str | int] | None = None,
    ) -> None:
        """Create a topic and wait until every partition has a leader.

        `partitions`, `replicas`: -1 for the brokers' `num.partitions` and
        `default.replication.factor`. `assignment`: the broker ids of each partition, preferred
        leader first. Raises `ClusterError` for parameters of other types.
        """
        check_topic(name, assignment)
        for what, count in (("partitions", partitions), ("replicas", replicas)):
            if not isinstance(count, int):
                raise ClusterError(f"create_topic: {what} is {count!r}, which is no whole number")
        options: dict[str, Any] = {"configs": {key: str(value) for key, value in (config or {}).items()}}
        if assignment is None:
            options |= {"num_partitions": partitions, "replication_factor": replicas}
        else:
            options["assignments"] = {number: list(brokers) for number, brokers in enumerate(assignment)}
        self.admin.create_topics({name: options}, timeout_ms=self.timeout_ms)
        self._wait_for_leaders(name, partitions if assignment is None else len(assignment))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and wait until no broker lists it."""
        self.admin.delete_topics([name], timeout_ms=self.timeout_ms)
        wait_for(f"topic {name} is deleted", lambda: name not in self.admin.list_topics(), self.timeout_ms)

    def add_partitions(self, topic: str, count: int, *, assignment: Sequence[Sequence[int]] | None = None) -> None:
        """Increase the number of partitions of a topic to `count`.

        `assignment`: the broker ids of each new partition. Raises `ClusterError` for parameters of
        other types.
        """
        check_topic(topic, assignment)
        wanted: Any = (
            count if assignment is None else {"count": count, "assignments": [list(one) for one in assignment]}
        )
        self.admin.create_partitions({topic: wanted}, timeout_ms=self.timeout_ms)
        self._wait_for_leaders(topic, count)

    def reassign(self, topic: str, replicas: Mapping[int, Sequence[int]]) -> None:
        """Reassign replicas, wait for completion, and elect the preferred leaders.

        `replicas`: partition → broker ids, preferred leader first. Raises `ClusterError` if the
        controller rejects a reassignment.
        """
        from kafka import TopicPartition

        moves = {TopicPartition(topic, partition): list(brokers) for partition, brokers in replicas.items()}
        refused = {
            f"{where.topic}-{where.partition}": error.__name__
            for where, error in self.admin.alter_partition_reassignments(moves, timeout_ms=self.timeout_ms).items()
            if error is not None
        }
        if refused:
            raise ClusterError(f"the controller rejected the reassignment of {refused}")

        def moved() -> bool:
            now = {part["partition_index"]: part for part in self.describe_topic(topic)["partitions"]}
            return not self.admin.list_partition_reassignments(list(moves)) and all(
                now[partition]["replica_nodes"] == list(brokers) for partition, brokers in replicas.items()
            )

        wait_for(f"{topic} has its new replicas", moved, self.timeout_ms)
        self.elect_preferred_leaders(topic, list(replicas))

    def elect_preferred_leaders(self, topic: str, partitions: Sequence[int]) -> None:
        """Elect the first replica of each partition, and wait until all brokers know the leader."""

        def elected() -> bool:
            late = sorted(
                {
                    part["partition_index"]
                    for seen in self._as_each_broker_sees(topic)
                    for part in seen["partitions"]
                    if part["partition_index"] in partitions and part["leader_id"] != part["replica_nodes"][0]
                }
            )
            if late:
                # The election fails while the preferred leader is out of sync.
                self.admin.elect_leaders(0, {topic: late}, raise_errors=False)
            return not late

        wait_for(f"{topic} is led by its preferred leaders", elected, self.timeout_ms, every_ms=300)

    def describe_topic(self, name: str) -> dict[str, Any]:
        """Return a topic's metadata in kafka-python's form.

        Raises `ClusterError` if it does not exist.
        """
        found = self.admin.describe_topics([name])
        topic: dict[str, Any] | None = found[0] if found else None
        _check_exists(topic, name)
        assert topic is not None
        return topic

    def topology(self, *names: str) -> "Topology":
        """Return topics with their ids and the racks of each partition's replicas, leader first.

        Without `names`: all topics except internal ones. Raises `ClusterError` if one does not
        exist.
        """
        from quorate.assignors import Topology

        racks = {broker["broker_id"]: broker["rack"] or None for broker in self.admin.describe_cluster()["brokers"]}
        topics: dict[str, list[list[int]]] = {}
        ids: dict[str, Uuid] = {}
        for topic in self.admin.describe_topics(list(names) or None):
            _check_exists(topic, topic["name"])
            if names or not topic["is_internal"]:
                # False sorts before True, so the leader comes first.
                topics[topic["name"]] = [
                    sorted(part["replica_nodes"], key=part["leader_id"].__ne__)
                    for part in sorted(topic["partitions"], key=itemgetter("partition_index"))
                ]
                ids[topic["name"]] = Uuid(UUID(topic["topic_id"]).bytes)
        return Topology.from_replicas(topics, racks, ids=ids)

    def _wait_for_leaders(self, topic: str, partitions: int) -> None:
        # Brokers learn of a leader one after another, and a client may contact any of them.
        def led() -> bool:
            return all(
                found["error_code"] == 0
                and (len(found["partitions"]) == partitions or (partitions == -1 and found["partitions"]))
                and all(part["leader_id"] >= 0 and part["error_code"] == 0 for part in found["partitions"])
                for found in self._as_each_broker_sees(topic)
            )

        number = "" if partitions == -1 else f"{partitions} "
        wait_for(f"{topic} has {number}partitions with leaders", led, self.timeout_ms)

    def wait_in_sync(self) -> None:
        """Wait until all replicas of all topics are in sync.

        Raises `ClusterError` with the partitions that are not.
        """
        out_of_sync: list[str] = []

        def caught_up() -> bool:
            out_of_sync[:] = [
                f"{topic['name']}-{part['partition_index']}: {part['isr_nodes']} of {part['replica_nodes']}"
                for topic in self.admin.describe_topics()
                for part in topic["partitions"]
                if set(part["isr_nodes"]) != set(part["replica_nodes"])
            ]
            return not out_of_sync

        try:
            wait_for("all replicas are in sync", caught_up, self.timeout_ms, every_ms=300)
        except ClusterError as error:
            raise ClusterError(f"{error}; in sync are {listed(out_of_sync)}") from error

    def _as_each_broker_sees(self, topic: str) -> Iterator[dict[str, Any]]:
        """Yield a topic's metadata from each broker that is up."""
        for broker in self._brokers_up():
            yield metadata_from(self.admin, broker, [topic])["topics"][0]

    def _brokers_up(self) -> list[int]:
        return [
            broker["broker_id"]
            for broker in self.admin.describe_cluster()["brokers"]
            if not broker.get("is_fenced")  # before 4.0, fenced brokers are not listed
        ]

    # Configs

    def set_config(self, resource: str, config: Mapping[str, str | None]) -> None:
        """Set dynamic configs, and wait until all brokers know them.

        `resource`: "topic:NAME", "broker:ID", "broker:" (all brokers) or "group:ID". A value of
        `None` removes the dynamic config.

        Raises `ClusterError` if the cluster rejects the configs, or for another kind of resource.
        """
        kind, colon, name = resource.partition(":")
        if kind not in ("topic", "broker", "group") or not colon:
            raise ClusterError(
                f"{resource!r} has no configuration", "name it as topic:NAME, broker:ID, broker: or group:ID"
            )
        # One broker's own configs are validated and reported only by that broker.
        brokers = [int(name)] if kind == "broker" and name else self._brokers_up()
        refused = alter_configs(self.admin, brokers[0], kind, name, config)
        if refused is not None:
            raise ClusterError(f"the configuration of {resource} was not changed: {refused}")
        wanted = {key: None if value is None else _comparable(value) for key, value in config.items()}

        def known() -> bool:
            reported = [configs_from(self.admin, broker, kind, name, list(wanted)) for broker in brokers]
            return all(each[key] in (value, value and HIDDEN) for each in reported for key, value in wanted.items())

        wait_for(f"every broker knows the configuration of {resource}", known, self.timeout_ms)

    # Groups

    def coordinator_of(self, group: str) -> int:
        """Return the id of the broker that coordinates a group."""
        leader: int = self._offsets_partition(group)["leader_id"]
        return leader

    def offsets_partition_of(self, group: str) -> int:
        """Return the partition of `__consumer_offsets` that stores a group."""
        partition: int = self._offsets_partition(group)["partition_index"]
        return partition

    def _offsets_partition(self, group: str) -> dict[str, Any]:
        """Return metadata of the partition that stores a group.

        Brokers create `__consumer_offsets` with the first group.
        """
        if CONSUMER_OFFSETS not in self.admin.list_topics():
            self._wait_for_offsets_topic()
        partitions = self.describe_topic(CONSUMER_OFFSETS)["partitions"]
        index = partition_for(group, len(partitions))
        (found,) = [part for part in partitions if part["partition_index"] == index]
        return dict(found)

    def _wait_for_offsets_topic(self) -> None:
        """Wait until each partition of `__consumer_offsets` has a leader."""
        from kafka.errors import KafkaError

        wait_for(
            f"{CONSUMER_OFFSETS} has leaders", self._offsets_topic_led, self.timeout_ms, also=(KafkaError, ClusterError)
        )

    def _offsets_topic_led(self) -> bool:
        try:
            partitions = self.describe_topic(CONSUMER_OFFSETS)["partitions"]
        except ClusterError:
            # FindCoordinator makes the broker create the topic.
            self.admin.list_group_offsets("quorate-readiness")
            raise
        return all(partition["leader_id"] >= 0 for partition in partitions)

    def move_coordinator(self, group: str, broker: int) -> None:
        """Make a broker the coordinator of a group, by moving leadership of its offsets partition.

        All groups of that partition move with it.
        """
        found = self._offsets_partition(group)
        others = [node for node in found["replica_nodes"] if node != broker]
        self.reassign(CONSUMER_OFFSETS, {found["partition_index"]: [broker, *others][: len(found["replica_nodes"])]})

    def read_offsets_topic(self, **options: Any) -> "Iterator[LogEntry]":
        """Yield the current entries of `__consumer_offsets`, decoded.

        `options`: those of `quorate.codecs.read_live`.
        """
        config = {**self.client_config, "bootstrap_servers": self.responsive_servers}
        with closing(read_live(**{**config, **options})) as entries:  # type: ignore[type-var]
            yield from entries


def response_from(admin: "KafkaAdminClient", broker: int, request: Any) -> dict[str, Any]:
    """Send a request to one broker, and return its response in kafka-python's form.

    The client's own methods choose any idle broker, which may be frozen.
    """
    manager = admin._manager
    response: dict[str, Any] = manager.run(manager.send, request, broker).to_dict()
    return response


def metadata_from(admin: "KafkaAdminClient", broker: int, topics: Collection[str] | None = ()) -> dict[str, Any]:
    """Return metadata as one broker has it; of all topics with `None`.

    `brokers` are the unfenced ones, with their racks.
    """
    from kafka.protocol.metadata import MetadataRequest

    named = None if topics is None else [MetadataRequest.MetadataRequestTopic(name=topic) for topic in topics]
    return response_from(admin, broker, MetadataRequest(topics=named, allow_auto_topic_creation=False))


def alter_configs(
    admin: "KafkaAdminClient", broker: int, kind: str, name: str, config: Mapping[str, str | None]
) -> str | None:
    """Send a request to one broker that sets configs, or removes those with the value `None`.

    Returns the reason if the broker rejects it, else `None`.

    kafka-python's own method cannot address all brokers, or set a group's first config.
    """
    from kafka.admin import ConfigResourceType
    from kafka.errors import for_code
    from kafka.protocol.admin.configs import IncrementalAlterConfigsRequest as Request

    changes = [(key, int(value is None), value) for key, value in config.items()]  # operation 0 sets, 1 deletes
    resource = (ConfigResourceType[kind.upper()].value, name, changes)
    (response,) = response_from(admin, broker, Request(resources=[resource], validate_only=False))["responses"]
    if response["error_code"] == 0:
        return None
    error: str = for_code(response["error_code"]).__name__
    return f"{error}: {response['error_message']}"


def configs_from(
    admin: "KafkaAdminClient", broker: int, kind: str, name: str, keys: Sequence[str]
) -> dict[str, str | None]:
    """Return the dynamic configs of a resource, as one broker reports them.

    `None` for a config that is inherited, `HIDDEN` for a sensitive one.
    """
    from kafka.admin import ConfigResourceType
    from kafka.protocol.admin.configs import DescribeConfigsRequest as Request

    source = {"topic": 1, "broker": 2 if name else 3, "group": 8}[kind]
    resource = (ConfigResourceType[kind.upper()].value, name, list(keys))
    (result,) = response_from(admin, broker, Request(resources=[resource], include_synonyms=True))["results"]
    values: dict[str, str | None] = dict.fromkeys(keys)
    for entry in result["configs"]:
        # Configs of groups have no synonyms.
        for level in [*entry["synonyms"], {"source": entry["config_source"], "value": entry["value"]}]:
            if level["source"] == source:
                values[entry["name"]] = HIDDEN if level["value"] is None else _comparable(level["value"])
    return values


def _comparable(value: str) -> str:
    """Return a value in the form in which brokers report it: `0.5` for 0.50, `a,b` for "a, b"."""
    return ",".join(_number_or_word(part.strip()) for part in value.split(","))


def _number_or_word(text: str) -> str:
    try:
        return repr(float(text))
    except ValueError:
        return text.lower()


def _check_exists(topic: Mapping[str, Any] | None, name: str) -> None:
    if topic is None or topic["error_code"] not in (0, 5):  # 5: some partition has no leader
        raise ClusterError(f"topic {name} does not exist")
