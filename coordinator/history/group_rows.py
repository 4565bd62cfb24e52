"""Rows of replayed groups: the columns of kafka-consumer-groups.sh and more.

A row is a mapping of plain values.
"""

from collections.abc import Iterable, Iterator
from dataclasses import fields, is_dataclass, replace
from typing import Any

from quorate.assignors.topology import TopicPartition, grouped
from quorate.codecs import Uuid
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.config import CoordinatorConfig, MigrationPolicy
from quorate.coordinator.history.events import Event
from quorate.coordinator.history.labels import Labels, Partition
from quorate.coordinator.history.replay import ReplayedGroup, ReplayedGroups
from quorate.coordinator.history.share_rows import share_rows, share_summary
from quorate.coordinator.history.upgrade import Finding, findings, share_groups_left
from quorate.coordinator.history.views import MemberView
from quorate.coordinator.state import GroupKind

Row = dict[str, Any]


def listed_rows(found: ReplayedGroups) -> Iterator[Row]:
    """Yield a row per group."""
    for one in found.groups:
        group = one.view
        yield {
            "group": group.group_id,
            "type": group.kind.value,
            "protocol": group.protocol_type,
            "state": group.state,
            "members": len(group.members),
            "log_partition": one.partition,
        }


def group_rows(found: ReplayedGroups) -> Iterator[Row]:
    """Yield a row per group with its epochs, hash, and the cause of the last epoch."""
    labels = found.labels()
    for one in found.groups:
        group = one.view
        bump = one.history.bumps.get(group.group_id)
        yield {
            "group": group.group_id,
            "type": group.kind.value,
            "coordinator": found.coordinators.get(one.partition),
            "state": group.state,
            "assignment_strategy": group.assignor,
            "group_epoch": group.epoch,
            "target_epoch": group.assignment_epoch,
            "members": len(group.members),
            "behind": [member.member_id for member in group.members.values() if _is_unreconciled(one, member)],
            "metadata_hash": group.metadata_hash or None,
            "topics": None if group.topics is None else sorted(group.topics),
            "topology_epoch": group.topology_epoch,
            "validated_topology_epoch": group.validated_topology_epoch,
            "log_partition": one.partition,
            "share": share_summary(found, one),
            "last_bump": None
            if bump is None
            else {
                "epoch": bump[1].after,
                "timestamp_ms": bump[0].timestamp_ms,
                "offset": bump[0].offset,
                "causes": [reason.cause.value for reason in bump[1].reasons],
                "why": bump[1].why(labels),
            },
        }


def _is_unreconciled(one: ReplayedGroup, member: MemberView) -> bool:
    return one.view.kind is not GroupKind.CLASSIC and (
        member.epoch != one.view.assignment_epoch or member.state != "stable"
    )


def member_rows(found: ReplayedGroups) -> Iterator[Row]:
    """Yield a row per member with its rack, epochs, and current and target assignment."""
    for one in found.groups:
        group = one.view
        for member in sorted(group.members.values(), key=lambda member: (member.client_id, member.member_id)):
            local = [found.is_local(member.rack, partition) for partition in member.assigned]
            known = bool(local) and None not in local
            yield {
                "group": group.group_id,
                "consumer_id": member.member_id,
                "group_instance_id": member.instance_id,
                "host": member.client_host,
                "client_id": member.client_id,
                "rack": member.rack,
                "protocol": member.protocol,
                "partitions": len(member.assigned),
                "local": local.count(True) if known else None,
                "remote": local.count(False) if known else None,
                "member_epoch": member.epoch,
                "target_epoch": group.assignment_epoch,
                "state": member.state,
                "subscription": [*member.topics, *([f"/{member.regex}/"] if member.regex else [])],
                "assignment": grouped(sorted(map(found.at, member.assigned))),
                "process_id": member.process_id or None,
                "standby_tasks": _of_role(member.standby),
                "warmup_tasks": _of_role(member.warmup),
                "to_give_up": grouped(sorted(map(found.at, member.pending_revocation))),
                "target_assignment": grouped(sorted(map(found.at, member.target))),
            }


def _of_role(tasks: Iterable[Partition]) -> dict[str, list[int]]:
    """Group tasks by subtopology, without the role in their labels."""
    return grouped(sorted((str(name).partition(" of ")[2], number) for name, number in tasks))


def offset_rows(found: ReplayedGroups) -> Iterator[Row]:
    """Yield a row per committed, assigned or shared partition, with its racks and locality.

    `share` of a row is the state of the share-partition. States whose group is not in
    `__consumer_offsets`, or not read from there, have rows, too.
    """
    for one in found.groups:
        yield from _offset_rows(found, one)
    for group_id in sorted(found.shares.keys() - {one.view.group_id for one in found.groups}):
        for at, share in share_rows(found, group_id):
            yield _offset_row(found, group_id, at, share=share)


