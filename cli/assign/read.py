"""A group from a copy of `__consumer_offsets`, or of a running cluster by kafka-python's admin client.

Members of classic groups come from DescribeGroups. kafka-python (3.0) has no ConsumerGroupDescribe (KIP-848, API 69), so those of consumer groups come
from the group's own records: one partition of `__consumer_offsets` is read. Nothing is joined, committed or written.
"""

import difflib
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from quorate.assignors import Member, TopicPartition, Topology
from quorate.assignors.what_if.description import read_topology as read_topology_file
from quorate.assignors.what_if.situation import Situation
from quorate.cli.admin import end_offsets, open_admin, read_topology, topic_ids
from quorate.cli.errors import UserError
from quorate.cli.moments import read_time
from quorate.cli.reporting import byte_progress, show_damage
from quorate.cli.sources import LogFiles
from quorate.codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from quorate.codecs.live import read_live
from quorate.codecs.live_connect import explain_error
from quorate.codecs.log.model import LogEntry, LogProblem, is_damage
from quorate.codecs.printable import listed
from quorate.codecs.records import CONSUMER_OFFSETS
from quorate.coordinator.history.situations import Known, SituationReplay
from quorate.coordinator.partitioning import partition_for

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient

__all__ = ["read_capture", "read_group"]


def read_capture(path: str, group_id: str, until: str | None, topology: str | None) -> Situation:
    """The group at the end of the log, or as it was at a time. `topology`: a file that tells topics. Raises `UserError`."""
    until_ms = None if until is None else read_time("--until", until, datetime.now(UTC))
    known = Known()
    if topology is not None:
        of_file, lags = read_topology_file(topology)
        known = Known(topology=of_file, lags=lags)
    replay = SituationReplay(group_id, known)
    files = LogFiles([path], topics=(CONSUMER_OFFSETS,))
    # Transactions do not touch membership: only committed offsets are written in them.
    with byte_progress(files.size_bytes, wanted=True) as progress:
        for entry in files.entries(until_ms=until_ms, skip_corrupt=True, progress=progress):
            if isinstance(entry, LogProblem):
                if is_damage(entry, skip_corrupt=False):
                    show_damage(entry, skipped=True)
            elif isinstance(entry, LogEntry):
                replay.apply(entry.record, entry.timestamp_ms)
    return replay.situation(path)


def read_group(servers: Sequence[str], group_id: str, config: Mapping[str, Any], connect_timeout_ms: int) -> Situation:
    """The group as the cluster has it now. `config`: kafka-python's. Raises `UserError`."""
    with open_admin(servers, config, connect_timeout_ms, f"reading group {group_id}") as (admin, where):
        return _Reader(admin, where, group_id).read(servers, dict(config), connect_timeout_ms)


