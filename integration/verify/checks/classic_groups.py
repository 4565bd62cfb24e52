"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and their descriptions."""

from typing import Any

from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.session import CheckSession

_SESSION_MS = 30_000
_NO_PARTITIONS = b"\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff"
_SUBSCRIPTION = b"\x00\x00\x00\x00\x00\x01\x00\x01t\xff\xff\xff\xff"


def join_fields(group: str, member_id: str = "", *protocols: str, **more: Any) -> dict[str, Any]:
    """Return the fields of a JoinGroup request."""
    fields = {
        "group_id": group,
        "session_timeout_ms": _SESSION_MS,
        "rebalance_timeout_ms": 10_000,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocols": [{"name": name, "metadata": _SUBSCRIPTION} for name in protocols or ("range",)],
    }
    return fields | more


def join(s: CheckSession, group: str, member_id: str = "", *protocols: str, version: int = 9, **more: Any) -> Any:
    """Send a JoinGroup request, and record its response."""
    return s.ask("JoinGroup", version, **join_fields(group, member_id, *protocols, **more))


def sync_fields(group: str, member_id: str, generation: int, **more: Any) -> dict[str, Any]:
    """Return the fields of a SyncGroup request."""
    fields = {
        "group_id": group,
        "generation_id": generation,
        "member_id": member_id,
        "protocol_type": "consumer",
        "protocol_name": "range",
    }
    return fields | more


def sync(s: CheckSession, group: str, member_id: str, generation: int = 1, **more: Any) -> Any:
    """Send a SyncGroup request, and record its response."""
    return s.ask("SyncGroup", 5, **sync_fields(group, member_id, generation, **more))


def beat(s: CheckSession, group: str, member_id: str, generation: int = 1, **more: Any) -> Any:
    """Send a Heartbeat request, and record its response."""
    return s.ask("Heartbeat", 4, group_id=group, generation_id=generation, member_id=member_id, **more)


def leave(s: CheckSession, group: str, *members: dict[str, str]) -> None:
    """Send a LeaveGroup request of several members."""
    s.ask("LeaveGroup", 4, group_id=group, members=list(members))


def new_member(s: CheckSession, group: str, *protocols: str, compared: bool = True) -> str:
    """Join as the only member; returns the member id."""
    member_id: str = join(s, group, "", *protocols, compared=compared).member_id
    join(s, group, member_id, *protocols, compared=compared)
    return member_id


def second_member(s: CheckSession, group: str, first: str, *protocols: str) -> str:
    """Let a second member join, by client "b", until the first one is notified; returns its id."""
    second: str = join(s, group, "", *protocols, compared=False).member_id
    s.start("JoinGroup", 9, client="b", **join_fields(group, second, *protocols))
    beat(s, group, first, compared=False, until=lambda response: response.error_code != 0)
    return second


def stable_member(s: CheckSession, group: str) -> str:
    """Join as the only member, and assign; returns the member id. The generation is 1."""
    member_id = new_member(s, group, compared=False)
    sync(s, group, member_id, compared=False, assignments=[{"member_id": member_id, "assignment": _NO_PARTITIONS}])
    return member_id


@check("KIP-394", "JoinGroup without a member id returns MEMBER_ID_REQUIRED and an id; with the id it succeeds.")
def new_member_needs_a_member_id(s: CheckSession) -> None:
    new_member(s, s.name())


@check("KIP-394", "JoinGroup before version 4 joins without a member id.")
def old_join_needs_no_member_id(s: CheckSession) -> None:
    join(s, s.name(), version=3)


@check("KIP-62", "JoinGroup with a member id that the group does not have is an UNKNOWN_MEMBER_ID.")
def unknown_member_cannot_join(s: CheckSession) -> None:
    group = s.name()
    join(s, group, "nobody")
    stable_member(s, group)
    join(s, group, "nobody")


@check(
    "Kafka protocol guide",
    "JoinGroup, SyncGroup, Heartbeat and LeaveGroup with an empty group id are an INVALID_GROUP_ID.",
)
def group_id_must_not_be_empty(s: CheckSession) -> None:
    join(s, "")
    sync(s, "", "m")
    beat(s, "", "m")
    leave(s, "", {"member_id": "m"})


