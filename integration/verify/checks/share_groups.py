"""Share groups (KIP-932): heartbeats, fetches with acknowledgements, and start offsets."""

from typing import Any
from uuid import uuid4

from quorate.codecs import Uuid
from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.checks.classic_groups import stable_member
from quorate.integration.verify.checks.consumer_groups import has_partitions
from quorate.integration.verify.session import CheckSession

_ACCEPT, _RELEASE, _REJECT = 1, 2, 3


def member_id() -> str:
    """Return a new member id; share sessions need a UUID."""
    return str(Uuid(uuid4().bytes))


def heartbeat(s: CheckSession, group: str, member: str, epoch: int, *topics: str, **more: Any) -> Any:
    """Send a heartbeat. `topics`: the subscription, if there are any."""
    if topics:
        more["subscribed_topic_names"] = list(topics)
    return s.ask("ShareGroupHeartbeat", 1, group_id=group, member_id=member, member_epoch=epoch, **more)


def member_of(s: CheckSession, group: str, topic: str) -> str:
    """Join until the topic is assigned; the group starts at the beginning of the log."""
    resource = {
        "resource_type": 32,
        "resource_name": group,
        "configs": [{"name": "share.auto.offset.reset", "config_operation": 0, "value": "earliest"}],
    }
    s.ask("IncrementalAlterConfigs", 1, compared=False, resources=[resource])
    member = member_id()
    epoch = heartbeat(s, group, member, 0, topic, compared=False).member_epoch
    heartbeat(s, group, member, epoch, topic, compared=False, until=has_partitions)
    return member


def fetching_member(s: CheckSession, *values: bytes) -> tuple[str, str, str]:
    """Let a member acquire records of a new topic; returns group, member and topic."""
    group, topic = s.name(), s.topic()
    s.produce(topic, *values)
    member = member_of(s, group, topic)
    fetch(s, group, member, topic, 0, until=acquired)
    return group, member, topic


def fetch(
    s: CheckSession, group: str, member: str, topic: str, epoch: int, *batches: tuple[int, int, int], **more: Any
) -> Any:
    """Fetch one partition. `batches`: first offset, last offset and type of acknowledgements."""
    fields: dict[str, Any] = {"max_wait_ms": 500, "min_bytes": 1, "max_records": 500, "batch_size": 500, **more}
    return acknowledge(s, group, member, topic, epoch, *batches, api_name="ShareFetch", **fields)


def acknowledge(
    s: CheckSession,
    group: str,
    member: str,
    topic: str,
    epoch: int,
    *batches: tuple[int, int, int],
    api_name: str = "ShareAcknowledge",
    **more: Any,
) -> Any:
    """Acknowledge records of one partition."""
    acknowledged = [
        {"first_offset": first, "last_offset": last, "acknowledge_types": [kind]} for first, last, kind in batches
    ]
    partition = {"partition_index": 0, "acknowledgement_batches": acknowledged}
    topics = [{"topic_id": s.target.topic_id(topic), "partitions": [partition]}]
    return s.ask(api_name, 1, group_id=group, member_id=member, share_session_epoch=epoch, topics=topics, **more)


def acquired(response: Any) -> bool:
    """Return whether a fetch acquired records."""
    return any(partition.acquired_records for topic in response.responses for partition in topic.partitions)


@check("KIP-932", "A member that joins at epoch 0 gets the group's epoch.")
def share_member_joins(s: CheckSession) -> None:
    heartbeat(s, s.name(), member_id(), 0, s.topic(2))


@check(
    "KIP-932",
    "A heartbeat without a group id, a member id or a subscription, or with a wrong epoch, is an INVALID_REQUEST.",
)
def share_heartbeat_has_to_be_valid(s: CheckSession) -> None:
    topic, member = s.topic(), member_id()
    heartbeat(s, "", member, 0, topic)
    heartbeat(s, s.name(), "", 0, topic)
    heartbeat(s, s.name(), member, 0)
    heartbeat(s, s.name(), member, -2, topic)
    s.ask("ShareGroupHeartbeat", 1, group_id=s.name(), member_id=member, subscribed_topic_names=[topic], rack_id="")


@check(
    "KIP-932",
    "A heartbeat at an epoch of a missing group is GROUP_ID_NOT_FOUND, of a missing member UNKNOWN_MEMBER_ID.",
)
def unknown_share_member_is_rejected(s: CheckSession) -> None:
    group, topic, member = s.name(), s.topic(), member_id()
    heartbeat(s, group, member, 3)
    epoch = heartbeat(s, group, member, 0, topic, compared=False).member_epoch
    heartbeat(s, group, member_id(), 3)
    heartbeat(s, group, member, epoch + 1)
    heartbeat(s, group, member, -1)
    heartbeat(s, group, member, -1)


@check("KIP-932", "A share member cannot join a group of another type with members.")
def share_group_has_another_type(s: CheckSession) -> None:
    group = s.name()
    stable_member(s, group)
    heartbeat(s, group, member_id(), 0, s.topic())


