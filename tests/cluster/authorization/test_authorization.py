"""Permissions on the embedded cluster, compared with a real broker with StandardAuthorizer."""

from collections.abc import Iterator
from contextlib import ExitStack
from random import Random

import pytest

from quorate.cluster import EmbeddedCluster, Security
from quorate.cluster.authorizer import CLASS_NAME, Operation, PatternType, Permission, ResourceType
from quorate.cluster.handlers import HANDLERS
from quorate.codecs.api import StreamsGroupDescribeRequest, StreamsGroupHeartbeatRequest
from quorate.codecs.api.broker import (
    CreateAclsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DescribeAclsRequest,
    DescribeUserScramCredentialsRequest,
    MetadataRequest,
    ProduceRequest,
)
from quorate.codecs.api.broker.create_acls import AclCreation
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_acls import DeleteAclsFilter
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.streams_group_heartbeat import Subtopology, TopicInfo, Topology
from quorate.codecs.message import Message
from tests.broker.broker import NEWEST, Broker
from tests.broker.fixtures import need_broker
from tests.cluster.helpers.pair import CLOSED, LATE_S, Pair
from tests.cluster.helpers.pair_gaps import undeclared
from tests.cluster.helpers.pair_play import CHANGES, SETTINGS, Differs, Duel
from tests.cluster.helpers.pair_requests import LEFT_OUT, Requests
from tests.cluster.helpers.pair_themes import EVERYTHING
from tests.cluster.helpers.pair_values import GROUPS, TOPICS
from tests.cluster.pair.test_admin import TOKENS
from tests.extent import portion

USERS = ("admin", "alice", "bob", "nobody")
"""`admin` is a super user, `alice` and `bob` get random ACLs, and `nobody` has none."""
STEPS = 40
NO_RESPONSE = (DescribeUserScramCredentialsRequest(users=None),)
"""A real broker never responds to these if the client is not authorized, because of a
NullPointerException in getErrorResponse.
"""
EVERY = DeleteAclsFilter(
    resource_type_filter=ResourceType.ANY,
    resource_name_filter=None,
    pattern_type_filter=PatternType.ANY,
    principal_filter=None,
    host_filter=None,
    operation=Operation.ANY,
    permission_type=Permission.ANY,
)


def test_the_table_of_handlers_has_each_api_once_ordered_by_key() -> None:
    keys = [handler.api.key for handler in HANDLERS.values()]
    assert keys == sorted(set(keys))
    assert all(one.api.request.cls is request for request, one in HANDLERS.items())


@pytest.fixture(scope="module")
def both() -> Iterator[Duel]:
    need_broker(NEWEST)
    configs = SETTINGS | {"authorizer.class.name": CLASS_NAME, "super.users": "User:admin;User:ANONYMOUS"}
    users = "".join(f' user_{name}="{name}"' for name in USERS)
    login = (
        f'org.apache.kafka.common.security.plain.PlainLoginModule required username="admin" password="admin"{users};'
    )
    of_real_broker = {
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": login,
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
    }
    with ExitStack() as stack:
        security = Security(users={name: name for name in USERS}, mechanisms=("PLAIN",))
        ours = stack.enter_context(
            EmbeddedCluster(brokers=1, properties=configs, seed=1, security=security, version=NEWEST)
        )
        theirs = stack.enter_context(Broker(configs | of_real_broker, listener="SASL_PLAINTEXT", version=NEWEST))
        duel = Duel(ours, theirs.port, user="admin")
        stack.callback(duel.pair.close)
        yield duel


@pytest.fixture(scope="module")
def connections(both: Duel) -> Iterator[dict[str, Pair]]:
    """Connections of each user to both brokers."""
    with ExitStack() as stack:
        pairs = {name: Pair(*both.ports, ids=both.ids, user=name) for name in USERS}
        for pair in pairs.values():
            pair.patience_s = lambda found: LATE_S if undeclared(found) else 0  # a declared difference remains
            stack.callback(pair.close)
        yield pairs


@pytest.fixture
def users(both: Duel, connections: dict[str, Pair]) -> Iterator[dict[str, Pair]]:
    """The same connections; ACLs are empty before and after a test."""
    assert not acls(both)
    yield connections
    if acls(both):
        assert not both.pair.request(DeleteAclsRequest(filters=(EVERY,)), 3)[2]
        settle(both)


def acls(both: Duel) -> tuple[object, ...]:
    """Return the ACLs of the embedded broker, after the real broker has the same."""
    fields = {name: getattr(EVERY, name) for name in EVERY.__dataclass_fields__}
    ours, _, found = both.pair.request(DescribeAclsRequest(**fields), 3)
    assert not found
    return ours.resources  # type: ignore[no-any-return]


