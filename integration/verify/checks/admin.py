"""Topics, partitions, configs and metadata. Nothing here changes the cluster as a whole."""

from typing import Any

from quorate.codecs import Uuid
from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.session import CheckSession

_UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ")
_TOPIC = 2
_SET, _DELETE, _APPEND, _SUBTRACT = 0, 1, 2, 3


def create(s: CheckSession, *topics: dict[str, Any], version: int = 7, **more: Any) -> Any:
    """Send CreateTopics, and record the response."""
    return s.ask("CreateTopics", version, timeout_ms=10_000, topics=list(topics), **more)


def named(name: str, **fields: Any) -> dict[str, Any]:
    """Return a topic with one partition for CreateTopics."""
    return {"name": name, "num_partitions": 1, "replication_factor": 1, **fields}


def alter(s: CheckSession, topic: str, *changes: tuple[str, int, str | None], **more: Any) -> Any:
    """Send IncrementalAlterConfigs of a topic."""
    configs = [{"name": name, "config_operation": operation, "value": value} for name, operation, value in changes]
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configs": configs}
    return s.ask("IncrementalAlterConfigs", 1, resources=[resource], **more)


def delete(s: CheckSession, *topics: dict[str, Any]) -> None:
    """Send DeleteTopics, and record the response."""
    s.ask("DeleteTopics", 6, timeout_ms=10_000, topics=list(topics))


def metadata(s: CheckSession, topic: dict[str, Any], *, version: int = 9, **more: Any) -> None:
    """Send Metadata of a topic, and record the response."""
    s.ask("Metadata", version, topics=[topic], allow_auto_topic_creation=False, **more)


def describe(s: CheckSession, topic: str, *names: str, **more: Any) -> Any:
    """Send DescribeConfigs of a topic."""
    resource = {"resource_type": _TOPIC, "resource_name": topic, "configuration_keys": list(names)}
    return s.ask("DescribeConfigs", 4, resources=[resource], **more)


@check("Kafka protocol guide", "CreateTopics of an existing topic is a TOPIC_ALREADY_EXISTS.")
def topic_is_created_once(s: CheckSession) -> None:
    name = s.name("t")
    create(s, named(name))
    create(s, named(name))


@check(
    "Kafka protocol guide",
    "Topic names that are empty, too long, dots, or have other characters are an INVALID_TOPIC_EXCEPTION.",
)
def topic_name_has_to_be_valid(s: CheckSession) -> None:
    for name in ("", ".", "..", s.name("a b"), s.name("x" * 250), s.name("a/b")):
        create(s, named(name))


@check("Kafka protocol guide", "Names that differ only in dots and underscores collide: INVALID_TOPIC_EXCEPTION.")
def topic_names_must_not_collide(s: CheckSession) -> None:
    name = s.name("a.b")
    create(s, named(name))
    create(s, named(name.replace(".", "_")))


@check("Kafka protocol guide", "CreateTopics that names a topic twice is an INVALID_REQUEST for it.")
def repeated_topic_is_rejected(s: CheckSession) -> None:
    name = s.name("t")
    create(s, named(name), named(name))


@check(
    "Kafka protocol guide",
    "0 partitions are INVALID_PARTITIONS; 0 replicas, or more than brokers, an INVALID_REPLICATION_FACTOR.",
)
def numbers_of_a_topic_have_to_be_valid(s: CheckSession) -> None:
    create(s, named(s.name("t"), num_partitions=0))
    create(s, named(s.name("t"), num_partitions=-2))
    create(s, named(s.name("t"), replication_factor=0))
    create(s, named(s.name("t"), replication_factor=3000))


@check("KIP-464", "-1 partitions and replicas are the defaults of the brokers.")
def numbers_of_a_topic_have_defaults(s: CheckSession) -> None:
    create(s, named(s.name("t"), num_partitions=-1, replication_factor=-1), version=4)


