"""Facts about an assignment: partitions and lag per member, locality, moves, and remote partitions.

Works for any assignment, also that of a running group or one in the middle of a rebalance.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, Member
from quorate.assignors.topology import Ints, Racks, TopicPartition, Topology
from quorate.assignors.why_remote import WHY, Bools, RemoteReason, is_local, why_remote

__all__ = ["WHY", "Explanation", "MemberFacts", "RackFacts", "RemotePartition", "RemoteReason", "Spread", "explain"]

_MOST = 2**63 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The smallest and the largest value of a member."""

    min: int
    max: int

    @property
    def difference(self) -> int:
        """The difference of the two.

        For partition counts, 0 and 1 are balanced if all members subscribe to the same topics.
        """
        return self.max - self.min


@dataclass(frozen=True, slots=True, kw_only=True)
class _Facts:
    """Facts about one or more members: partitions, local partitions, lag."""

    partitions: int
    local: int
    lag: int | None

    @property
    def local_share(self) -> float | None:
        """The share of local partitions, from 0 to 1; `None` without partitions."""
        return self.local / self.partitions if self.partitions else None


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFacts(_Facts):
    """Facts about one member.

    - `topics`: topic → number of partitions.
    - `local`: number of partitions with a replica in the member's rack.
    - `lag`: records, over partitions with a known lag; `None` if no lags were given.
    - `moved_in`, `moved_out`: partitions that another member owned before, or owns now; `None`
      without a previous assignment.
    """

    member_id: str
    instance_id: str | None
    rack: str | None
    topics: Mapping[str, int]
    moved_in: int | None
    moved_out: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RackFacts(_Facts):
    """Facts about all members of one rack; `rack` is `None` for members without a rack."""

    rack: str | None
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RemotePartition:
    """A partition without a replica in its member's rack, and the reason."""

    topic: str
    partition: int
    member_id: str
    rack: str | None
    replica_racks: Racks
    reason: RemoteReason


@dataclass(frozen=True, kw_only=True)
class Explanation(_Facts):
    """The result of `explain`.

    - `members`: in the order of the group.
    - `racks`: sorted by name, members without a rack last.
    - `partitions`: number of assigned partitions.
    - `unassigned`: number of partitions of subscribed topics without an owner.
    - `balance`, `lag_balance`: partitions and lag over members.
    - `moved`: partitions that another member owned before, including members that left;
      `first_assigned`: those without an owner before. `None` without a previous assignment.
    - `lag_unknown`: assigned partitions with unknown lag.
    - `reasons`: reason → number of remote partitions.
    """

    members: Mapping[str, MemberFacts]
    racks: tuple[RackFacts, ...]
    unassigned: int
    balance: Spread
    lag_balance: Spread | None
    lag_unknown: int
    moved: int | None
    first_assigned: int | None
    reasons: Mapping[RemoteReason, int]
    assignment: Assignment = field(repr=False, compare=False)
    _remote: tuple[Ints, Ints, list[RemoteReason]] = field(repr=False, compare=False)

    @cached_property
    def remote(self) -> tuple[RemotePartition, ...]:
        """Every remote partition, member by member."""
        owners, numbers, reasons = self._remote
        topology = self.assignment.topology
        members = list(self.members.values())
        return tuple(
            RemotePartition(
                topic=at.topic,
                partition=at.partition,
                member_id=members[owner].member_id,
                rack=members[owner].rack,
                replica_racks=topology.replica_racks[racks],
                reason=reason,
            )
            for at, owner, racks, reason in zip(
                topology.topic_partitions(numbers),
                owners.tolist(),
                topology.replica_racks_of[numbers].tolist(),
                reasons,
                strict=True,
            )
        )

    def to_json(self, *, remote: bool = True) -> dict[str, Any]:
        """Return the same as plain values.

        `remote=False` leaves out the list of remote partitions; their number per reason stays.
        """
        of_all = "partitions unassigned local local_share balance lag lag_balance lag_unknown moved first_assigned"
        of_rack = "rack members partitions local local_share lag"
        of_member = "instance_id rack partitions topics local local_share lag moved_in moved_out"
        found = _plain(self, of_all) | {
            "racks": [_plain(rack, of_rack) for rack in self.racks],
            "members": {member.member_id: _plain(member, of_member) for member in self.members.values()},
            "reasons": {str(reason): number for reason, number in self.reasons.items()},
        }
        if remote:
            found["remote"] = [
                _plain(one, "topic partition")
                | {"member": one.member_id}
                | _plain(one, "rack replica_racks")
                | {"reason": str(one.reason)}
                for one in self.remote
            ]
        return found