def settle(both: Duel) -> None:
    """Wait until the real broker's metadata and ACLs equal the embedded ones."""
    assert not both.pair.settle()
    acls(both)


def test_delegation_tokens_are_disabled_with_authentication(users: dict[str, Pair]) -> None:
    for request, version in TOKENS:
        ours, theirs, found = users["admin"].request(request, version)
        assert not found, request
        assert ours == theirs


def _names(kind: ResourceType, prefix: str, random: Random) -> str:
    if kind is ResourceType.CLUSTER:
        return "kafka-cluster"
    groups = [name for names in GROUPS.values() for name in names]
    name = random.choice(TOPICS if kind is ResourceType.TOPIC else groups)
    return random.choice((prefix + name, prefix + name, prefix, "*", prefix + name[:1]))


def random_acl(random: Random, prefix: str) -> AclCreation:
    kind = random.choice(
        (ResourceType.TOPIC,) * 4 + (ResourceType.GROUP, ResourceType.CLUSTER, ResourceType.TRANSACTIONAL_ID)
    )
    name = _names(kind, prefix, random)
    pattern = (
        PatternType.LITERAL
        if kind is ResourceType.CLUSTER or name == "*"
        else random.choice((PatternType.LITERAL, PatternType.PREFIXED))
    )
    return AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=random.choice(("User:alice", "User:alice", "User:bob", "User:*")),
        host=random.choice(("*", "*", "*", "127.0.0.1", "10.0.0.1")),
        operation=random.choice([one for one in Operation if one > Operation.ANY]),
        permission_type=random.choice((Permission.ALLOW,) * 4 + (Permission.DENY,)),
    )


@pytest.mark.parametrize("seed", range(101, 101 + portion(10, usual=2)))
def test_random_requests_of_users_get_the_responses_of_a_real_broker(
    both: Duel, users: dict[str, Pair], seed: int
) -> None:
    random, prefix = Random(seed), f"a{seed}-"
    created = tuple(random_acl(random, prefix) for _ in range(random.choice((0, 5, 15, 40))))
    requests = Requests(random, both.ours.core, both.versions, prefix=prefix)
    assert not users["admin"].request(CreateAclsRequest(creations=created), 3)[2]
    settle(both)
    for step in range(STEPS):
        request, version = requests.next()
        user = random.choice(("admin", "alice", "alice", "bob", "nobody"))
        ours, _, found = users[user].request(request, version)
        if found and request in NO_RESPONSE:
            continue
        if left := undeclared(found):
            reported = "\n".join(map(str, left[:5]))
            raise Differs(f"seed {seed}, step {step}, {user}: {reported}\n{request}\n{created}")
        if isinstance(ours, Message):
            requests.observe(request, ours)
        if requests.api.name in CHANGES:
            settle(both)
    assert both.ours.core.failures == []
    both.clean()


@pytest.fixture(scope="module")
def prefix(both: Duel, connections: dict[str, Pair]) -> str:
    """Create topics for requests that are rejected, and return the prefix of their names."""
    prefix = "n-"
    topics = tuple(CreatableTopic(name=prefix + name, num_partitions=1, replication_factor=1) for name in TOPICS[:2])
    assert not connections["admin"].request(CreateTopicsRequest(topics=topics, timeout_ms=5000), 7)[2]
    settle(both)
    return prefix


@pytest.mark.parametrize(
    "key",
    sorted(
        handler.api.key for handler in HANDLERS.values() if not handler.api.own and handler.api.name not in LEFT_OUT
    ),
)
def test_each_api_rejects_a_user_without_acls_as_a_real_broker_does(
    both: Duel, users: dict[str, Pair], prefix: str, key: int
) -> None:
    for version in both.versions.get(key, ()):  # a real broker may not report an API, such as telemetry
        requests = Requests(Random(version), both.ours.core, {key: range(version, version + 1)}, prefix=prefix)
        requests.theme, requests.weights = EVERYTHING, [1]
        for _ in range(4):
            request, _ = requests.next()
            _, _, found = users["nobody"].request(request, version)
            assert request in NO_RESPONSE or not undeclared(found), (request, found)


@pytest.mark.parametrize(("partitions", "closes"), [((), False), ((PartitionProduceData(index=0),), True)])
def test_a_denied_topic_closes_the_connection_of_a_producer_without_acks_if_it_has_partitions(
    users: dict[str, Pair], partitions: tuple[PartitionProduceData, ...], closes: bool
) -> None:
    topic = TopicProduceData(name="n-a", partition_data=partitions)
    for version in (9, 12):
        assert not users["nobody"].request(ProduceRequest(acks=0, timeout_ms=5000, topic_data=(topic,)), version)[2]
        ours, _, found = users["nobody"].request(MetadataRequest(topics=()), 9)
        assert not found
        assert (ours == CLOSED) is closes