@check(
    "Kafka protocol guide",
    "CreateTopics with numbers and an assignment is an INVALID_REQUEST; the assignment has to be complete.",
)
def replicas_are_given_once(s: CheckSession) -> None:
    both = [{"partition_index": 0, "broker_ids": [1]}]
    create(s, named(s.name("t"), assignments=both))
    for index, broker_id in ((1, 1), (0, 987654)):
        assignments = [{"partition_index": index, "broker_ids": [broker_id]}]
        create(s, named(s.name("t"), num_partitions=-1, replication_factor=-1, assignments=assignments))


@check("Kafka protocol guide", "An unknown config, or an invalid value, is an INVALID_CONFIG.")
def configs_of_a_topic_have_to_be_valid(s: CheckSession) -> None:
    for name, value in (("no.such.config", "1"), ("retention.ms", "soon"), ("cleanup.policy", "never")):
        create(s, named(s.name("t"), configs=[{"name": name, "value": value}]))


@check("KIP-4", "CreateTopics with validate_only creates nothing.")
def topic_is_only_validated(s: CheckSession) -> None:
    name = s.name("t")
    create(s, named(name), validate_only=True)
    metadata(s, {"name": name})


@check(
    "KIP-599", "DeleteTopics of a missing name is an UNKNOWN_TOPIC_OR_PARTITION, of a missing id an UNKNOWN_TOPIC_ID."
)
def deleted_topic_has_to_exist(s: CheckSession) -> None:
    topic = s.topic()
    delete(s, {"name": s.name("none")}, {"topic_id": _UNKNOWN_ID})
    delete(s, {"name": topic, "topic_id": _UNKNOWN_ID})
    s.ask("DeleteTopics", 5, timeout_ms=10_000, topic_names=[topic])
    metadata(s, {"name": topic}, until=lambda response: bool(response.topics[0].error_code))


@check("KIP-516", "DeleteTopics accepts topic ids.")
def topics_are_deleted_by_id(s: CheckSession) -> None:
    topic = s.topic()
    delete(s, {"topic_id": s.target.topic_id(topic), "name": None})


@check("KIP-195", "CreatePartitions with as many partitions or fewer is an INVALID_PARTITIONS.")
def partitions_can_only_be_added(s: CheckSession) -> None:
    topic = s.topic(2)
    for name, count in ((topic, 1), (topic, 2), (topic, 4), (s.name("none"), 4)):
        s.ask("CreatePartitions", 3, timeout_ms=10_000, topics=[{"name": name, "count": count, "assignments": None}])


@check("KIP-339", "IncrementalAlterConfigs sets and deletes single configs, and changes elements of lists.")
def configs_are_altered_one_by_one(s: CheckSession) -> None:
    topic = s.topic()
    alter(s, topic, ("retention.ms", _SET, "60000"), ("cleanup.policy", _APPEND, "compact"))
    describe(s, topic, "retention.ms", "cleanup.policy", until=lambda response: "60000" in repr(response))
    alter(s, topic, ("retention.ms", _DELETE, None), ("cleanup.policy", _SUBTRACT, "delete"))
    describe(s, topic, "retention.ms", "cleanup.policy", until=lambda response: "60000" not in repr(response))


@check("KIP-339", "Appending to a number, unknown names, invalid values and repeated names are rejected.")
def invalid_changes_of_configs(s: CheckSession) -> None:
    topic = s.topic()
    alter(s, topic, ("retention.ms", _APPEND, "1"))
    alter(s, topic, ("no.such.config", _SET, "1"))
    alter(s, topic, ("retention.ms", _SET, "soon"))
    alter(s, topic, ("retention.ms", _SET, "1"), ("retention.ms", _SET, "2"))
    alter(s, topic, ("retention.ms", 9, "1"))
    alter(s, s.name("none"), ("retention.ms", _SET, "1"))


@check("KIP-133", "AlterConfigs replaces all configs of a topic.")
def configs_are_replaced(s: CheckSession) -> None:
    topic = s.topic(max__message__bytes="1000")
    resource = {
        "resource_type": _TOPIC,
        "resource_name": topic,
        "configs": [{"name": "retention.ms", "value": "60000"}],
    }
    s.ask("AlterConfigs", 2, resources=[resource])
    names = ("retention.ms", "max.message.bytes")
    describe(s, topic, *names, until=lambda response: "60000" in repr(response))