@check("KIP-62", "Session timeouts outside group.min and max.session.timeout.ms are an INVALID_SESSION_TIMEOUT.")
def session_timeout_has_limits(s: CheckSession) -> None:
    for timeout_ms in (1, 100_000_000):
        join(s, s.name(), session_timeout_ms=timeout_ms)


@check(
    "Kafka protocol guide",
    "JoinGroup without protocols, or without a protocol type, is an INCONSISTENT_GROUP_PROTOCOL.",
)
def protocols_must_not_be_empty(s: CheckSession) -> None:
    join(s, s.name(), protocols=[])
    join(s, s.name(), protocol_type="")


@check("Kafka protocol guide", "A member with another protocol type cannot join a group with members.")
def protocol_type_has_to_be_the_groups(s: CheckSession) -> None:
    group = s.name()
    stable_member(s, group)
    join(s, group, protocol_type="connect")


@check("Kafka protocol guide", "A member without a protocol that all members have cannot join.")
def members_need_a_common_protocol(s: CheckSession) -> None:
    group = s.name()
    stable_member(s, group)
    join(s, group, "", "other")


@check("KIP-62", "The leader receives all members; SyncGroup returns to each member what the leader assigned.")
def leader_receives_the_members_and_assigns(s: CheckSession) -> None:
    group = s.name()
    first = new_member(s, group, compared=False)
    second = second_member(s, group, first)
    join(s, group, first)
    s.finish("b")
    s.start("SyncGroup", 5, client="b", **sync_fields(group, second, 2))
    shares = [{"member_id": first, "assignment": b"one"}, {"member_id": second, "assignment": b"two"}]
    sync(s, group, first, 2, assignments=shares)
    s.finish("b")
    s.ask("DescribeGroups", 5, groups=[group])


@check("KIP-62", "The group uses the protocol that most members prefer, among those that all have.")
def join_selects_a_common_protocol(s: CheckSession) -> None:
    group = s.name()
    first = new_member(s, group, "range", "sticky", compared=False)
    second_member(s, group, first, "sticky", "roundrobin")
    join(s, group, first, "range", "sticky")
    s.finish("b")


@check(
    "Kafka protocol guide",
    "SyncGroup with another generation is an ILLEGAL_GENERATION, of an unknown member UNKNOWN_MEMBER_ID.",
)
def sync_needs_the_current_generation(s: CheckSession) -> None:
    group = s.name()
    member = stable_member(s, group)
    sync(s, group, member, 7)
    sync(s, group, "nobody")
    sync(s, group, member)


@check("KIP-559", "SyncGroup with another protocol type or name is an INCONSISTENT_GROUP_PROTOCOL.")
def sync_needs_the_groups_protocol(s: CheckSession) -> None:
    group = s.name()
    member = stable_member(s, group)
    sync(s, group, member, protocol_name="other")
    sync(s, group, member, protocol_type="connect")


@check(
    "Kafka protocol guide",
    "Heartbeat of an unknown member is an UNKNOWN_MEMBER_ID, of another generation ILLEGAL_GENERATION.",
)
def heartbeat_needs_member_and_generation(s: CheckSession) -> None:
    group = s.name()
    beat(s, group, "nobody")
    member = stable_member(s, group)
    beat(s, group, "nobody")
    beat(s, group, member, 9)
    beat(s, group, member)


@check("Kafka protocol guide", "While a member joins, heartbeats of the others are REBALANCE_IN_PROGRESS.")
def heartbeat_reports_a_rebalance(s: CheckSession) -> None:
    group = s.name()
    member = stable_member(s, group)
    second_member(s, group, member)
    beat(s, group, member)
    sync(s, group, member)
    leave(s, group, {"member_id": member})
    s.finish("b")


@check(
    "Kafka protocol guide",
    "A follower that joins again with the same metadata gets the current generation; a leader rebalances.",
)
def follower_that_joins_again_does_not_rebalance(s: CheckSession) -> None:
    group = s.name()
    first = new_member(s, group, compared=False)
    second = second_member(s, group, first)
    join(s, group, first, compared=False)
    leader = s.finish("b", compared=False).leader
    follower = first if leader == second else second
    sync(s, group, leader, 2, assignments=[], compared=False)
    join(s, group, follower)
    s.start("JoinGroup", 9, client="b", **join_fields(group, leader))
    beat(s, group, follower, 2, until=lambda response: response.error_code != 0)


