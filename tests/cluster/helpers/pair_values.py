"""Generators of realistic field values for `pair_requests`.

By the name of a field, or of its struct and it: a function of the generator and of the fields
before it. The module is long because half of it is one table.
"""

import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from quorate.cluster.core import ClusterCore
from quorate.codecs import Uuid
from quorate.codecs.configs import config_keys
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.releases import KafkaVersion, features_of
from quorate.codecs.wire import ArrayType, StructType
from tests.cluster.helpers.pair_config_values import random_config
from tests.cluster.helpers.pair_group_values import SENSIBLE_GROUPS
from tests.cluster.helpers.pair_share_values import KIND_OF_GROUP, SENSIBLE_SHARE
from tests.cluster.helpers.pair_streams_values import KIND_OF_STREAMS, SENSIBLE_STREAMS, STREAMS_GROUPS

if TYPE_CHECKING:
    from tests.cluster.helpers.pair_requests import Requests

TOPICS = ("a", "b", "c", "d.1", "d_1", "e")
INTERNAL = ("__consumer_offsets", "__transaction_state")
NAME_INTERNAL = frozenset({"Produce", "AddPartitionsToTxn", "Metadata", "OffsetCommit"})
"""APIs that may name internal topics: changes of these would disturb other requests, and their size
depends on retries.
"""
BAD_TOPICS = ("", ".", "..", "with space", "é", "x" * 250, "nowhere")
TRANSACTIONAL_IDS = ("x", "y", "z")
USERS = ("alice", "bob", "")
GROUPS = {
    "classic": ("classic-0", "classic-1"),
    "consumer": ("consumer-0", "consumer-1"),
    "share": ("share-0",),
    "streams": STREAMS_GROUPS,
    "state": ("state-0",),
    "simple": ("simple-0",),
}
TOPIC_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("retention.ms", "86400000"),
    ("retention.ms", "-1"),
    ("cleanup.policy", "compact"),
    ("cleanup.policy", "compact,delete"),
    ("cleanup.policy", "delete"),
    ("max.message.bytes", "200"),
    ("message.timestamp.type", "LogAppendTime"),
    ("min.insync.replicas", "1"),
    ("segment.bytes", "10485760"),
    ("compression.type", "producer"),
    ("compression.type", "uncompressed"),
    ("compression.type", "zstd"),
    ("compression.type", "gzip"),
    ("message.timestamp.after.max.ms", "1000000"),
)
BAD_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("retention.ms", "soon"),
    ("retention.ms", "-5"),
    ("retention.ms", None),
    ("cleanup.policy", "burn"),
    ("cleanup.policy", ""),
    ("no.such.setting", "1"),
    ("max.message.bytes", "-1"),
    ("min.insync.replicas", "0"),
    ("message.timestamp.type", "logappendtime"),
    ("compression.type", "rar"),
    ("segment.bytes", "1"),
    ("unclean.leader.election.enable", "maybe"),
    ("min.cleanable.dirty.ratio", "2"),
    ("", "1"),
)
GROUP_CONFIGS: tuple[tuple[str, str | None], ...] = (
    ("consumer.session.timeout.ms", "50000"),
    ("consumer.heartbeat.interval.ms", "6000"),
    ("share.session.timeout.ms", "50000"),
    ("streams.num.standby.replicas", "1"),
    ("streams.rack.aware.assignment.tags", "zone"),
    ("consumer.session.timeout.ms", "1"),
    ("consumer.session.timeout.ms", "x"),
    ("no.such.setting", "1"),
)
EMPTY_ASSIGNMENT = b"\0\0\0\0\0\0\xff\xff\xff\xff"
EMPTY_SUBSCRIPTION = b"\0\0\0\0\0\1\0\1a\xff\xff\xff\xff"


FETCH_WITH_EPOCHS = 12
"""The first version of Fetch with `last_fetched_epoch`."""


