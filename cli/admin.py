"""kafka-python's admin client as the commands use it: connected with errors in one line, and topics with their racks."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any
from uuid import UUID

from quorate.assignors import Topic, TopicPartition, Topology
from quorate.cli.errors import UserError
from quorate.codecs import Uuid
from quorate.codecs.live_connect import check_connection, client_log, connect, explain_error, where_text
from quorate.coordinator.image import MetadataImage, TopicImage

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

__all__ = ["end_offsets", "open_admin", "read_image", "read_topology", "topic_ids"]

REQUEST_TIMEOUT_MS = 30_000


@contextmanager
def open_admin(
    servers: Sequence[str], config: Mapping[str, Any], connect_timeout_ms: int, doing: str
) -> Iterator[tuple["KafkaAdminClient", str]]:
    """A client, and what to call the cluster in errors. `config`: kafka-python's; `doing`: what fails if the cluster refuses something.

    Raises `LiveError`, and `UserError` for what Kafka refuses within.
    """
    where = where_text(servers, config)
    check_connection(servers, config)
    with client_log() as said:
        from kafka.admin import KafkaAdminClient
        from kafka.errors import KafkaError

        limits = {"bootstrap_timeout_ms": connect_timeout_ms, "request_timeout_ms": REQUEST_TIMEOUT_MS}
        settings = limits | dict(config)
        unknown = [name for name in settings if name not in KafkaAdminClient.DEFAULT_CONFIG]
        if unknown:
            option = unknown[0].replace("_", "-")
            raise UserError(f"--{option}: kafka-python's admin client does not take it", "leave it out")
        admin: KafkaAdminClient = connect(KafkaAdminClient, servers, settings, connect_timeout_ms, said)
        with closing(admin):
            try:
                yield admin, where
            except KafkaError as error:
                raise UserError(
                    f"{where}: {doing} failed: {explain_error(error)}",
                    "it takes DESCRIBE on the group and on its topics",
                ) from error


def topic_ids(admin: "KafkaAdminClient") -> dict[Uuid, str]:
    """Id → name of all topics that may be seen."""
    return {
        _uuid(topic["topic_id"]): topic["name"]
        for topic in admin.describe_topics()
        if topic.get("topic_id") and not topic["error_code"]
    }


def end_offsets(admin: "KafkaAdminClient", partitions: Iterable[tuple[str, int]]) -> dict[TopicPartition, int]:
    """The log end offset of each of these partitions."""
    from kafka.admin import OffsetSpec
    from kafka.structs import TopicPartition as At

    wanted = {At(topic, number): OffsetSpec.LATEST for topic, number in partitions}
    ends = admin.list_partition_offsets(wanted, timeout_ms=REQUEST_TIMEOUT_MS) if wanted else {}
    return {TopicPartition(at.topic, at.partition): end.offset for at, end in ends.items()}


def read_image(admin: "KafkaAdminClient") -> MetadataImage:
    """All topics that may be seen, with the brokers of their replicas, and the brokers' racks."""
    brokers = {one["broker_id"]: one.get("rack") or None for one in admin.describe_cluster()["brokers"]}
    topics = []
    for one in admin.describe_topics():
        if one["error_code"] or not one.get("topic_id"):
            continue
        partitions = sorted(one["partitions"], key=lambda partition: int(partition["partition_index"]))
        replicas = tuple(tuple(partition["replica_nodes"]) for partition in partitions)
        topics.append(TopicImage(name=one["name"], id=_uuid(one["topic_id"]), replicas=replicas))
    return MetadataImage().with_brokers(brokers).with_topics(topics)


def read_topology(admin: "KafkaAdminClient", names: Collection[str]) -> Topology:
    """These topics with the racks of their replicas, the leader's first. Those that were deleted, or are not for us to see, are left out."""
    wanted = sorted(names)
    racks = {one["broker_id"]: one.get("rack") or None for one in admin.describe_cluster()["brokers"]}
    topics = []
    for one in admin.describe_topics(wanted) if wanted else ():
        if one["error_code"]:
            continue
        partitions = sorted(one["partitions"], key=lambda partition: int(partition["partition_index"]))
        numbers = [partition["partition_index"] for partition in partitions]
        topics.append(
            Topic(
                name=one["name"],
                partitions=len(partitions),
                racks=tuple(
                    tuple(racks.get(broker) for broker in _leader_first(partition)) for partition in partitions
                ),
                id=_uuid(one["topic_id"]) if one.get("topic_id") else None,
                numbers=None if numbers == list(range(len(numbers))) else numbers,
            )
        )
    return Topology(topics)


def _leader_first(partition: Mapping[str, Any]) -> list[int]:
    leader = partition["leader_id"]
    replicas: list[int] = partition["replica_nodes"]
    return [leader, *(one for one in replicas if one != leader)] if leader in replicas else replicas


def _uuid(text: str) -> Uuid:
    return Uuid(UUID(str(text)).bytes)
