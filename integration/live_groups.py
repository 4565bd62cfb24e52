"""Groups of a running cluster, read with kafka-python's admin client.

`LiveGroups` reads them from `__consumer_offsets`. `live_situation` returns the input of assignors
for one group. Members of classic groups come from DescribeGroups. kafka-python (3.0) has no
ConsumerGroupDescribe (KIP-848, API 69), so that members of consumer groups come from the group's
partition of `__consumer_offsets`. Nothing is joined, committed or written.
"""

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Literal

from quorate.assignors import Member, TopicPartition
from quorate.assignors.what_if import GroupSituation
from quorate.codecs.consumer_protocol import CONSUMER_PROTOCOL_TYPE
from quorate.codecs.errors import InputError
from quorate.codecs.live import read_live, read_live_blocks
from quorate.codecs.live_connect import explain_error
from quorate.codecs.log import IsolationLevel, LogEntry
from quorate.codecs.printable import listed, suggestion
from quorate.codecs.records import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.coordinator.history import Moment
from quorate.coordinator.history.replay import EventsOf, GroupsReplay, ReplayedGroups, check_places
from quorate.coordinator.history.situations import Known, SituationReplay
from quorate.coordinator.partitioning import partition_for
from quorate.coordinator.state import GroupKind
from quorate.watch.metadata import LiveTopics, end_offsets, live_topics, open_admin, topic_ids, without_leader

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient


_HAS_COLUMNS = find_spec("pyarrow") is not None


class LiveGroups:
    """Groups of a cluster, read from its `__consumer_offsets` and `__share_group_state`.

    Each `read` resumes where the last one ended. `committed`: ignore records of open and aborted
    transactions. `events`: those to collect. Without `offsets`, committed offsets and the names
    of topics by id may be missing. `ends`: the partitions whose log end offsets to read, those of
    committed offsets and of share groups.
    """

    def __init__(
        self,
        servers: Sequence[str],
        globs: Sequence[str],
        moment: Moment,
        config: Mapping[str, Any],
        connect_timeout_ms: int,
        *,
        events: EventsOf = "none",
        committed: bool,
        offsets: bool = True,
        ends: Literal["none", "shares", "all"] = "none",
    ) -> None:
        self._servers = servers
        self._globs = globs
        self._config = config
        self._connect_timeout_ms = connect_timeout_ms
        self._isolation_level: IsolationLevel = "read_committed" if committed else "read_uncommitted"
        self._events = events
        self._offsets = offsets
        self._ends = ends
        self._replay = GroupsReplay(globs, moment, events=events)

    def read(self) -> ReplayedGroups:
        """Return the current groups. Raises `InputError`."""
        found = ReplayedGroups()
        with open_admin(self._servers, self._config, self._connect_timeout_ms, "reading groups") as (admin, where):
            coordinated = [
                partition for topic in admin.describe_topics([CONSUMER_OFFSETS]) for partition in topic["partitions"]
            ]
            count = len(coordinated)
            if not count:
                raise InputError(
                    f"{where}: {CONSUMER_OFFSETS} does not exist, or this client is not allowed to describe it",
                    "brokers create it when the first group needs it; DESCRIBE and READ on it are required",
                )
            check_places(self._replay.moment, range(count), where)
            exact = [glob for glob in self._globs if not re.search(r"[*?\[]", glob)]
            partitions = (
                sorted({partition_for(group, count) for group in exact})
                if exact and len(exact) == len(self._globs)
                else None
            )
            found.names = topic_ids(admin)
            brokers = {
                broker["broker_id"]: f"{broker['host']}:{broker['port']}"
                for broker in admin.describe_cluster()["brokers"]
            }
            found.coordinators = {
                one["partition_index"]: f"{brokers[one['leader_id']]} ({one['leader_id']})"
                for one in coordinated
                if one["leader_id"] in brokers
            }
            options = self._options(CONSUMER_OFFSETS, self._replay.next_offsets, partitions)
            if not _HAS_COLUMNS or self._replay.needs_entries(shares=True):
                self._replay.take(found, _entries(self._servers, options))
            else:
                blocks = read_live_blocks(self._servers, **options)
                self._replay.load(found, blocks, offsets=self._offsets)
            self._read_shares(admin, found)
            if not found.groups:
                found.known_groups |= {group["group_id"] for group in admin.list_groups()}
            topics = live_topics(admin, {name for one in found.groups for name in found.topics_of(one)})
            found.topology = topics.topology
            wanted = {
                TopicPartition(topic, number)
                for one in (found.groups if self._ends == "all" else ())
                for topic, number, _ in one.history.state.offsets.of_group(one.view.group_id)
            } | {
                TopicPartition(*found.at(place))
                for one in (found.groups if self._ends != "none" else ())
                for place in found.shares.get(one.view.group_id, ())
            }
            found.ends = end_offsets(admin, topics.with_leader(wanted))
            found.leaderless = topics.leaderless & wanted
        return found

    def _read_shares(self, admin: "KafkaAdminClient", found: ReplayedGroups) -> None:
        """Read `__share_group_state` for share groups, if it may be described."""
        if self._events == "none" and not any(one.view.kind is GroupKind.SHARE for one in found.groups):
            return
        if not any(topic["partitions"] for topic in admin.describe_topics([SHARE_GROUP_STATE])):
            return
        options = self._options(SHARE_GROUP_STATE, self._replay.next_share_offsets, None)
        self._replay.take_shares(found, _entries(self._servers, options))

    def _options(
        self, topic: str, start_offsets: Mapping[int, int], partitions: Collection[int] | None
    ) -> dict[str, Any]:
        return {
            "topic": topic,
            "partitions": partitions,
            "start_offsets": start_offsets,
            "isolation_level": self._isolation_level,
            "connect_timeout_ms": self._connect_timeout_ms,
            **self._config,
        }


