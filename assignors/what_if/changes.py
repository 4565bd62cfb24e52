"""Changes of a group before an assignment: members leave, join or change racks, topics grow.

Each function returns a changed copy. `current` stays the same, so that moves are counted against
the group as it is.
"""

import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from quorate.assignors.model import Member
from quorate.assignors.topology import Topic, TopicPartition, Topology
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs.errors import InputError
from quorate.codecs.printable import listed, suggestion


def matching_members(situation: GroupSituation, text: str) -> list[str]:
    """Return the members that match an id, an instance id, a pattern, or a unique id prefix.

    Raises `InputError`.
    """
    members: Mapping[str, Member] = situation.members
    if text in members:
        return [text]
    by_instance = [member_id for member_id, member in members.items() if text and member.instance_id == text]
    if by_instance:
        return by_instance
    names = {member_id: (member_id, situation.name_of(member_id)) for member_id in members}
    if any(character in text for character in "*?["):
        found = [one for one, both in names.items() if any(fnmatch.fnmatchcase(name, text) for name in both)]
        if found:
            return found
    elif text:
        found = [member_id for member_id in members if member_id.startswith(text)]
        if len(found) == 1:
            return found
        if found:
            raise InputError(
                f"{len(found):,} member ids start with this: {listed(found)}",
                "give a longer prefix, or a pattern with *",
            )
    known = [name for _, name in names.values()]
    raise InputError("no such member", suggestion(text, known, f"members are {listed(known)}"))


def without_members(situation: GroupSituation, member_ids: Collection[str]) -> GroupSituation:
    """Remove the members with these ids."""
    members = {one: member for one, member in situation.members.items() if one not in member_ids}
    return replace(situation, members=members)


def with_racks(situation: GroupSituation, member_ids: Collection[str], rack: str | None) -> GroupSituation:
    """Move the members with these ids to a rack; `None` for no rack."""
    moved = {member_id: replace(situation.members[member_id], rack=rack) for member_id in member_ids}
    return replace(situation, members={**situation.members, **moved})


def common_topics(situation: GroupSituation) -> Sequence[str]:
    """Return the topics that all members subscribe to; every topic if there are no members.

    Raises `InputError` if subscriptions differ.
    """
    subscriptions = {tuple(sorted(set(member.topics))): member.topics for member in situation.members.values()}
    if len(subscriptions) > 1:
        raise InputError("the members of this group have different subscriptions")
    return next(iter(subscriptions.values()), [topic.name for topic in situation.topology.topics])


def with_member(situation: GroupSituation, member_id: str, rack: str | None, topics: Sequence[str]) -> GroupSituation:
    """Add a member. Raises `InputError` if the member id is in use."""
    if member_id in situation.members:
        raise InputError(f"member {member_id} exists already", "use another id")
    return replace(situation, members={**situation.members, member_id: Member(topics=list(topics), rack=rack)})


def with_partitions(situation: GroupSituation, name: str, more: int) -> GroupSituation:
    """Add partitions without lag to a topic. Raises `InputError` if the topic does not exist."""
    topology = situation.topology
    if name not in topology:
        raise InputError(f"unknown topic {name}", f"topics are {listed([topic.name for topic in topology.topics])}")
    old = topology.topics[topology.index[name]]
    # New partitions continue the sequence of racks from the start.
    racks = tuple(old.racks[place % old.partitions] for place in range(old.partitions + more)) if old.racks else ()
    first = old.partitions if old.numbers is None else max(old.numbers, default=-1) + 1
    new = range(first, first + more)
    topic = Topic(
        name=name,
        partitions=old.partitions + more,
        racks=racks,
        id=old.id,
        numbers=None if old.numbers is None else (*old.numbers, *new),
    )
    lags = situation.lags
    return replace(
        situation,
        topology=Topology(topic if one.name == name else one for one in topology.topics),
        lags=None if lags is None else {**lags, **{TopicPartition(name, partition): 0 for partition in new}},
    )