def topic_name(core: ClusterCore, topic_id: Uuid | None) -> str:
    found = core.topics_by_id.get(topic_id) if topic_id is not None else None
    return found.name if found is not None else ""


Values = dict[str, Any]
Make = Callable[["Requests", Values], Any]


def _resource_name(gen: "Requests", values: Values) -> str:
    kind = values.get("resource_type")
    if kind == 2:
        return gen.topic()
    if kind == 32:
        return gen.any_group()
    if kind == 16:
        return gen.random.choice(("push", "push", "another", ""))
    return gen.random.choice(("1", "1", "", "7", "x"))


def _declared(gen: "Requests", resource: int) -> tuple[tuple[str, str | None], ...]:
    """Return two configs, each of another name."""
    version = gen.core.broker_configs.kafka_version
    return tuple(dict(random_config(gen.random, resource, version) for _ in range(4)).items())[:2]


CLIENT_METRICS_CONFIGS: tuple[tuple[str, str | None], ...] = (
    *(("metrics", value) for value in ("a.b,c", "*", "", "a,a", "a,,b")),
    *(("interval.ms", value) for value in ("100", "60000", "99", "3600001", " 200 ", "often", "")),
    *(("match", value) for value in ("client_id=a.*", "client_id=a,client_source_port=1", "client_id", "=a", "x=y")),
    *(("match", value) for value in ("client_id=[", "client_id=a=b", "client_id=a==", " client_id = a b ", "")),
    ("retention.ms", "1"),
)


def _config(gen: "Requests") -> tuple[str, str | None]:
    if gen.random.random() < 0.3:
        return random_config(gen.random, 2, gen.core.broker_configs.kafka_version)
    if gen.random.random() < gen.wildness:
        return gen.random.choice(BAD_CONFIGS)
    return gen.random.choice(TOPIC_CONFIGS if gen.random.random() < 0.95 else GROUP_CONFIGS)


def _alterable(gen: "Requests", values: Values) -> tuple[Message, ...]:
    """Return configs that fit the resource type, mostly without duplicates."""
    spec = next(field for field in gen.api.request.fields if field.name == "resources").type.element.spec  # type: ignore[union-attr]
    of_config = next(field for field in spec.fields if field.name == "configs").type.element.spec.cls
    pool: tuple[tuple[str, str | None], ...] = TOPIC_CONFIGS
    declared = values["resource_type"] in (2, 32) and gen.random.random() < 0.5
    if declared and config_keys(values["resource_type"], gen.core.broker_configs.kafka_version):
        pool = _declared(gen, values["resource_type"])
    elif values["resource_type"] == 32:
        pool = GROUP_CONFIGS
    elif values["resource_type"] == 16:
        pool = CLIENT_METRICS_CONFIGS
    elif values["resource_type"] == 4:
        return ()  # its changes would persist
    elif gen.random.random() < gen.wildness:
        pool += BAD_CONFIGS
    out = []
    for name, value in gen.random.sample(pool, min(gen.random.choice((0, 1, 1, 1, 2)), len(pool))):
        operation = (
            {"config_operation": gen.random.choice((0, 0, 0, 1, 1, 2, 3, 9))} if "Incremental" in gen.api.name else {}
        )
        out.append(of_config(name=name, value=value, **operation))
    return tuple(out)


def _configs_to_make(gen: "Requests", values: Values) -> tuple[Message, ...]:
    from quorate.codecs.api.broker.create_topics import CreatableTopicConfig

    return tuple(
        CreatableTopicConfig(name=name, value=value)
        for name, value in (_config(gen) for _ in range(gen.random.choice((0, 0, 0, 1, 2))))
    )


def _assignments_to_make(gen: "Requests", values: Values) -> tuple[Message, ...]:
    from quorate.codecs.api.broker.create_topics import CreatableReplicaAssignment

    if gen.random.random() < 0.85 - gen.wildness:
        return ()
    count = gen.random.choice((1, 2))
    if gen.random.random() < 0.8:
        values["num_partitions"] = values["replication_factor"] = -1
    return tuple(
        CreatableReplicaAssignment(
            partition_index=index + (gen.random.random() < gen.wildness / 4),
            broker_ids=gen.random.choice(((1,), (1,), (1,), (2,), (), (1, 1), (-1,), (1, 2))),
        )
        for index in range(count)
    )