def _entries(servers: Sequence[str], options: Mapping[str, Any]) -> Iterator[LogEntry]:
    """Return the records of a coordinator topic; `options`: those of `read_live_blocks`."""
    if not _HAS_COLUMNS:
        return read_live(servers, **options)
    return (entry for block in read_live_blocks(servers, **options) for entry in block.entries())


def live_situation(
    servers: Sequence[str], group_id: str, config: Mapping[str, Any], connect_timeout_ms: int
) -> GroupSituation:
    """Return the current state of a group. `config`: kafka-python's. Raises `InputError`."""
    with open_admin(servers, config, connect_timeout_ms, f"reading group {group_id}") as (admin, where):
        return _SituationReader(admin, where, group_id).read(servers, dict(config), connect_timeout_ms)


class _SituationReader:
    def __init__(self, admin: "KafkaAdminClient", where: str, group_id: str) -> None:
        self.admin = admin
        self.where = where
        self.group_id = group_id

    def read(self, servers: Sequence[str], config: dict[str, Any], connect_timeout_ms: int) -> GroupSituation:
        listing = {group["group_id"]: group for group in self.admin.list_groups()}
        facts = listing.get(self.group_id)
        if facts is None:
            hint = suggestion(self.group_id, listing, f"there are {listed(sorted(listing))}")
            raise InputError(
                f"{self.where}: group {self.group_id} does not exist, or this client is not allowed to describe it",
                hint if listing else "no groups are visible",
            )
        kind = facts.get("group_type") or "classic"
        if kind == "consumer":
            return self._consumer(servers, config, connect_timeout_ms)
        if kind != "classic":
            raise InputError(f"{self.where}: {self.group_id} is a {kind} group", "assign supports groups of consumers")
        if facts.get("protocol_type") not in (CONSUMER_PROTOCOL_TYPE, ""):
            raise InputError(
                f"{self.where}: {self.group_id} is a group of protocol type {facts['protocol_type']!r}",
                "assign supports groups of consumers",
            )
        return self._classic()

    # ---- members

    def _classic(self) -> GroupSituation:
        group = self.admin.describe_groups([self.group_id])[self.group_id]
        if group.get("error"):
            raise InputError(f"{self.where}: {self.group_id} cannot be described: {group['error']}")
        state = group["group_state"]
        if not group["members"]:
            raise InputError(
                f"{self.where}: {self.group_id} has no members ({state})", "start them, or describe the group in a FILE"
            )
        members: dict[str, Member] = {}
        for one in group["members"]:
            subscription, assignment = one["member_metadata"], one["member_assignment"]
            if not isinstance(subscription, dict):
                rebalancing = state != "Stable"
                raise InputError(
                    f"{self.where}: the subscription of {one['member_id']} in {self.group_id} "
                    + (f"is not available while the group rebalances ({state})" if rebalancing else "cannot be read"),
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
                # DescribeGroups does not return it. Members of a stable group have the same one.
                generation=1 if owned else -1,
            )
        topics, lags, notes = self._topics(members.values())
        return GroupSituation(
            source=self.where,
            group_id=self.group_id,
            protocol="classic",
            assignor=group["protocol_data"] or None,
            members=members,
            topology=topics.topology,
            current={member_id: member.owned for member_id, member in members.items()},
            lags=lags,
            notes=notes,
        )

    def _consumer(self, servers: Sequence[str], config: dict[str, Any], connect_timeout_ms: int) -> GroupSituation:
        count = sum(len(topic["partitions"]) for topic in self.admin.describe_topics([CONSUMER_OFFSETS]))
        if not count:
            raise InputError(
                f"{self.where}: {self.group_id} is a consumer group (KIP-848), whose members are read from "
                f"{CONSUMER_OFFSETS}, which this client is not allowed to describe",
                f"DESCRIBE and READ on {CONSUMER_OFFSETS} are required; or describe the group in a FILE",
            )
        # The replay needs only names of topics; the topology of the result comes from metadata.
        replay = SituationReplay(self.group_id, Known(names=topic_ids(self.admin)))
        options: dict[str, Any] = {
            "partitions": [partition_for(self.group_id, count)],
            "isolation_level": "read_uncommitted",  # a hanging transaction must not hide later records
            "connect_timeout_ms": connect_timeout_ms,
            **config,
        }
        for entry in _entries(servers, options):
            replay.apply(entry.record, entry.timestamp_ms)
        found = replay.situation(self.where)
        topics, lags, notes = self._topics(found.members.values())
        return replace(found, topology=topics.topology, lags=lags, notes=notes)

    # ---- topics and lags

    def _topics(
        self, members: Collection[Member]
    ) -> tuple[LiveTopics, Mapping[TopicPartition, int] | None, tuple[str, ...]]:
        """Return the members' topics, the lags of their partitions, and notes."""
        names = {topic for member in members for topic in _names(member)}
        topics = live_topics(self.admin, names)
        lags, notes = self._lags(topics)
        missing = sorted(name for name in names if name not in topics.topology)
        if missing:
            left_out = "left out, as they do not exist, or this client is not allowed to describe them"
            notes = (*notes, f"topics {left_out}: {listed(missing)}")
        return topics, lags, notes

    def _lags(self, topics: LiveTopics) -> tuple[Mapping[TopicPartition, int] | None, tuple[str, ...]]:
        """Return the lags of partitions with committed offsets, and notes.

        Others start where the consumer's `auto.offset.reset` says, which the cluster does not know.
        """
        from kafka.errors import KafkaError

        try:
            committed = {
                TopicPartition(*at): found.offset
                for at, found in self.admin.list_group_offsets({self.group_id: None})[self.group_id].items()
                if found.offset >= 0
            }
            leaderless = topics.leaderless & committed.keys()
            ends = end_offsets(self.admin, topics.with_leader(committed))
        except KafkaError as error:
            return None, (f"lags could not be read: {explain_error(error)}",)
        notes = (without_leader(leaderless),) if leaderless else ()
        return {at: max(0, end - committed[at]) for at, end in ends.items()} or None, notes


def _names(member: Member) -> set[str]:
    return {*member.topics, *(topic for topic, _ in member.owned)}