@check("KIP-932", "ShareGroupDescribe returns members and epochs; of a missing group it is GROUP_ID_NOT_FOUND.")
def share_groups_are_described(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    member_of(s, group, topic)
    s.ask("ShareGroupDescribe", 1, group_ids=[group])
    s.ask("ShareGroupDescribe", 1, group_ids=[s.name()])
    s.ask("ListGroups", 5, at=group, types_filter=["share"])


@check("KIP-932", "A fetch acquires records; after they are accepted the next fetch gets the following ones.")
def accepted_records_are_not_delivered_again(s: CheckSession) -> None:
    group, member, topic = fetching_member(s, b"a", b"b")
    acknowledge(s, group, member, topic, 1, (0, 1, _ACCEPT))
    s.produce(topic, b"c")
    fetch(s, group, member, topic, 2)


@check("KIP-932", "Released records are delivered again with a higher delivery count, rejected ones are not.")
def released_records_are_delivered_again(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    s.produce(topic, b"a")
    s.produce(topic, b"b")
    member = member_of(s, group, topic)
    fetch(s, group, member, topic, 0, until=acquired)
    fetch(s, group, member, topic, 1, (0, 0, _RELEASE), (1, 1, _REJECT))


@check(
    "KIP-932",
    "Records that were not acquired are an INVALID_RECORD_STATE; overlapping batches are an INVALID_REQUEST.",
)
def acknowledgement_has_to_be_valid(s: CheckSession) -> None:
    group, member, topic = fetching_member(s, b"a", b"b")
    acknowledge(s, group, member, topic, 1, (5, 6, _ACCEPT))
    acknowledge(s, group, member, topic, 2, (0, 1, _ACCEPT), (1, 1, _ACCEPT))
    acknowledge(s, group, member, topic, 3, (1, 0, _ACCEPT))
    acknowledge(s, group, member, topic, 4, (0, 1, 9))
    acknowledge(s, group, member, topic, 5, (0, 1, _ACCEPT))
    acknowledge(s, group, member, topic, 6, (0, 1, _ACCEPT))


@check("KIP-932", "A wrong session epoch is an INVALID_SHARE_SESSION_EPOCH, a missing session SHARE_SESSION_NOT_FOUND.")
def share_session_is_checked(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    s.produce(topic, b"a")
    member = member_of(s, group, topic)
    fetch(s, group, member, topic, 5)
    acknowledge(s, group, member, topic, 1, (0, 0, _ACCEPT))
    fetch(s, group, member, topic, 0, until=acquired)
    fetch(s, group, member, topic, 7)


@check(
    "KIP-932",
    "Acknowledgements in the first fetch of a session are an INVALID_REQUEST, as is a member id that is no UUID.",
)
def first_fetch_has_no_acknowledgements(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    member = member_of(s, group, topic)
    fetch(s, group, member, topic, 0, (0, 0, _ACCEPT))
    fetch(s, group, "", topic, 0)


@check("KIP-932", "A fetch or acknowledgement at epoch -1 closes the session, and other members get its records.")
def closed_session_releases_records(s: CheckSession) -> None:
    group, first, topic = fetching_member(s, b"a")
    second = member_of(s, group, topic)
    acknowledge(s, group, first, topic, -1)
    fetch(s, group, second, topic, 0, client="b", until=acquired)


@check("KIP-932", "DescribeShareGroupOffsets returns the start offset of partitions; -1 without a group.")
def start_offsets_are_described(s: CheckSession) -> None:
    group, member, topic = fetching_member(s, b"a", b"b")
    acknowledge(s, group, member, topic, 1, (0, 0, _ACCEPT))
    topics = [{"topic_name": topic, "partitions": [0]}]
    s.ask("DescribeShareGroupOffsets", 0, groups=[{"group_id": group, "topics": topics}])
    s.ask("DescribeShareGroupOffsets", 0, groups=[{"group_id": s.name(), "topics": topics}])


@check("KIP-932", "AlterShareGroupOffsets and DeleteShareGroupOffsets of a group with members are a NON_EMPTY_GROUP.")
def offsets_of_groups_with_members_stay(s: CheckSession) -> None:
    group, topic = s.name(), s.topic()
    member = member_of(s, group, topic)
    altered = [{"topic_name": topic, "partitions": [{"partition_index": 0, "start_offset": 0}]}]
    for stays in (True, False):
        if not stays:
            heartbeat(s, group, member, -1, compared=False)
        s.ask("AlterShareGroupOffsets", 0, group_id=group, topics=altered)
        s.ask("DeleteShareGroupOffsets", 0, group_id=group, topics=[{"topic_name": topic}])
    s.ask("DeleteShareGroupOffsets", 0, group_id=s.name(), topics=[{"topic_name": topic}])


CHECKS = checks_in(globals())
