"""Decisions on ACLs compared with Kafka's StandardAuthorizer: generated cases, and single rules."""

from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from quorate.cluster.authorizer import (
    CLASS_NAME,
    WILDCARD,
    Acl,
    AclFilter,
    Acls,
    Authorizer,
    Operation,
    PatternType,
    Permission,
    ResourceType,
)
from quorate.codecs import Uuid
from quorate.coordinator.config import ConfigError
from tests.oracle.client import Oracle

NAMES = st.sampled_from(["*", "*a", "a", "ab", "abc", "b", "hardcode", "h", "kafka-cluster"]) | st.text(
    "ab*!", min_size=1, max_size=4
)
"""Some sort before "*", which Kafka looks up in its sorted set of ACLs."""
PRINCIPALS = st.sampled_from(["User:alice", "User:bob", "User:*", "Group:alice", "User:ANONYMOUS", "User:a:b", "User:"])
HOSTS = st.sampled_from(["*", "127.0.0.1", "10.0.0.7"])
TYPES = st.sampled_from([ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER])
OPERATIONS = st.sampled_from([one for one in Operation if one > Operation.ANY])
CONCRETE = st.sampled_from([one for one in Operation if one > Operation.ALL])

acls = st.builds(
    Acl,
    resource_type=TYPES,
    name=NAMES,
    pattern_type=st.sampled_from([PatternType.LITERAL, PatternType.PREFIXED]),
    principal=PRINCIPALS,
    host=HOSTS,
    operation=OPERATIONS,
    permission=st.sampled_from([Permission.DENY, Permission.ALLOW, Permission.ALLOW]),
)
filters = st.builds(
    AclFilter,
    resource_type=TYPES | st.sampled_from([ResourceType.ANY, ResourceType.UNKNOWN]),
    name=NAMES | st.none(),
    pattern_type=st.sampled_from(PatternType),
    principal=PRINCIPALS | st.none(),
    host=HOSTS | st.none(),
    operation=OPERATIONS | st.sampled_from([Operation.ANY, Operation.UNKNOWN]),
    permission=st.sampled_from(Permission),
)
actions = st.fixed_dictionaries(
    {
        "principal": PRINCIPALS.filter(lambda one: one != "User:*"),
        "host": st.sampled_from(["127.0.0.1", "10.0.0.7"]),
        "operation": CONCRETE,
        "resourceType": TYPES,
    },
    optional={"name": NAMES},
)


def authorizer_with(*entries: Acl, **configs: str) -> Authorizer:
    made = Acls()
    for number, acl in enumerate(entries, 1):
        made.add(Uuid(number.to_bytes(16, "big")), acl)
    found = Authorizer.of({"authorizer.class.name": CLASS_NAME, **configs}, made)
    assert found is not None
    return found


def ours(authorizer: Authorizer, action: dict[str, Any]) -> str:
    requested = (action["principal"], action["host"], action["operation"], action["resourceType"])
    allowed = (
        authorizer.allows(*requested, action["name"]) if "name" in action else authorizer.allows_with_any(*requested)
    )
    return "ALLOWED" if allowed else "DENIED"


def as_json(one: Acl | AclFilter) -> dict[str, Any]:
    return {
        {"resource_type": "resourceType", "pattern_type": "patternType"}.get(k, k): v for k, v in asdict(one).items()
    }


def kafka_fails(acl: Acl, action: dict[str, Any]) -> bool:
    """Return whether Kafka 4.3.1 may throw or never return when it checks this ACL.

    It visits names that sort before "*" while it looks for ACLs of "*". From one that shares a
    prefix with the resource, it continues at `"*".substring(0, n)` for n common characters: for 1
    this is the same place again, and above 1 it is out of bounds.
    """
    name = action.get("name", "")
    begins_like_it = acl.name[0] == name[:1] and not name.startswith(acl.name)
    return acl.resource_type == action["resourceType"] and acl.name < WILDCARD and begins_like_it