def _owned(gen: "Requests", values: Values) -> Any:
    if values["member_epoch"] == 0:
        return ()
    owned = gen.owned.get((values["group_id"], values["member_id"]))
    return gen.random.choice((None, owned, owned, ()))


def _assignment_of_group(gen: "Requests", values: Values) -> tuple[Message, ...]:
    from quorate.codecs.api.sync_group import SyncGroupRequestAssignment

    return (SyncGroupRequestAssignment(member_id=values["member_id"], assignment=EMPTY_ASSIGNMENT),)


def _topics_by_id(name: str = "name") -> Make:
    return lambda gen, values: gen.topic_id(values.get(name))


def _pick(*values: Any) -> Make:
    return lambda gen, _: gen.random.choice(values)


_KIND_OF_GROUP = {
    "JoinGroup": "classic",
    "SyncGroup": "classic",
    "Heartbeat": "classic",
    "LeaveGroup": "classic",
    "ConsumerGroupHeartbeat": "consumer",
    "ConsumerGroupDescribe": "consumer",
    **KIND_OF_GROUP,
    **KIND_OF_STREAMS,
}


_HEARTBEATS = ("ConsumerGroupHeartbeat", "ShareGroupHeartbeat", "StreamsGroupHeartbeat")


def _group(gen: "Requests", values: Values) -> str:
    kind = _KIND_OF_GROUP.get(gen.api.name)
    return gen.any_group() if kind is None else gen.group(kind)


def _groups(gen: "Requests", values: Values) -> tuple[str, ...]:
    return tuple(_group(gen, values) for _ in range(gen.random.choice((1, 1, 2, 0))))


def _member_id(gen: "Requests", values: Values) -> str:
    member, gen.scratch["epoch"] = gen.member(values.get("group_id", ""))
    if gen.api.name in _HEARTBEATS and member in ("", "stranger"):
        member, gen.scratch["epoch"] = gen.random.choice(("m", "n", "o")), 0
    return member


def _epoch_of_member(gen: "Requests", values: Values) -> int:
    known: int = gen.scratch.pop("epoch", -1)
    return known if gen.random.random() < 0.85 else gen.random.choice((-1, 0, known + 1, known - 1, -2, -3))


def _producer_id(gen: "Requests", values: Values) -> int:
    tid = values.get("transactional_id", values.get("v3_and_below_transactional_id"))
    found, gen.scratch["producer_epoch"] = gen.transaction(tid)
    return found


def _producer_epoch(gen: "Requests", values: Values) -> int:
    return int(gen.scratch.pop("producer_epoch", -1))


def _init_producer_id(gen: "Requests", values: Values) -> int:
    gen.scratch["producer_epoch"] = -1
    if values["transactional_id"] is None or gen.random.random() < 0.7:
        return -1
    return _producer_id(gen, values)


def _session(gen: "Requests", values: Values) -> int:
    # Brokers up to 4.0 fail if a session begins with a version that has `last_fetched_epoch`, and
    # continues with one that has not.
    known = [one[:2] for one in gen.sessions if one[2] is (gen.version >= FETCH_WITH_EPOCHS)]
    if not known or gen.random.random() < (0.3 if gen.theme.name == "readers" else 0.7):
        gen.scratch["session_epoch"] = gen.random.choice((-1, -1, -1, 0, 0, 5))
        return 0 if gen.random.random() < 0.95 else 123_456
    session, gen.scratch["session_epoch"] = known[-1]
    if gen.random.random() < 0.1:
        gen.scratch["session_epoch"] = gen.random.choice((-1, 0, gen.scratch["session_epoch"] + 1))
    return session