def explain(
    members: Mapping[str, Member] | GroupSpec,
    topology: Topology,
    assignment: Assignment,
    *,
    lags: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int] | None = None,
    previous: Assignment | None = None,
) -> Explanation:
    """Return facts about an assignment of these members.

    `lags`: records after the committed offset, where known. `previous`: the assignment to compare
    with, which may have other members; by default the owned partitions. Raises `ValueError` if the
    assignment has other members or another topology.
    """
    group = members if isinstance(members, GroupSpec) else GroupSpec(members, topology)
    if assignment.topology is not topology or group.topology is not topology:
        raise ValueError("the assignment has another topology; pass the one that it was computed with")
    if tuple(assignment.member_ids) != tuple(group.member_ids):
        raise ValueError("the assignment has other members; pass those that it was computed for, in the same order")
    counts = assignment.counts
    owners: Ints = np.repeat(np.arange(len(group)), counts)
    local = is_local(group, owners, assignment.partitions)
    remote = ~local
    reasons = why_remote(group, assignment, owners, remote)
    lag = _lags(topology, lags)
    lag_of = None if lag is None else _per_member(group, owners, np.maximum(lag, 0)[assignment.partitions])
    moves = _Moves(group, assignment, owners, previous)
    local_of = _per_member(group, owners, local)
    facts = _members(group, assignment, owners, local_of, lag_of, moves)
    total = len(assignment.partitions)
    return Explanation(
        members=facts,
        racks=_racks(group, counts, local_of, lag_of),
        partitions=total,
        unassigned=_unassigned(group, assignment),
        local=int(local.sum()),
        balance=_spread_of(counts),
        lag=None if lag_of is None else int(lag_of.sum()),
        lag_balance=None if lag_of is None else _spread_of(lag_of),
        lag_unknown=total if lag is None else int((lag[assignment.partitions] < 0).sum()),
        moved=moves.moved,
        first_assigned=moves.first_assigned,
        reasons=dict(Counter(reasons).most_common()),
        assignment=assignment,
        _remote=(owners[remote], assignment.partitions[remote], reasons),
    )


class _Moves:
    """Moves between two assignments.

    Compares pairs of member and partition, so a partition may have several owners, as in share
    groups.
    """

    def __init__(self, group: GroupSpec, assignment: Assignment, owners: Ints, previous: Assignment | None) -> None:
        self.moved_in: Ints | None = None
        self.moved_out: Ints | None = None
        self.moved: int | None = None
        self.first_assigned: int | None = None
        topology = group.topology
        number_of = {member: number for number, member in enumerate(group.member_ids)}
        if previous is None:
            if not len(group.owned):
                return
            before_owners, before = group.owning, group.owned
        else:
            if previous.topology is topology:
                before = previous.partitions
            else:
                before = np.fromiter(
                    (topology.number(*at) for member in previous for at in previous[member]),
                    np.int64,
                    len(previous.partitions),
                )
            # Members that left get the number after the last member.
            numbers = np.array([number_of.get(member, len(group)) for member in previous.member_ids], np.int64)
            before_owners = np.repeat(numbers, previous.counts)
        known = before >= 0
        before, before_owners = before[known], before_owners[known]
        had_owner = np.zeros(int(topology.first[-1]), np.bool_)
        had_owner[before] = True
        has_owner = np.zeros(len(had_owner), np.bool_)
        has_owner[assignment.partitions] = True
        size = max(1, len(had_owner))
        now_pairs, before_pairs = owners * size + assignment.partitions, before_owners * size + before
        new = ~np.isin(now_pairs, before_pairs)
        came = new & had_owner[assignment.partitions]
        went = ~np.isin(before_pairs, now_pairs) & has_owner[before] & (before_owners < len(group))
        self.moved_in = _per_member(group, owners, came)
        self.moved_out = np.bincount(before_owners[went], minlength=len(group))
        self.moved = int(came.sum())
        self.first_assigned = int((new & ~had_owner[assignment.partitions]).sum())


