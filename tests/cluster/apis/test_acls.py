"""ACLs as clients see them: create, describe, delete, restart, no authorizer; and their effects."""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AdminClient,
    ResourcePatternType,
    ResourceType,
)
from kafka import KafkaAdminClient
from kafka.admin import (
    ACL,
    ACLFilter,
    ACLOperation,
    ACLPermissionType,
    ACLResourcePatternType,
    ResourcePattern,
    ResourcePatternFilter,
)
from kafka.admin import ResourceType as KafkaPythonResourceType

from quorate.cluster import EmbeddedCluster, Security
from quorate.cluster.authorizer import CLASS_NAME, Operation, Permission
from quorate.cluster.authorizer import PatternType as Pattern
from quorate.cluster.authorizer import ResourceType as Resource
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    CreateAclsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.create_acls import AclCreation
from quorate.codecs.api.broker.delete_acls import DeleteAclsFilter
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.coordinator.config import ConfigError
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire

CONFIGS = {**QUICK, "authorizer.class.name": CLASS_NAME, "super.users": "User:admin"}
SECURITY = Security(users={name: name for name in ("admin", "alice")})

Cluster = Callable[..., EmbeddedCluster]


@pytest.fixture
def guarded() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties=CONFIGS, security=SECURITY) as made:
        for name in ("open", "secret"):
            made.call(lambda name=name: made.core.create_topic(name, partitions=1, replicas=1))
        yield made
        assert made.core.failures == []


def port(cluster: EmbeddedCluster) -> int:
    return cluster.core.brokers[1].port


def entry(**fields: Any) -> AclCreation:
    """Return an ACL by which alice may read topic "open"."""
    given = {
        "resource_type": Resource.TOPIC,
        "resource_name": "open",
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**given | fields)


def allow(cluster: EmbeddedCluster, *entries: AclCreation) -> None:
    with Wire(port(cluster), user="admin") as wire:
        results = wire.request(CreateAclsRequest(creations=entries), 3).results
    assert [result.error_code for result in results] == [0] * len(entries)