def _fetch_offset(gen: "Requests", values: Values) -> int:
    if gen.theme.sober and gen.random.random() < 0.3:
        return gen.random.randrange(12)
    return gen.random.choice((0, 0, 0, 1, 2, 5, 20, -1)) if gen.random.random() < 0.9 else 10**9


def _partition_data(gen: "Requests", values: Values) -> tuple[Message, ...]:
    from quorate.codecs.api.broker.produce import PartitionProduceData

    name = values.get("name") or topic_name(gen.core, values.get("topic_id"))
    indexes = {gen.partition() for _ in range(gen.random.choice((1, 1, 1, 2)))}
    if gen.random.random() < 0.01:
        return ()
    tid = gen.transactional_id
    return tuple(PartitionProduceData(index=index, records=gen.batch(name, index, tid)) for index in sorted(indexes))


def _transactional_id(gen: "Requests", values: Values) -> str:
    return gen.named(*TRANSACTIONAL_IDS[: 2 if gen.theme.sober and gen.random.random() < 0.95 else 3])


def _produce_transactional_id(gen: "Requests", values: Values) -> str | None:
    often = {"transactions": 0.85, "producers": 0.0}.get(gen.theme.name, 0.4)
    tid = _transactional_id(gen, {}) if gen.random.random() < often else None
    gen.transactional_id = tid
    return tid