def _offset_rows(found: ReplayedGroups, one: ReplayedGroup) -> Iterator[Row]:
    group = one.view
    offsets = {(topic, number): offset for topic, number, offset in one.history.state.offsets.of_group(group.group_id)}
    shares = dict(share_rows(found, group.group_id))
    owners = {
        found.at(partition): (member, partition) for member in group.members.values() for partition in member.assigned
    }
    for at in sorted({*offsets, *shares, *(owners if group.kind is not GroupKind.STREAMS else ())}):
        offset = offsets.get(at)
        # Several members may consume a share-partition; `members` lists them.
        member, partition = (None, at) if at in shares else owners.get(at, (None, at))
        row = _offset_row(found, group.group_id, at, share=shares.get(at))
        if offset is not None:
            end = row["log_end_offset"]
            row |= {
                "leader_epoch": None if offset.leader_epoch < 0 else offset.leader_epoch,
                "current_offset": offset.value.offset,
                # As in kafka-consumer-groups.sh, also if negative: ends are read after commits.
                "lag": None if end is None else end - offset.value.offset,
                "committed_ms": offset.value.commit_timestamp,
            }
        if member is not None:
            row |= {
                "locality": {True: "local", False: "remote", None: None}[found.is_local(member.rack, partition)],
                "rack": member.rack,
                "consumer_id": member.member_id,
                "host": member.client_host,
                "client_id": member.client_id,
            }
        yield row | {"pending": one.history.state.offsets.is_pending(group.group_id, *at)}


def _offset_row(found: ReplayedGroups, group_id: str, at: tuple[str, int], share: Row | None) -> Row:
    """Return the row of a partition without committed offset and member."""
    racks = found.racks(at)
    return {
        "group": group_id,
        "topic": at[0],
        "partition": at[1],
        "leader_epoch": None if share is None else share["leader_epoch"],
        "current_offset": None,
        "log_end_offset": None if found.ends is None else found.ends.get(TopicPartition(*at)),
        "lag": None if share is None else share["lag"],
        "committed_ms": None,
        "pending": False,
        "racks": None if racks is None else list(racks),
        "locality": None,
        "rack": None,
        "consumer_id": None,
        "host": None,
        "client_id": None,
        "share": share,
    }


def event_rows(found: ReplayedGroups, events: Iterable[Event]) -> Iterator[Row]:
    """Yield a row per event; `what` has a sentence for each fact."""
    labels = found.labels()
    for event in events:
        yield {
            "group": event.group_id,
            "log_topic": event.topic,
            "log_partition": event.partition,
            "offset": event.offset,
            "last_offset": event.last_offset,
            "timestamp_ms": event.timestamp_ms,
            "until_ms": event.until_ms,
            "what": [
                {"fact": type(fact).__name__, "sentence": fact.sentence(labels), **_plain(fact, labels)}
                for fact in event.facts
            ],
        }


def finding_rows(found: ReplayedGroups, to: KafkaVersion, migration_policy: str, max_size: int | None) -> Iterator[Row]:
    """Yield a row per finding, first those that prevent loading a partition.

    `to`: the new release of the brokers. `max_size`: maximum size of consumer groups, `None` for
    Kafka's default.
    """
    config = CoordinatorConfig(kafka_version=to, group_consumer_migration_policy=MigrationPolicy(migration_policy))
    if max_size is not None:
        config = replace(config, group_consumer_max_size=max_size)
    topics = None if found.topology is None else {topic.name: topic for topic in found.topology.topics}
    for partition, history in sorted(found.histories.items(), key=lambda one: -1 if one[0] is None else one[0]):
        for group_id, finding in share_groups_left(history.state, config, partition):
            yield _finding_row(group_id, GroupKind.SHARE, partition, finding)
    for group in found.groups:
        for finding in findings(group.history.state.groups[group.view.group_id], config, topics):
            yield _finding_row(group.view.group_id, group.view.kind, group.partition, finding)


def _finding_row(group_id: str, kind: GroupKind, partition: int | None, finding: Finding) -> Row:
    return {
        "group": group_id,
        "type": kind.value,
        "finding": finding.kind.value,
        "what": finding.sentence,
        "log_partition": partition,
    }


def _plain(value: Any, labels: Labels) -> Any:
    """Convert a fact or its fields for JSON: partitions are `[topic, number]`."""
    if isinstance(value, Uuid):
        return labels.topic(value)
    if isinstance(value, tuple):
        return [_plain(one, labels) for one in value]
    if is_dataclass(value):
        return {field.name: _plain(getattr(value, field.name), labels) for field in fields(value)}
    return value