@check("KIP-345", "LeaveGroup of several members reports UNKNOWN_MEMBER_ID for each that the group does not have.")
def leave_reports_an_error_for_each_member(s: CheckSession) -> None:
    group = s.name()
    leaving = [{"member_id": "nobody"}, {"member_id": "", "group_instance_id": "none"}]
    leave(s, group, *leaving)
    member = stable_member(s, group)
    leave(s, group, *leaving, {"member_id": member})
    s.ask("DescribeGroups", 5, groups=[group])


@check("KIP-345", "LeaveGroup before version 3 names one member, and reports its error for the request.")
def leave_of_one_member_reports_its_error(s: CheckSession) -> None:
    group = s.name()
    member = stable_member(s, group)
    s.ask("LeaveGroup", 2, group_id=group, member_id="nobody")
    s.ask("LeaveGroup", 2, group_id=group, member_id=member)


@check("KIP-345", "A static member that joins with a new member id keeps the generation; its old id is fenced.")
def static_member_that_returns_replaces_itself(s: CheckSession) -> None:
    group = s.name()
    old = join(s, group, group_instance_id="i").member_id
    sync(s, group, old, group_instance_id="i", assignments=[{"member_id": old, "assignment": b"mine"}])
    new = join(s, group, group_instance_id="i").member_id
    beat(s, group, old, group_instance_id="i")
    sync(s, group, new, group_instance_id="i")
    beat(s, group, new, group_instance_id="i")


@check("KIP-345", "LeaveGroup removes a static member by instance id; with another member id it is fenced.")
def static_member_leaves_by_its_instance_id(s: CheckSession) -> None:
    group = s.name()
    join(s, group, group_instance_id="i", compared=False)
    leave(s, group, {"member_id": "nobody", "group_instance_id": "i"})
    leave(s, group, {"member_id": "", "group_instance_id": "i"})
    leave(s, group, {"member_id": "", "group_instance_id": "i"})


@check("KIP-345", "Requests of an instance id that the group does not have are an UNKNOWN_MEMBER_ID.")
def unknown_instance_with_a_member_id_is_unknown(s: CheckSession) -> None:
    group = s.name()
    stable_member(s, group)
    join(s, group, "m", group_instance_id="none")
    beat(s, group, "m", group_instance_id="none")
    sync(s, group, "m", group_instance_id="none")


@check("KIP-1043", "DescribeGroups of a missing group is Dead, and since version 6 GROUP_ID_NOT_FOUND.")
def description_of_a_missing_group(s: CheckSession) -> None:
    s.ask("DescribeGroups", 5, groups=[s.name()])
    s.ask("DescribeGroups", 6, groups=[s.name()])


@check("KIP-518", "ListGroups with states lists only groups in these states, without regard to case.")
def groups_are_listed_by_state(s: CheckSession) -> None:
    group = s.name()
    stable_member(s, group)
    for states in ([], ["Stable"], ["stable"], ["Empty"], ["NoSuchState"]):
        s.ask("ListGroups", 4, at=group, states_filter=states)


@check("KIP-848", "ListGroups with types lists only groups of these types.")
def groups_are_listed_by_type(s: CheckSession) -> None:
    group = s.name()
    stable_member(s, group)
    for types in (["classic"], ["consumer"], ["Classic"], ["nonsense"]):
        s.ask("ListGroups", 5, at=group, types_filter=types)


@check("KIP-229", "DeleteGroups of a missing group is GROUP_ID_NOT_FOUND, of one with members NON_EMPTY_GROUP.")
def only_empty_groups_can_be_deleted(s: CheckSession) -> None:
    group = s.name()
    s.ask("DeleteGroups", 2, groups_names=[group])
    member = stable_member(s, group)
    s.ask("DeleteGroups", 2, groups_names=[group])
    leave(s, group, {"member_id": member})
    s.ask("DeleteGroups", 2, groups_names=[group])
    s.ask("DeleteGroups", 2, groups_names=[group])


@check(
    "Kafka protocol guide", "After its last member left a group is Empty, and its next generation follows the last one."
)
def group_without_members_is_empty(s: CheckSession) -> None:
    group = s.name()
    member = stable_member(s, group)
    leave(s, group, {"member_id": member})
    s.ask("DescribeGroups", 5, groups=[group])
    new_member(s, group)


CHECKS = checks_in(globals())