@check("KIP-133", "DescribeConfigs of a missing topic is an UNKNOWN_TOPIC_OR_PARTITION; unknown names are left out.")
def described_topic_has_to_exist(s: CheckSession) -> None:
    describe(s, s.name("none"), "retention.ms")
    describe(s, s.topic(retention__ms="60000"), "retention.ms", "no.such.config")


@check("KIP-226", "DescribeConfigs with synonyms returns the values of a config by source.")
def synonyms_of_configs_are_described(s: CheckSession) -> None:
    topic = s.topic(file__delete__delay__ms="60001")
    describe(s, topic, "file.delete.delay.ms", include_synonyms=True, until=lambda response: "60001" in repr(response))


@check(
    "Kafka protocol guide",
    "Metadata of a missing topic is an UNKNOWN_TOPIC_OR_PARTITION, of an invalid name INVALID_TOPIC_EXCEPTION.",
)
def metadata_of_a_missing_topic(s: CheckSession) -> None:
    for name in (s.name("none"), "a b", ""):
        metadata(s, {"name": name})


@check("KIP-516", "Metadata accepts topic ids; a missing id is an UNKNOWN_TOPIC_ID.")
def metadata_by_topic_id(s: CheckSession) -> None:
    topic = s.topic(2)
    for topic_id in (s.target.topic_id(topic), _UNKNOWN_ID):
        metadata(s, {"topic_id": topic_id, "name": None}, version=12)


@check(
    "KIP-699", "FindCoordinator since version 4 finds several coordinators; an unknown key type is an INVALID_REQUEST."
)
def coordinators_are_found_in_batches(s: CheckSession) -> None:
    s.ask("FindCoordinator", 4, key_type=0, coordinator_keys=[s.name(), s.name()])
    s.ask("FindCoordinator", 4, key_type=9, coordinator_keys=[s.name()], transient=frozenset())
    s.ask("FindCoordinator", 3, key_type=0, key=s.name())


@check("KIP-700", "DescribeCluster returns the brokers; endpoints of an unknown type are an error.")
def cluster_is_described(s: CheckSession) -> None:
    s.ask("DescribeCluster", 0)
    s.ask("DescribeCluster", 1, endpoint_type=9)


@check("KIP-966", "DescribeTopicPartitions returns pages with a cursor.")
def partitions_are_described_in_pages(s: CheckSession) -> None:
    topic = s.topic(3)
    page = s.ask("DescribeTopicPartitions", 0, topics=[{"name": topic}], response_partition_limit=2)
    cursor = {"topic_name": page.next_cursor.topic_name, "partition_index": page.next_cursor.partition_index}
    s.ask("DescribeTopicPartitions", 0, topics=[{"name": topic}], response_partition_limit=2, cursor=cursor)
    s.ask("DescribeTopicPartitions", 0, topics=[{"name": s.name("none")}])


@check("KIP-460", "ElectLeaders is ELECTION_NOT_NEEDED for a preferred leader, and rejects missing partitions.")
def leaders_are_elected_if_needed(s: CheckSession) -> None:
    topic = s.topic()
    partitions = [{"topic": topic, "partitions": [0, 7]}, {"topic": s.name("none"), "partitions": [0]}]
    s.ask("ElectLeaders", 2, election_type=0, topic_partitions=partitions, timeout_ms=10_000)


@check("KIP-455", "ListPartitionReassignments of a partition that does not move is empty.")
def reassignments_are_listed(s: CheckSession) -> None:
    topic = s.topic()
    s.ask("ListPartitionReassignments", 0, timeout_ms=10_000, topics=[{"name": topic, "partition_indexes": [0]}])


@check(
    "KIP-455", "AlterPartitionReassignments rejects unknown brokers and partitions, and cancelling what does not move."
)
def reassignments_have_to_be_valid(s: CheckSession) -> None:
    topic = s.topic()
    for partition, replicas in ((0, [987654]), (0, []), (0, [1, 1]), (9, [1]), (0, None)):
        partitions = [{"partition_index": partition, "replicas": replicas}]
        s.ask("AlterPartitionReassignments", 0, timeout_ms=10_000, topics=[{"name": topic, "partitions": partitions}])


CHECKS = checks_in(globals())
