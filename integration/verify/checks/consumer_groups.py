"""Consumer groups (KIP-848): heartbeats, descriptions, and members of both protocols."""

from typing import Any

from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.checks.classic_groups import join as join_classic
from quorate.integration.verify.checks.classic_groups import stable_member
from quorate.integration.verify.session import CheckSession


def beat(s: CheckSession, group: str, member_id: str, epoch: int, *, version: int = 1, **more: Any) -> Any:
    """Send a heartbeat, and record its response."""
    fields = {"group_id": group, "member_id": member_id, "member_epoch": epoch, **more}
    return s.ask("ConsumerGroupHeartbeat", version, **fields)


def join(s: CheckSession, group: str, member_id: str, *topics: str, **more: Any) -> Any:
    """Send a heartbeat that joins, and record its response."""
    fields = {"rebalance_timeout_ms": 10_000, "subscribed_topic_names": list(topics), "topic_partitions": [], **more}
    return beat(s, group, member_id, 0, **fields)


def joined(s: CheckSession, group: str, topic: str, **more: Any) -> int:
    """Join as m1 until it has an assignment; returns its epoch."""
    more["until"] = lambda response: response.error_code != 0 or bool(response.assignment)
    epoch: int = join(s, group, "m1", topic, compared=False, **more).member_epoch
    return epoch


def has_partitions(response: Any) -> bool:
    """Return whether the response to a heartbeat assigns partitions."""
    return bool(response.assignment and response.assignment.topic_partitions)


def own(s: CheckSession, topic: str, *partitions: int) -> list[dict[str, Any]]:
    """Return owned partitions of a topic, for a heartbeat."""
    return [{"topic_id": s.target.topic_id(topic), "partitions": list(partitions)}]


@check("KIP-848", "A member that joins at epoch 0 gets the group's epoch and its partitions.")
def first_member_is_assigned_all_partitions(s: CheckSession) -> None:
    topic = s.topic(2)
    join(s, s.name(), "m1", topic)


@check("KIP-848", "A heartbeat with an empty group id is an INVALID_REQUEST.")
def heartbeat_needs_a_group_id(s: CheckSession) -> None:
    join(s, "", "m1", "t")


@check("KIP-1082", "Since version 1 a heartbeat without a member id is an INVALID_REQUEST; before, it gets one.")
def heartbeat_needs_a_member_id(s: CheckSession) -> None:
    join(s, s.name(), "", "t")
    join(s, s.name(), "", "t", version=0)


@check(
    "KIP-848",
    "Joining without a subscription, a rebalance timeout, or an empty list of partitions is an INVALID_REQUEST.",
)
def joining_needs_all_fields(s: CheckSession) -> None:
    topic = s.topic()
    group = s.name()
    join(s, group, "m1", subscribed_topic_names=None)
    join(s, group, "m1", topic, rebalance_timeout_ms=-1)
    join(s, group, "m1", topic, topic_partitions=None)
    join(s, group, "m1", topic, topic_partitions=own(s, topic, 0))


@check("KIP-848", "An empty instance id, rack or assignor name is an INVALID_REQUEST.")
def texts_must_not_be_empty(s: CheckSession) -> None:
    topic = s.topic()
    for name in ("instance_id", "rack_id", "server_assignor"):
        join(s, s.name(), "m1", topic, **{name: ""})


@check("KIP-848", "An assignor that the broker does not have is an UNSUPPORTED_ASSIGNOR.")
def assignor_has_to_be_known(s: CheckSession) -> None:
    join(s, s.name(), "m1", s.topic(), server_assignor="none")


@check("KIP-848", "A member may select the assignors uniform and range.")
def range_assignor_is_available(s: CheckSession) -> None:
    topic = s.topic(2)
    for name in ("uniform", "range"):
        join(s, s.name(), "m1", topic, server_assignor=name)


@check(
    "KIP-848",
    "A heartbeat at an epoch of a missing group is GROUP_ID_NOT_FOUND, of a missing member UNKNOWN_MEMBER_ID.",
)
def unknown_member_is_rejected(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    beat(s, group, "m1", 3)
    joined(s, group, topic)
    beat(s, group, "m2", 3)
    beat(s, group, "m2", -1)


@check("KIP-848", "A heartbeat with an epoch that is newer than the member's is FENCED_MEMBER_EPOCH.")
def newer_epoch_is_fenced(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    epoch = joined(s, group, topic)
    beat(s, group, "m1", epoch + 1)
    beat(s, group, "m1", epoch + 1)


@check("KIP-848", "The epoch before the member's is accepted if it owns no more than it was assigned, else fenced.")
def previous_epoch_is_accepted_with_a_subset(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    epoch = joined(s, group, topic)
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0, 1))
    changed: dict[str, Any] = {"compared": False, "subscribed_topic_names": [topic, s.name("t")]}
    beat(s, group, "m1", epoch, until=lambda response: response.member_epoch > epoch, **changed)
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0))
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0, 7))