def entry(**fields: object) -> AclCreation:
    given = {
        "resource_type": ResourceType.TOPIC,
        "resource_name": "v-t",
        "principal": "User:alice",
        "host": "*",
        "operation": Operation.READ,
        "permission_type": Permission.ALLOW,
    }
    return AclCreation(**given | fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("user", ["admin", "nobody"])
@pytest.mark.parametrize(
    "wrong",
    [
        {"resource_type": ResourceType.CLUSTER},
        {"resource_type": ResourceType.CLUSTER, "resource_name": "kafka-cluster"},
        {"resource_type": ResourceType.ANY},
        {"resource_type": 99},
        {"resource_name": ""},
        {"resource_pattern_type": PatternType.ANY},
        {"resource_pattern_type": PatternType.MATCH},
        {"resource_pattern_type": 99},
        {"principal": "alice"},
        {"principal": ""},
        {"principal": "User:"},
        {"host": "nonsense"},
        {"host": ""},
        {"operation": Operation.ANY},
        {"operation": Operation.TWO_PHASE_COMMIT},
        {"operation": 99},
        {"operation": Operation.UNKNOWN},
        {"permission_type": Permission.ANY},
        {"permission_type": 99},
        {"resource_type": ResourceType.CLUSTER, "permission_type": 99, "principal": "x"},
    ],
    ids=repr,
)
def test_acls_are_validated_as_by_a_real_broker(users: dict[str, Pair], user: str, wrong: dict[str, object]) -> None:
    request = CreateAclsRequest(creations=(entry(), entry(**wrong), entry(), entry(principal="User:bob")))
    for version in (1, 2, 3):
        assert not users[user].request(request, version)[2]


def test_filters_match_the_acls_that_they_match_on_a_real_broker(both: Duel, users: dict[str, Pair]) -> None:
    random = Random(7)
    kept = tuple({random_acl(random, "f-"): None for _ in range(40)})
    assert not users["admin"].request(CreateAclsRequest(creations=kept), 3)[2]
    settle(both)
    for _ in range(60):
        acl = random.choice(kept)
        wanted = DeleteAclsFilter(
            resource_type_filter=random.choice((ResourceType.ANY, acl.resource_type, 99)),
            resource_name_filter=random.choice((None, acl.resource_name, acl.resource_name + "x", "")),
            pattern_type_filter=random.choice((*list(PatternType)[1:], 99)),
            principal_filter=random.choice((None, acl.principal)),
            host_filter=random.choice((None, acl.host)),
            operation=random.choice((Operation.ANY, acl.operation, 99)),
            permission_type=random.choice((Permission.ANY, acl.permission_type, 99)),
        )
        fields = {name: getattr(wanted, name) for name in DeleteAclsFilter.__dataclass_fields__}
        assert not users["admin"].request(DescribeAclsRequest(**fields), 3)[2]
        if random.random() < 0.2:
            assert not users["admin"].request(DeleteAclsRequest(filters=(wanted, wanted)), 3)[2]
            settle(both)


GROUP_READ = {"resource_type": ResourceType.GROUP, "resource_pattern_type": PatternType.PREFIXED}
TOPIC_DESCRIBE = {"resource_pattern_type": PatternType.PREFIXED, "operation": Operation.DESCRIBE}
CREATES = {"operation": Operation.CREATE}
CLUSTER = {"resource_type": ResourceType.CLUSTER, "resource_name": "kafka-cluster"}


@pytest.mark.parametrize(
    ("allowed", "error", "created", "described"),
    [
        pytest.param([], "GROUP_AUTHORIZATION_FAILED", "", None, id="nothing"),
        pytest.param([TOPIC_DESCRIBE], "GROUP_AUTHORIZATION_FAILED", "", None, id="no READ on the group"),
        pytest.param(
            [TOPIC_DESCRIBE, GROUP_READ | {"operation": Operation.DESCRIBE}],
            "GROUP_AUTHORIZATION_FAILED",
            "",
            None,
            id="DESCRIBE on the group",
        ),
        pytest.param([GROUP_READ], "TOPIC_AUTHORIZATION_FAILED", "", None, id="no DESCRIBE on topics"),
        pytest.param(
            [GROUP_READ, {"resource_name": "in"}, {"resource_name": "changelog"}],
            "TOPIC_AUTHORIZATION_FAILED",
            "",
            None,
            id="no DESCRIBE on an internal topic",
        ),
        pytest.param([GROUP_READ, TOPIC_DESCRIBE], "NONE", "", "NONE", id="no CREATE"),
        pytest.param(
            [GROUP_READ, TOPIC_DESCRIBE, CREATES | {"resource_name": "changelog"}],
            "NONE",
            "",
            "NONE",
            id="CREATE on one internal topic",
        ),
        pytest.param(
            [GROUP_READ, TOPIC_DESCRIBE, CREATES | {"resource_pattern_type": PatternType.PREFIXED}],
            "NONE",
            "changelog repartition",
            "NONE",
            id="CREATE on topics",
        ),
        pytest.param(
            [GROUP_READ, TOPIC_DESCRIBE, CREATES | CLUSTER],
            "NONE",
            "changelog repartition",
            "NONE",
            id="CREATE on the cluster",
        ),
    ],
)
def test_a_streams_member_needs_the_same_permissions_as_on_a_real_broker(
    both: Duel,
    users: dict[str, Pair],
    request: pytest.FixtureRequest,
    allowed: list[dict[str, object]],
    error: str,
    created: str,
    described: str | None,
) -> None:
    """READ on the group, DESCRIBE on all topics of the topology, CREATE for internal topics."""
    prefix = f"{request.node.callspec.id.replace(' ', '-')}-"
    join = StreamsGroupHeartbeatRequest(
        group_id=f"{prefix}app",
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=60_000,
        topology=Topology(
            subtopologies=(
                Subtopology(
                    subtopology_id="0",
                    source_topics=(f"{prefix}in",),
                    repartition_sink_topics=(f"{prefix}repartition",),
                ),
                Subtopology(
                    subtopology_id="1",
                    repartition_source_topics=(TopicInfo(name=f"{prefix}repartition", partitions=2),),
                    state_changelog_topics=(TopicInfo(name=f"{prefix}changelog"),),
                ),
            )
        ),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )
    topic = CreatableTopic(name=f"{prefix}in", num_partitions=2, replication_factor=1)
    assert not users["admin"].request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)[2]
    acl = [entry(**one | {"resource_name": _resource(one, prefix)}) for one in allowed]
    assert not users["admin"].request(CreateAclsRequest(creations=tuple(acl)), 3)[2]
    settle(both)
    ours, _, found = users["alice"].request(join, 1)
    assert not found
    assert ErrorCode(ours.error_code).name == error
    settle(both)
    assert created.split() == sorted(
        name.removeprefix(prefix) for name in both.ours.core.topics if name.startswith(prefix) and name != topic.name
    )
    description = StreamsGroupDescribeRequest(group_ids=(join.group_id, "other"), include_authorized_operations=True)
    ours, _, found = users["alice"].request(description, 1)
    assert not found
    if described is not None:
        (group,) = [one for one in ours.groups if one.group_id == join.group_id]
        assert ErrorCode(group.error_code).name == described
    both.clean()


