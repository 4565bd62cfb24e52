"""Metadata of a running cluster by kafka-python's admin client: topics, racks, end offsets.

Groups are not part of this module.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from quorate.assignors import Topic, TopicPartition, Topology
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError
from quorate.codecs.live_connect import check_connection, client_log, connect, explain_error, where_text
from quorate.codecs.printable import listed
from quorate.coordinator.image import MetadataImage, TopicImage

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

REQUEST_TIMEOUT_MS = 30_000


@contextmanager
def open_admin(
    servers: Sequence[str],
    config: Mapping[str, Any],
    connect_timeout_ms: int,
    doing: str,
    required: str = "DESCRIBE on the group and on its topics is required",
) -> Iterator[tuple["KafkaAdminClient", str]]:
    """Connect an admin client; yields it, and the name of the cluster for errors.

    `config`: kafka-python's. `doing`: the operation, for errors, and `required`: its permissions,
    for errors of authorization.
    Raises `LiveError`, and `InputError` for errors of Kafka within the block.
    """
    where = where_text(servers, config)
    check_connection(servers, config)
    with client_log() as log:
        from kafka.admin import KafkaAdminClient
        from kafka.errors import AuthorizationError, KafkaError, RetriableError

        limits = {"bootstrap_timeout_ms": connect_timeout_ms, "request_timeout_ms": REQUEST_TIMEOUT_MS}
        client_config = limits | dict(config)
        unknown = [name for name in client_config if name not in KafkaAdminClient.DEFAULT_CONFIG]
        if unknown:
            option = unknown[0].replace("_", "-")
            raise InputError(f"--{option}: kafka-python's admin client does not support it", "leave it out")
        admin: KafkaAdminClient = connect(KafkaAdminClient, servers, client_config, connect_timeout_ms, log)
        with closing(admin):
            try:
                yield admin, where
            except KafkaError as error:
                kinds = {AuthorizationError: required, RetriableError: "check the brokers, and try again"}
                remedies = [remedy for kind, remedy in kinds.items() if isinstance(error, kind)]
                raise InputError(f"{where}: {doing} failed: {explain_error(error)}", *remedies) from error


def topic_ids(admin: "KafkaAdminClient") -> dict[Uuid, str]:
    """Return id → name of all topics that are visible."""
    return {
        _uuid(topic["topic_id"]): topic["name"]
        for topic in admin.describe_topics()
        if topic.get("topic_id") and not topic["error_code"]
    }


def end_offsets(admin: "KafkaAdminClient", partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
    """Return the log end offsets of partitions, all of which must have a leader."""
    from kafka.admin import OffsetSpec
    from kafka.structs import TopicPartition as At

    wanted = {At(topic, number): OffsetSpec.LATEST for topic, number in partitions}
    ends = admin.list_partition_offsets(wanted, timeout_ms=REQUEST_TIMEOUT_MS) if wanted else {}
    return {TopicPartition(at.topic, at.partition): end.offset for at, end in ends.items()}


def live_image(admin: "KafkaAdminClient") -> MetadataImage:
    """Return all visible topics, with the brokers of their replicas and the brokers' racks."""
    brokers = {broker["broker_id"]: broker.get("rack") or None for broker in admin.describe_cluster()["brokers"]}
    topics = []
    for topic in admin.describe_topics():
        if topic["error_code"] or not topic.get("topic_id"):
            continue
        partitions = sorted(topic["partitions"], key=lambda partition: int(partition["partition_index"]))
        replicas = tuple(tuple(partition["replica_nodes"]) for partition in partitions)
        topics.append(TopicImage(name=topic["name"], id=_uuid(topic["topic_id"]), replicas=replicas))
    return MetadataImage().with_brokers(brokers).with_topics(topics)


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTopics:
    """Topics of a running cluster. `leaderless`: their partitions that have no leader at present.

    A request for the offsets of several partitions fails for all of them if one has no leader.
    """

    topology: Topology
    leaderless: frozenset[TopicPartition]

    def with_leader(self, partitions: Iterable[tuple[str, int]]) -> set[TopicPartition]:
        """Return those of the partitions that exist and have a leader."""
        known = {TopicPartition(*at) for at in partitions if self.topology.number(*at) >= 0}
        return known - self.leaderless


def without_leader(partitions: Collection[TopicPartition]) -> str:
    """Return a note about partitions whose log end offsets are unknown."""
    names = [f"{topic}-{number}" for topic, number in sorted(partitions)]
    return f"no leader, and so no log end offset: {listed(names, 5)}"


def live_topics(admin: "KafkaAdminClient", names: Collection[str] | None) -> LiveTopics:
    """Return topics with the racks of their replicas, the leader's first; `None` for all topics.

    Topics that were deleted or are not visible are left out.
    """
    wanted = None if names is None else sorted(names)
    racks = {one["broker_id"]: one.get("rack") or None for one in admin.describe_cluster()["brokers"]}
    topics = []
    leaderless = set()
    for topic in admin.describe_topics(wanted) if wanted != [] else ():
        if topic["error_code"]:
            continue
        name, partitions = topic["name"], sorted(topic["partitions"], key=lambda one: int(one["partition_index"]))
        numbers = [partition["partition_index"] for partition in partitions]
        leaderless |= {TopicPartition(name, one["partition_index"]) for one in partitions if one["leader_id"] < 0}
        topics.append(
            Topic(
                name=name,
                partitions=len(partitions),
                racks=tuple(
                    tuple(racks.get(broker) for broker in _leader_first(partition)) for partition in partitions
                ),
                id=_uuid(topic["topic_id"]) if topic.get("topic_id") else None,
                numbers=None if numbers == list(range(len(numbers))) else numbers,
            )
        )
    return LiveTopics(topology=Topology(topics), leaderless=frozenset(leaderless))


def _leader_first(partition: Mapping[str, Any]) -> list[int]:
    leader = partition["leader_id"]
    replicas: list[int] = partition["replica_nodes"]
    return [leader, *(replica for replica in replicas if replica != leader)] if leader in replicas else replicas


def _uuid(text: str) -> Uuid:
    return Uuid(UUID(str(text)).bytes)