@check("KIP-848", "Epochs below -2 are an INVALID_REQUEST, as is -2 without an instance id.")
def epoch_has_to_be_valid(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    joined(s, group, topic)
    beat(s, group, "m1", -3)
    beat(s, group, "m1", -2)


@check("KIP-848", "A heartbeat at epoch -1 removes the member, and the group is Empty.")
def member_leaves_at_epoch_minus_1(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    joined(s, group, topic)
    beat(s, group, "m1", -1)
    s.ask("ConsumerGroupDescribe", 0, group_ids=[group])
    beat(s, group, "m1", -1)


@check("KIP-848", "A heartbeat without changes returns no assignment; one that lists its partitions does.")
def unchanged_heartbeat_returns_no_assignment(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    epoch = joined(s, group, topic)
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0, 1))
    beat(s, group, "m1", epoch)
    beat(s, group, "m1", epoch, topic_partitions=[])


@check("KIP-848", "A partition that moves is assigned to its new owner after the old one no longer lists it.")
def partitions_are_revoked_before_others_own_them(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    epoch = joined(s, group, topic)
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0, 1))
    join(s, group, "m2", topic, compared=False)
    revoking = beat(s, group, "m1", epoch, until=lambda response: bool(response.assignment))
    kept = revoking.assignment.topic_partitions[0].partitions
    join(s, group, "m2", topic)
    acknowledged = beat(s, group, "m1", epoch, topic_partitions=own(s, topic, *kept))
    join(s, group, "m2", topic, until=has_partitions)
    beat(s, group, "m1", acknowledged.member_epoch)


@check("KIP-848", "A static member that left at epoch -2 gets its partitions with a new member id.")
def static_member_returns_to_its_partitions(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    joined(s, group, topic, instance_id="i")
    beat(s, group, "m1", -2, instance_id="i")
    join(s, group, "m9", topic, instance_id="i")
    beat(s, group, "m1", 1, instance_id="i")


@check("KIP-848", "An instance id of a member that has not left is an UNRELEASED_INSTANCE_ID.")
def instance_id_belongs_to_one_member(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    epoch = joined(s, group, topic, instance_id="i")
    join(s, group, "m2", topic, instance_id="i")
    beat(s, group, "m2", epoch, instance_id="i")
    beat(s, group, "m1", epoch, instance_id="j")


@check("KIP-848", "A member that subscribes to a regex is assigned the topics whose whole names match.")
def regex_is_resolved_by_the_broker(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    regex = topic[:-1] + "[0-9]"
    join(s, group, "m1", until=has_partitions, subscribed_topic_names=None, subscribed_topic_regex=regex)


@check("KIP-848", "A regex that RE2 cannot compile is an INVALID_REGULAR_EXPRESSION.")
def regex_has_to_be_valid(s: CheckSession) -> None:
    for regex in ("(", "a(?=b)"):
        join(s, s.name(), "m1", subscribed_topic_names=None, subscribed_topic_regex=regex)


@check("KIP-848", "A member may subscribe to a topic that does not exist; it is assigned nothing.")
def missing_topic_is_not_an_error(s: CheckSession) -> None:
    join(s, s.name(), "m1", s.name("t"))


@check("KIP-848", "ConsumerGroupDescribe returns epochs, and the assigned and target partitions of members.")
def description_has_both_assignments(s: CheckSession) -> None:
    group, topic = s.name(), s.topic(2)
    epoch = joined(s, group, topic, rack_id="a")
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0, 1))
    s.ask("ConsumerGroupDescribe", 1, group_ids=[group])


@check("KIP-848", "ConsumerGroupDescribe of a missing or classic group is a GROUP_ID_NOT_FOUND.")
def description_of_other_groups_is_not_found(s: CheckSession) -> None:
    classic = s.name()
    stable_member(s, classic)
    s.ask("ConsumerGroupDescribe", 0, group_ids=[s.name()])
    s.ask("ConsumerGroupDescribe", 0, group_ids=[classic])


@check("KIP-848", "DescribeGroups does not find a consumer group.")
def consumer_group_is_dead_for_classic_descriptions(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    joined(s, group, topic)
    s.ask("DescribeGroups", 5, groups=[group])


@check("KIP-848", "ListGroups lists a consumer group with its type and state.")
def groups_of_the_new_protocol_are_listed(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    epoch = joined(s, group, topic)
    beat(s, group, "m1", epoch, topic_partitions=own(s, topic, 0))
    s.ask("ListGroups", 5, at=group, types_filter=["consumer"])
    s.ask("ListGroups", 5, at=group, types_filter=["classic"])


@check("KIP-848", "DeleteGroups of a consumer group with members is a NON_EMPTY_GROUP.")
def group_with_members_cannot_be_deleted(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    joined(s, group, topic)
    s.ask("DeleteGroups", 2, groups_names=[group])
    beat(s, group, "m1", -1)
    s.ask("DeleteGroups", 2, groups_names=[group])


@check("KIP-848", "A classic member with the protocol type consumer can join a consumer group; others cannot.")
def classic_member_joins_a_consumer_group(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    joined(s, group, topic)
    join_classic(s, group, protocol_type="connect")
    join_classic(s, group)


@check("KIP-848", "A member of the consumer protocol turns a classic group into a consumer group.")
def classic_group_with_members_is_upgraded(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    stable_member(s, group)
    join(s, group, "m1", topic)
    s.ask("ListGroups", 5, at=group, types_filter=["consumer"])


CHECKS = checks_in(globals())