SENSIBLE: Mapping[str, Make] = {
    # topics and partitions
    "name": lambda gen, _: gen.topic(),
    "topic": lambda gen, _: gen.topic(),
    "topic_name": lambda gen, _: gen.topic(),
    "TopicRequest.name": lambda gen, _: gen.topic() or "nowhere",
    "topic_id": lambda gen, values: gen.topic_id(values.get("name") or values.get("topic")),
    "DeleteTopicState.topic_id": lambda gen, values: Uuid.ZERO if values["name"] is not None else gen.topic_id(None),
    "DeleteTopicState.name": lambda gen, _: gen.topic() if gen.random.random() < 0.6 else None,
    "MetadataRequestTopic.topic_id": lambda gen, _: gen.topic_id(None) if gen.random.random() < 0.3 else Uuid.ZERO,
    "MetadataRequestTopic.name": lambda gen, values: (
        None if values.get("topic_id", Uuid.ZERO) != Uuid.ZERO and gen.random.random() < 0.9 else gen.topic()
    ),
    "topic_names": lambda gen, _: tuple(gen.topic() for _ in range(gen.random.choice((1, 1, 2)))),
    "partition": lambda gen, _: gen.partition(),
    "partition_index": lambda gen, _: gen.partition(),
    "partitions": lambda gen, _: (),
    "partition_indexes": lambda gen, _: tuple({gen.partition() for _ in range(gen.random.choice((1, 2, 2, 0)))}),
    "timeout_ms": _pick(5000),
    "validate_only": lambda gen, _: gen.random.random() < 0.15,
    # CreateTopics, CreatePartitions, reassignments, elections
    "CreatableTopic.name": lambda gen, _: gen.named(*TOPICS) if gen.random.random() < 0.9 else gen.topic(),
    "CreatableTopic.num_partitions": _pick(1, 2, 3, 4, 4, -1, 2),
    "CreatableTopic.replication_factor": _pick(1, 1, 1, -1),
    "CreatableTopic.assignments": _assignments_to_make,
    "CreatableTopic.configs": _configs_to_make,
    "count": _pick(1, 2, 3, 4, 5, 6),
    "CreatePartitionsTopic.assignments": lambda gen, values: (
        None if gen.random.random() < 0.9 else gen.array(_field("CreatePartitionsTopic.assignments", gen))
    ),
    "broker_ids": _pick((1,), (1,), (1, 1), (2,), (), (-1,)),
    "replicas": _pick((1,), (1,), None, (), (2,), (1, 1), (1, 2)),
    "election_type": _pick(0, 0, 1),
    "TopicPartitions.partitions": lambda gen, _: (gen.partition(),),
    # configs
    "resource_type": _pick(2, 2, 2, 2, 32, 4, 16),
    "AlterConfigsResource.resource_type": _pick(2, 2, 2, 32, 16),
    "resource_name": _resource_name,
    "AlterConfigsResource.configs": _alterable,
    "configuration_keys": _pick(
        None,
        None,
        None,
        (),
        ("retention.ms",),
        ("no.such.setting", "cleanup.policy"),
        ("share.isolation.level", "match"),
    ),
    "UnregisterBrokerRequest.broker_id": _pick(2, 7, -1, 0),
    "AlterReplicaLogDir.path": _pick("/nowhere", ""),
    "resource_types": _pick((), (2,), (32,), (16,), (4, 2)),
    # records
    "acks": _pick(-1, -1, -1, 1),
    "ProduceRequest.transactional_id": _produce_transactional_id,
    "partition_data": _partition_data,
    "PartitionProduceData.records": _pick(b""),
    "DescribeTopicPartitionsRequest.topics": lambda gen, _: (
        gen.array(_field("DescribeTopicPartitionsRequest.topics", gen))
        or (_field("DescribeTopicPartitionsRequest.topics", gen).type.element.spec.cls(name="nowhere"),)
    ),  # type: ignore[union-attr]
    "max_wait_ms": _pick(0, 0, 5),
    "min_bytes": _pick(0, 1, 1, 100),
    "max_bytes": _pick(2147483647, 1000, 100),
    "partition_max_bytes": _pick(1 << 20, 1 << 20, 150, 1),
    "isolation_level": _pick(0, 1),
    "replica_id": _pick(-1),
    "session_id": _session,
    "session_epoch": lambda gen, values: gen.scratch.pop("session_epoch", -1),
    "fetch_offset": _fetch_offset,
    "log_start_offset": _pick(-1),
    "current_leader_epoch": _pick(-1, -1, -1, 0, 0, 5),
    "last_fetched_epoch": _pick(-1, -1, -1, 0, 3),
    "FetchTopic.partitions": lambda gen, _: gen.array(_field("FetchTopic.partitions", gen)),
    "ListOffsetsTopic.partitions": lambda gen, _: gen.array(_field("ListOffsetsTopic.partitions", gen)),
    "OffsetForLeaderTopic.partitions": lambda gen, _: gen.array(_field("OffsetForLeaderTopic.partitions", gen)),
    "DeleteRecordsTopic.partitions": lambda gen, _: gen.array(_field("DeleteRecordsTopic.partitions", gen)),
    "ReassignableTopic.partitions": lambda gen, _: gen.array(_field("ReassignableTopic.partitions", gen)),
    "OffsetCommitRequestTopic.partitions": lambda gen, _: gen.array(_field("OffsetCommitRequestTopic.partitions", gen)),
    "OffsetDeleteRequestTopic.partitions": lambda gen, _: gen.array(_field("OffsetDeleteRequestTopic.partitions", gen)),
    "TxnOffsetCommitRequestTopic.partitions": lambda gen, _: gen.array(
        _field("TxnOffsetCommitRequestTopic.partitions", gen)
    ),
    "ForgottenTopic.partitions": lambda gen, _: (gen.partition(),),
    "AddPartitionsToTxnTopic.partitions": lambda gen, _: tuple({gen.partition(), gen.partition()}),
    "DescribableLogDirTopic.partitions": lambda gen, _: (gen.partition(),),
    "timestamp": lambda gen, _: gen.random.choice(
        (-1, -1, -2, -3, -4, -5, -6, 0, int(time.time() * 1000) - 30, 10**15, -7)
    ),
    "OffsetForLeaderPartition.leader_epoch": _pick(0, 0, 1, 3, -1),
    "offset": _pick(0, 1, 2, 5, -1, 1000, -2),
    # All topics fit into one response: a real broker has one more than the embedded cluster.
    "response_partition_limit": lambda gen, values: gen.random.choice((2000, 1, 2, 3, 0)) if values["topics"] else 2000,
    # transactions
    "transactional_id": lambda gen, _: _transactional_id(gen, _),
    "v3_and_below_transactional_id": lambda gen, _: _transactional_id(gen, _),
    "InitProducerIdRequest.transactional_id": lambda gen, _: (
        gen.named(*TRANSACTIONAL_IDS) if gen.random.random() < 0.7 else None
    ),
    "transaction_timeout_ms": lambda gen, _: (
        60_000
        if gen.theme.sober or gen.random.random() < 0.6
        else gen.random.choice((900_000, 900_001, 0, -1, -(1 << 31), (1 << 31) - 1))
    ),
    "InitProducerIdRequest.producer_id": _init_producer_id,
    "producer_id": _producer_id,
    "v3_and_below_producer_id": _producer_id,
    "producer_epoch": _producer_epoch,
    "v3_and_below_producer_epoch": _producer_epoch,
    "verify_only": lambda gen, _: gen.random.random() < 0.3,
    "transactional_ids": lambda gen, _: tuple(
        gen.named(*TRANSACTIONAL_IDS) for _ in range(gen.random.choice((1, 1, 2)))
    ),
    "state_filters": _pick((), (), ("Ongoing",), ("Empty", "Bogus")),
    "duration_filter": _pick(-1, -1, 0, 10**9),
    "transactional_id_pattern": lambda gen, _: gen.random.choice((None, None, gen.prefix + ".", "(")),
    # the cluster
    "TopicData.topic_name": _pick("__cluster_metadata", "__cluster_metadata", "__cluster_metadata", "nowhere"),
    "TopicData.partitions": lambda gen, _: gen.array(_field("TopicData.partitions", gen)),
    "feature": _pick(*features_of(KafkaVersion.NEWEST), "nothing", ""),
    "max_version_level": _pick(0, 0, 1, 1, 1, 2, 3, -1, 7, 29, 30, 31),
    "upgrade_type": _pick(1, 1, 1, 2, 2, 3, 0, 9),
    "UpdateFeaturesRequest.validate_only": _pick(True),
    "resource_type_filter": _pick(*range(1, 9), 0, 1, 2),
    "pattern_type_filter": _pick(*range(1, 6), 0, 1, 3),
    "operation": _pick(*range(1, 17), 0),
    "permission_type": _pick(*range(1, 5), 0),
    "entity_type": _pick("user", "user", "client-id", "ip", "", "group"),
    "entity_name": lambda gen, values: (
        gen.random.choice(("192.0.2.1", "nowhere.invalid"))
        if values["entity_type"] == "ip"
        else gen.random.choice((None, gen.prefix + "a", gen.prefix + "b", ""))
    ),
    "match_type": _pick(0, 1, 2, 2, 3),
    "match": lambda gen, values: gen.prefix + "a" if values["match_type"] == 0 else None,
    "OpData.key": _pick("producer_byte_rate", "request_percentage", "connection_creation_rate", "nothing"),
    "OpData.value": _pick(1e12, 2e12, 1e12 + 0.5, 0.0, -1.0, 1e19),  # too high to throttle
    "OpData.remove": lambda gen, _: gen.random.random() < 0.3,
    "UserName.name": lambda gen, _: gen.named(*USERS),
    "ScramCredentialDeletion.name": lambda gen, _: gen.named(*USERS),
    "ScramCredentialUpsertion.name": lambda gen, _: gen.named(*USERS),
    "mechanism": _pick(1, 1, 2, 2, 0, 3),
    "iterations": _pick(4096, 4096, 8192, 16384, 4095, 16385),
    "salt": _pick(b"salt", b""),
    "salted_password": _pick(b"p" * 32, b"q" * 64),
    # groups
    "group_id": _group,
    "groups": _groups,
    "OffsetFetchRequest.groups": lambda gen, _: gen.array(_field("OffsetFetchRequest.groups", gen)),
    "group_ids": _groups,
    "groups_names": _groups,
    "key": lambda gen, _: gen.any_group(),
    "member_id": _member_id,
    "member_epoch": _epoch_of_member,
    "generation_id": _epoch_of_member,
    "generation_id_or_member_epoch": _epoch_of_member,
    "OffsetCommitRequest.generation_id_or_member_epoch": lambda gen, values: _commit_epoch(gen, values),
    "OffsetCommitRequest.member_id": lambda gen, values: gen.scratch.pop("member", ""),
    "OffsetFetchRequestGroup.member_id": lambda gen, values: (
        None if gen.random.random() < 0.7 else _member_id(gen, values)
    ),
    "OffsetFetchRequestGroup.member_epoch": lambda gen, values: (
        _epoch_of_member(gen, values) if values["member_id"] is not None else -1
    ),
    "committed_offset": _pick(0, 1, 5, 100, -1),
    "committed_metadata": _pick("", "m", None, "x" * 5000),
    "session_timeout_ms": lambda gen, _: (
        60_000 if gen.theme.sober else gen.random.choice((60_000, 60_000, 60_000, 5, 10**8))
    ),
    "rebalance_timeout_ms": _pick(300),
    "ConsumerGroupHeartbeatRequest.rebalance_timeout_ms": lambda gen, values: (
        60_000 if values["member_epoch"] == 0 or gen.random.random() < 0.2 else -1
    ),
    "protocol_type": lambda gen, _: "consumer" if gen.random.random() < 0.95 else "",
    "protocol_name": _pick("range", "range", None),
    "SyncGroupRequest.assignments": _assignment_of_group,
    "MemberIdentity.member_id": lambda gen, _: gen.member(gen.named(*GROUPS["classic"]))[0],
    "subscribed_topic_names": lambda gen, values: (
        (gen.topic(),) if values["member_epoch"] == 0 or gen.random.random() < 0.2 else None
    ),
    "ConsumerGroupHeartbeatRequest.topic_partitions": _owned,
    "rack_id": lambda gen, _: "" if gen.api.name == "Fetch" else None,
    "endpoint_type": _pick(1, 1, 1, 2, 7),
    "client_software_name": _pick("wire", "wire", "", "bad name"),
    "client_software_version": _pick("1.0", "1.0", "-"),
    **SENSIBLE_GROUPS,
    **SENSIBLE_SHARE,
    **SENSIBLE_STREAMS,
    "DescribeShareGroupOffsetsRequest.groups": lambda gen, _: gen.array(
        _field("DescribeShareGroupOffsetsRequest.groups", gen)
    ),
    **{
        f"{struct}.partitions": lambda gen, _, path=f"{struct}.partitions": gen.array(_field(path, gen))
        for struct in (
            "AcknowledgeTopic",
            "AlterShareGroupOffsetsRequestTopic",
            "InitializeStateData",
            "ReadStateData",
            "WriteStateData",
            "DeleteStateData",
            "ReadStateSummaryData",
        )
    },
    "DescribeShareGroupOffsetsRequestTopic.partitions": lambda gen, _: tuple({gen.partition(), gen.partition()}),
}


def _commit_epoch(gen: "Requests", values: Values) -> int:
    if gen.random.random() < 0.4:
        return -1
    gen.scratch["member"], epoch = gen.member(values["group_id"])
    return epoch


def _field(path: str, gen: "Requests") -> FieldSpec:
    """Generate a field of a struct within the current request."""
    struct, name = path.split(".")
    return next(
        field for spec in _specs(gen.api.request) if spec.name == struct for field in spec.fields if field.name == name
    )


def _specs(spec: MessageSpec) -> list[MessageSpec]:
    out = [spec]
    for field in spec.fields:
        inner = field.type.element if isinstance(field.type, ArrayType) else field.type
        if isinstance(inner, StructType):
            out += _specs(inner.spec)
    return out