EVERY = DeleteAclsFilter(
    resource_type_filter=Resource.ANY,
    resource_name_filter=None,
    pattern_type_filter=Pattern.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


# ---- the config of the authorizer


@pytest.mark.parametrize("name", ["kafka.security.authorizer.AclAuthorizer", "nonsense", f"{CLASS_NAME}x"])
def test_another_authorizer_class_is_rejected_at_the_start(name: str) -> None:
    """Issue 14: it was ignored. Kafka ends with a ClassNotFoundException."""
    with pytest.raises(
        ConfigError, match=rf"authorizer.class.name: class '{name}' not found; use {CLASS_NAME}, or leave it empty"
    ):
        EmbeddedCluster(properties={"authorizer.class.name": name})


def test_without_an_authorizer_acls_are_rejected() -> None:
    with EmbeddedCluster() as cluster, Wire(port(cluster)) as wire:
        disabled = ErrorCode.SECURITY_DISABLED
        created = wire.request(CreateAclsRequest(creations=(entry(), entry())), 3)
        assert [result.error_code for result in created.results] == [disabled, disabled]
        assert [
            filter_result.error_code
            for filter_result in wire.request(DeleteAclsRequest(filters=(EVERY,)), 3).filter_results
        ] == [disabled]


def test_without_authentication_clients_are_anonymous() -> None:
    configs = {**QUICK, "authorizer.class.name": CLASS_NAME, "super.users": "User:ANONYMOUS"}
    for properties, code in ((configs, 0), (configs | {"super.users": ""}, ErrorCode.GROUP_AUTHORIZATION_FAILED)):
        with EmbeddedCluster(properties=properties) as cluster, Wire(port(cluster)) as wire:
            found = wire.request(FindCoordinatorRequest(coordinator_keys=("g",), key_type=0), 4)
            assert found.coordinators[0].error_code == code


# ---- storage


def test_acls_survive_a_restart(tmp_path: Path) -> None:
    def running() -> EmbeddedCluster:
        return EmbeddedCluster(properties=CONFIGS, security=SECURITY, data=tmp_path, seed=1)

    prefixed = entry(resource_name="o", resource_pattern_type=Pattern.PREFIXED, operation=Operation.WRITE)
    with running() as cluster:
        allow(cluster, entry(), prefixed)
        before = dict(cluster.core.state.acls.by_id)
        assert len(before) == 2
    with running() as cluster, Wire(port(cluster), user="admin") as wire:
        assert cluster.core.state.acls.by_id == before
        gone = DeleteAclsFilter(
            **{name: getattr(EVERY, name) for name in EVERY.__dataclass_fields__} | {"operation": Operation.READ}
        )
        (deleted,) = wire.request(DeleteAclsRequest(filters=(gone,)), 3).filter_results
        assert [matching_acl.resource_name for matching_acl in deleted.matching_acls] == ["open"]
    with running() as cluster:
        assert [one.name for one in cluster.core.state.acls.by_id.values()] == ["o"]
        allow(cluster, *(entry(resource_name=f"{number}") for number in range(10)))
        assert len(cluster.core.state.acls.by_id) == 11


def test_a_duplicate_acl_is_stored_once(guarded: EmbeddedCluster) -> None:
    allow(guarded, entry(), entry())
    allow(guarded, entry())
    assert len(guarded.core.state.acls.by_id) == 1


# ---- effects


def batch() -> bytes:
    return encode_batch([BatchRecord(offset=0, timestamp_ms=1_700_000_000_000, key=None, value=b"v")])


def produced(wire: Wire, *topics: str, acks: int = 1) -> Any:
    data = tuple(
        TopicProduceData(name=name, partition_data=(PartitionProduceData(index=0, records=batch()),)) for name in topics
    )
    request = ProduceRequest(acks=acks, timeout_ms=1000, topic_data=data)
    if acks == 0:
        wire.send(request, 9)
        return None
    return {
        response.name: response.partition_responses[0].error_code for response in wire.request(request, 9).responses
    }


def test_a_denied_producer_with_acks_0_is_disconnected_and_writes_only_allowed_topics(guarded: EmbeddedCluster) -> None:
    allow(guarded, entry(operation=Operation.WRITE))
    with Wire(port(guarded), user="alice") as wire:
        assert produced(wire, "open", "secret") == {"open": 0, "secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        produced(wire, "secret", "open", acks=0)
        assert wire.is_closed()
    ends = {name: guarded.core.topics[name].partitions[0].log.next_offset for name in ("open", "secret")}
    assert ends == {"open": 2, "secret": 0}


def test_a_fetch_session_loses_topics_that_are_denied_later(guarded: EmbeddedCluster) -> None:
    allow(guarded, entry())

    def fetch(wire: Wire, session: int, epoch: int, *topics: str) -> Any:
        parts = (FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000),)
        return wire.request(
            FetchRequest(
                session_id=session,
                session_epoch=epoch,
                topics=tuple(FetchTopic(topic=name, partitions=parts) for name in topics),
            ),
            11,
        )

    denied = ErrorCode.TOPIC_AUTHORIZATION_FAILED
    with Wire(port(guarded), user="alice") as wire:
        first = fetch(wire, 0, 0, "open", "secret")
        assert {response.topic: response.partitions[0].error_code for response in first.responses} == {
            "open": 0,
            "secret": denied,
        }
        with Wire(port(guarded), user="admin") as admin:
            admin.request(DeleteAclsRequest(filters=(EVERY,)), 3)
        then = fetch(wire, first.session_id, 1)
        assert {response.topic: response.partitions[0].error_code for response in then.responses} == {
            "open": denied,
            "secret": denied,
        }


def test_a_regex_matches_only_topics_that_the_member_may_describe(guarded: EmbeddedCluster) -> None:
    group = entry(resource_type=Resource.GROUP, resource_name="g")
    allow(guarded, group, entry(operation=Operation.DESCRIBE))
    with Wire(port(guarded), user="alice") as wire:
        wire.request(FindCoordinatorRequest(coordinator_keys=("g",), key_type=0), 4)
        joined = wire.request(
            ConsumerGroupHeartbeatRequest(
                group_id="g",
                member_id="alice-1",
                member_epoch=0,
                rebalance_timeout_ms=5000,
                subscribed_topic_regex="open|secret",
                topic_partitions=(),
            ),
            1,
        )
        assert joined.error_code == 0
    (runtime,) = (one for one in guarded.core.groups.runtimes().values() if "g" in one.shard.state.groups)
    found = runtime.shard.state.groups["g"].regexes["open|secret"]
    assert set(found.topics) == {"open"}


def test_metadata_of_all_topics_has_those_that_the_client_may_describe(guarded: EmbeddedCluster) -> None:
    allow(guarded, entry(operation=Operation.DELETE))
    with Wire(port(guarded), user="alice") as wire:
        requested = MetadataRequest(topics=None, include_topic_authorized_operations=True)
        (topic,) = wire.request(requested, 12).topics
        assert topic.name == "open"
        assert topic.topic_authorized_operations == 1 << Operation.DELETE | 1 << Operation.DESCRIBE


def test_a_filter_with_an_unknown_element_closes_the_connection(guarded: EmbeddedCluster) -> None:
    for request in (
        CreateAclsRequest(creations=(entry(operation=0),)),
        DeleteAclsRequest(filters=(DeleteAclsFilter(resource_type_filter=Resource.ANY),)),
        DescribeAclsRequest(),
    ):
        with Wire(port(guarded), user="admin") as wire:
            wire.send(request, 2)
            assert wire.is_closed()


# ---- other clients


def login(user: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": user,
        "sasl.password": user,
    }


def test_confluents_admin_client(guarded: EmbeddedCluster) -> None:
    servers = {"bootstrap.servers": guarded.bootstrap_servers}
    admin = AdminClient(servers | login("admin"))
    read = AclBinding(
        ResourceType.TOPIC,
        "open",
        ResourcePatternType.LITERAL,
        "User:alice",
        "*",
        AclOperation.WRITE,
        AclPermissionType.ALLOW,
    )
    admin.create_acls([read])[read].result(20)
    every = AclBindingFilter(
        ResourceType.ANY, None, ResourcePatternType.ANY, None, None, AclOperation.ANY, AclPermissionType.ANY
    )
    assert admin.describe_acls(every).result(20) == [read]
    errors: list[str] = []
    producer = Producer(servers | login("alice"))
    for topic in ("open", "secret"):
        producer.produce(topic, b"v", callback=lambda error, message: errors.append(error.name() if error else ""))
        assert producer.flush(20) == 0
    assert errors == ["", "TOPIC_AUTHORIZATION_FAILED"]
    assert admin.delete_acls([every])[every].result(20) == [read]


def test_kafka_pythons_admin_client(guarded: EmbeddedCluster) -> None:
    admin = KafkaAdminClient(
        bootstrap_servers=guarded.bootstrap_servers,
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism="PLAIN",
        sasl_plain_username="admin",
        sasl_plain_password="admin",
    )
    acl = ACL(
        principal="User:alice",
        host="*",
        operation=ACLOperation.READ,
        permission_type=ACLPermissionType.ALLOW,
        resource_pattern=ResourcePattern(KafkaPythonResourceType.TOPIC, "open"),
    )
    admin.create_acls([acl])
    every = ACLFilter(
        principal=None,
        host=None,
        operation=ACLOperation.ANY,
        permission_type=ACLPermissionType.ANY,
        resource_pattern=ResourcePatternFilter(KafkaPythonResourceType.ANY, None, ACLResourcePatternType.ANY),
    )
    found = admin.describe_acls(every)
    assert re.search("alice", repr(found))
    admin.delete_acls([every])
    assert guarded.core.state.acls.by_id == {}
    admin.close()