@pytest.mark.oracle
@given(
    entries=st.lists(acls, max_size=8, unique=True),
    requested=st.lists(actions, min_size=1, max_size=12),
    wanted=st.lists(filters, max_size=4),
    super_users=st.sampled_from(["", "User:bob", " User:alice ; User:bob ;"]),
    allow_everyone=st.sampled_from(["true", "false", "TRUE "]),
)
def test_generated_acls_allow_what_kafkas_authorizer_allows(
    oracle: Oracle,
    entries: list[Acl],
    requested: list[dict[str, Any]],
    wanted: list[AclFilter],
    super_users: str,
    allow_everyone: str,
) -> None:
    assume(not any(kafka_fails(acl, action) for acl in entries for action in requested))
    theirs = oracle.call(
        "authorize",
        acls=[as_json(entry) for entry in entries],
        actions=requested,
        filters=[as_json(one) for one in wanted],
        superUsers=super_users,
        allowEveryone=allow_everyone,
    )
    authorizer = authorizer_with(
        *entries, **{"super.users": super_users, "allow.everyone.if.no.acl.found": allow_everyone}
    )
    assert [ours(authorizer, one) for one in requested] == theirs["results"]
    found = [[list(asdict(acl).values()) for _, acl in authorizer.acls.matching(one)] for one in wanted]
    assert [sorted(one) for one in found] == [sorted(one) for one in theirs["found"]]


@pytest.mark.oracle
def test_an_acl_whose_name_sorts_before_the_wildcard_does_not_affect_others(oracle: Oracle) -> None:
    """Kafka throws here.

    With "#b" and "#a", which share one character, it would never return.
    """
    other = replace(READ_A, resource_type=ResourceType.GROUP, name="#team-b")
    own = replace(other, name="#team-a")
    action = {"principal": "User:alice", "host": "127.0.0.1", "operation": 3, "resourceType": 3, "name": "#team-a"}
    entries = [as_json(other), as_json(own)]
    theirs = oracle.call("authorize", acls=entries, actions=[action], filters=[])
    assert kafka_fails(other, action)
    assert theirs["results"] == ["StringIndexOutOfBoundsException"]
    assert ours(authorizer_with(other, own), action) == "ALLOWED"
    assert ours(authorizer_with(other), action) == "DENIED"


@pytest.mark.oracle
@given(entries=st.lists(acls, min_size=1, max_size=8, unique=True), data=st.data())
def test_removed_acls_have_no_effect(entries: list[Acl], data: st.DataObject) -> None:
    kept = data.draw(st.lists(st.sampled_from(entries), unique=True))
    authorizer, expected = authorizer_with(*entries), authorizer_with(*kept)
    for acl_id, acl in list(authorizer.acls.by_id.items()):
        if acl not in kept:
            authorizer.acls.remove(acl_id)
            assert acl not in authorizer.acls
    for action in data.draw(st.lists(actions, min_size=1, max_size=12)):
        assert ours(authorizer, action) == ours(expected, action)


READ_A = Acl(
    resource_type=ResourceType.TOPIC,
    name="a",
    pattern_type=PatternType.LITERAL,
    principal="User:alice",
    host="*",
    operation=Operation.READ,
    permission=Permission.ALLOW,
)


def allows(
    *entries: Acl, operation: Operation = Operation.READ, name: str = "a", principal: str = "User:alice"
) -> bool:
    return authorizer_with(*entries).allows(principal, "127.0.0.1", operation, ResourceType.TOPIC, name)


def test_allow_read_implies_describe_only() -> None:
    assert allows(READ_A, operation=Operation.DESCRIBE)
    assert not allows(READ_A, operation=Operation.WRITE)
    assert not allows(READ_A, operation=Operation.DESCRIBE_CONFIGS)
    assert not allows(READ_A, name="ab")
    assert not allows(READ_A, principal="User:bob")


def test_deny_takes_precedence_and_implies_no_other_operation() -> None:
    everything = replace(READ_A, name="*", operation=Operation.ALL, principal="User:*")
    denied = replace(READ_A, permission=Permission.DENY)
    assert not allows(everything, denied)
    assert allows(everything, denied, operation=Operation.DESCRIBE)
    assert not allows(everything, replace(denied, operation=Operation.ALL), operation=Operation.DESCRIBE)


def test_resources_without_acls_follow_allow_everyone_if_no_acl_found() -> None:
    configured = {"allow.everyone.if.no.acl.found": "true"}
    authorizer = authorizer_with(READ_A, **configured)
    requested = ("User:bob", "127.0.0.1", Operation.READ, ResourceType.TOPIC)
    assert authorizer.allows(*requested, "b")
    assert not authorizer.allows(*requested, "a")


@pytest.mark.parametrize("text", ["alice", "User:bob;alice", ";;x"])
def test_super_users_must_be_principals(text: str) -> None:
    with pytest.raises(ConfigError, match=r"super.users cannot have .*: expected principalType:principalName"):
        authorizer_with(**{"super.users": text})