def _members(
    group: GroupSpec, assignment: Assignment, owners: Ints, local_of: Ints, lag_of: Ints | None, moves: _Moves
) -> dict[str, MemberFacts]:
    topics = _topics(group, assignment, owners)
    nothing = [None] * len(group)
    columns = (
        assignment.counts.tolist(),
        topics,
        local_of.tolist(),
        nothing if lag_of is None else lag_of.tolist(),
        nothing if moves.moved_in is None else moves.moved_in.tolist(),
        nothing if moves.moved_out is None else moves.moved_out.tolist(),
    )
    return {
        member_id: MemberFacts(
            member_id=member_id,
            instance_id=member.instance_id,
            rack=member.rack or None,
            partitions=partitions,
            topics=by_topic,
            local=local,
            lag=lag,
            moved_in=moved_in,
            moved_out=moved_out,
        )
        for (member_id, member), partitions, by_topic, local, lag, moved_in, moved_out in zip(
            group.members.items(), *columns, strict=True
        )
    }


def _topics(group: GroupSpec, assignment: Assignment, owners: Ints) -> list[dict[str, int]]:
    """Return for each member topic → number of partitions, in the order of the topology."""
    names = [topic.name for topic in group.topology.topics]
    pairs, numbers = np.unique(
        owners * max(1, len(names)) + group.topology.topic_of[assignment.partitions], return_counts=True
    )
    found: list[dict[str, int]] = [{} for _ in range(len(group))]
    for pair, number in zip(pairs.tolist(), numbers.tolist(), strict=True):
        owner, topic = divmod(pair, max(1, len(names)))
        found[owner][names[topic]] = number
    return found


def _racks(group: GroupSpec, counts: Ints, local_of: Ints, lag_of: Ints | None) -> tuple[RackFacts, ...]:
    order = sorted(range(len(group.racks)), key=group.racks.__getitem__)
    found = []
    for number in [*order, -1]:
        here = group.rack_of == number
        if here.any():
            found.append(
                RackFacts(
                    rack=None if number < 0 else group.racks[number],
                    members=int(here.sum()),
                    partitions=int(counts[here].sum()),
                    local=int(local_of[here].sum()),
                    lag=None if lag_of is None else int(lag_of[here].sum()),
                )
            )
    return tuple(found)


def _per_member(group: GroupSpec, owners: Ints, values: Ints | Bools) -> Ints:
    """Return the exact sum of `values` for each member; it may exceed 64 bits."""
    fits = not len(values) or int(values.max()) <= _MOST // len(values)
    sums = np.zeros(len(group), np.int64 if fits else object)
    np.add.at(sums, owners, values)
    return sums


def _lags(topology: Topology, lags: Mapping[TopicPartition, int] | Mapping[tuple[str, int], int] | None) -> Ints | None:
    """Return the lag of each partition number; -1 where unknown."""
    if lags is None:
        return None
    found = np.full(int(topology.first[-1]), -1, np.int64)
    for (topic, partition), lag in lags.items():
        number = topology.number(topic, partition)
        if number >= 0:
            found[number] = min(max(0, lag), _MOST)
    return found


def _unassigned(group: GroupSpec, assignment: Assignment) -> int:
    wanted = np.zeros(len(group.topology), np.bool_)
    wanted[group.subscribed_topics] = True
    missing = wanted[group.topology.topic_of]
    missing[assignment.partitions] = False
    return int(missing.sum())


def _spread_of(values: Ints) -> Spread:
    return Spread(min=int(values.min()), max=int(values.max())) if len(values) else Spread(min=0, max=0)


def _plain(one: Any, names: str) -> dict[str, Any]:
    """Return the named attributes as JSON values."""
    return {name: _plain_value(getattr(one, name)) for name in names.split()}


def _plain_value(value: Any) -> Any:
    match value:
        case float():  # local_share
            return round(value, 4)
        case Spread():
            return {"min": value.min, "max": value.max, "spread": value.difference}
        case tuple():
            return list(value)
        case Mapping():
            return dict(value)
    return value