class _Reader:
    def __init__(self, admin: "KafkaAdminClient", where: str, group_id: str) -> None:
        self.admin = admin
        self.where = where
        self.group_id = group_id

    def read(self, servers: Sequence[str], config: dict[str, Any], connect_timeout_ms: int) -> Situation:
        listing = {one["group_id"]: one for one in self.admin.list_groups()}
        facts = listing.get(self.group_id)
        if facts is None:
            close = difflib.get_close_matches(self.group_id, listing, 3)
            there = f"did you mean {' or '.join(close)}?" if close else f"there are {listed(sorted(listing))}"
            raise UserError(
                f"{self.where}: there is no group {self.group_id}, or it may not be described",
                there if listing else "no group at all is shown",
            )
        kind = facts.get("group_type") or "classic"
        if kind == "consumer":
            return self._consumer(servers, config, connect_timeout_ms)
        if kind != "classic":
            raise UserError(f"{self.where}: {self.group_id} is a {kind} group", "assign takes groups of consumers")
        if facts.get("protocol_type") not in (CONSUMER_PROTOCOL_TYPE, ""):
            raise UserError(
                f"{self.where}: {self.group_id} is a group of protocol type {facts['protocol_type']!r}",
                "assign takes groups of consumers",
            )
        return self._classic()

    # ---- members

    def _classic(self) -> Situation:
        group = self.admin.describe_groups([self.group_id])[self.group_id]
        if group.get("error"):
            raise UserError(f"{self.where}: {self.group_id} cannot be described: {group['error']}")
        state = group["group_state"]
        if not group["members"]:
            raise UserError(
                f"{self.where}: {self.group_id} has no members ({state})", "start them, or describe the group in a FILE"
            )
        members: dict[str, Member] = {}
        for one in group["members"]:
            subscription, assignment = one["member_metadata"], one["member_assignment"]
            if not isinstance(subscription, dict):
                rebalancing = state != "Stable"
                raise UserError(
                    f"{self.where}: the subscription of {one['member_id']} in {self.group_id} "
                    + (f"is not told while the group rebalances ({state})" if rebalancing else "cannot be read"),
                    *(["try again when it is stable"] if rebalancing else []),
                )
            owned = [
                (at["topic"], number)
                for at in (assignment["assigned_partitions"] if isinstance(assignment, dict) else ())
                for number in at["partitions"]
            ]
            members[one["member_id"]] = Member(
                topics=subscription["topics"],
                rack=subscription.get("rack_id") or None,
                instance_id=one.get("group_instance_id"),
                owned=owned,
                # The broker does not tell it; members of a stable group all have the same.
                generation=1 if owned else -1,
            )
        topology = read_topology(self.admin, {topic for member in members.values() for topic in _names(member)})
        lags, notes = self._lags(topology)
        return Situation(
            source=self.where,
            group_id=self.group_id,
            protocol="classic",
            assignor=group["protocol_data"] or None,
            members=members,
            topology=topology,
            current={member_id: member.owned for member_id, member in members.items()},
            lags=lags,
            notes=notes,
        )

    def _consumer(self, servers: Sequence[str], config: dict[str, Any], connect_timeout_ms: int) -> Situation:
        count = sum(len(topic["partitions"]) for topic in self.admin.describe_topics([CONSUMER_OFFSETS]))
        if not count:
            raise UserError(
                f"{self.where}: {self.group_id} is a consumer group (KIP-848), whose members are read from {CONSUMER_OFFSETS}, which may not be described",
                f"it takes DESCRIBE and READ on {CONSUMER_OFFSETS}; or describe the group in a FILE",
            )
        # Before its topics are known, only names can be told; the topology of the result comes from metadata.
        replay = SituationReplay(self.group_id, Known(names=topic_ids(self.admin)))
        entries = read_live(
            servers,
            topic=CONSUMER_OFFSETS,
            partitions=[partition_for(self.group_id, count)],
            isolation_level="read_uncommitted",  # a hanging transaction shall not hide what follows it
            connect_timeout_ms=connect_timeout_ms,
            **config,
        )
        for entry in entries:
            replay.apply(entry.record, entry.timestamp_ms)
        found = replay.situation(self.where)
        topology = read_topology(self.admin, {topic for member in found.members.values() for topic in _names(member)})
        lags, notes = self._lags(topology)
        return Situation(
            source=self.where,
            group_id=self.group_id,
            protocol="consumer",
            assignor=found.assignor,
            members=found.members,
            topology=topology,
            current=found.current,
            lags=lags,
            notes=notes,
        )

    # ---- lags

    def _lags(self, topology: Topology) -> tuple[Mapping[TopicPartition, int] | None, tuple[str, ...]]:
        """Written and not yet committed as read. Not known for partitions without a committed offset: how those begin is the consumer's secret."""
        from kafka.errors import KafkaError

        try:
            committed = {
                TopicPartition(*at): told.offset
                for at, told in self.admin.list_group_offsets({self.group_id: None})[self.group_id].items()
                if told.offset >= 0 and topology.number(*at) >= 0
            }
            ends = end_offsets(self.admin, committed)
        except KafkaError as error:
            return None, (f"lags could not be read: {explain_error(error)}",)
        return {at: max(0, ends[at] - offset) for at, offset in committed.items()} or None, ()


def _names(member: Member) -> set[str]:
    return {*member.topics, *(topic for topic, _ in member.owned)}