def _resource(acl: dict[str, object], prefix: str) -> object:
    name = acl.get("resource_name", "")
    return name if acl.get("resource_type") is ResourceType.CLUSTER else f"{prefix}{name}"


def test_a_streams_group_is_described_with_describe_on_all_its_topics_as_by_a_real_broker(
    both: Duel, users: dict[str, Pair]
) -> None:
    join = StreamsGroupHeartbeatRequest(
        group_id="described-app",
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=60_000,
        topology=Topology(
            subtopologies=(
                Subtopology(subtopology_id="0", source_topics=("described-a",)),
                Subtopology(subtopology_id="1", source_topics=("described-b",)),
            )
        ),
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )
    assert not users["admin"].request(join, 1)[2]
    group = {"resource_type": ResourceType.GROUP, "resource_name": "described-app", "operation": Operation.DESCRIBE}
    codes = []
    for acl in (
        {"resource_name": "described-a", "operation": Operation.DESCRIBE},
        group,
        {"resource_name": "described-b", "operation": Operation.DESCRIBE},
    ):
        assert not users["admin"].request(CreateAclsRequest(creations=(entry(**acl),)), 3)[2]
        settle(both)
        for version in (0, 1):
            ours, _, found = users["alice"].request(StreamsGroupDescribeRequest(group_ids=("described-app",)), version)
            assert not found
        codes.append(ErrorCode(ours.groups[0].error_code).name)
    assert codes == ["GROUP_AUTHORIZATION_FAILED", "TOPIC_AUTHORIZATION_FAILED", "NONE"]
