"""Changes of a group before it is assigned: members leave, join or move, topics get partitions.

Each function takes a situation and returns another; `current` stays what it was, so that what moves
is counted against the group as it is.
"""

import difflib
import fnmatch
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from quorate.assignors.model import Member
from quorate.assignors.topology import Topic, TopicPartition, Topology
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs.errors import InputError
from quorate.codecs.printable import listed

__all__ = ["common_topics", "matching_members", "with_member", "with_partitions", "with_racks", "without_members"]


def matching_members(situation: GroupSituation, text: str) -> list[str]:
    """The members that a text means: an id, an instance id, a pattern, or the beginning of one id.

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
                f"{len(found):,} members begin so: {listed(found)}", "give more of the id, or a pattern with *"
            )
    known = [name for _, name in names.values()]
    close = difflib.get_close_matches(text, known, 3)
    raise InputError(
        "there is no such member", f"did you mean {' or '.join(close)}?" if close else f"there are {listed(known)}"
    )


def without_members(situation: GroupSituation, member_ids: Collection[str]) -> GroupSituation:
    """The members with these ids have left."""
    members = {one: member for one, member in situation.members.items() if one not in member_ids}
    return replace(situation, members=members)


def with_racks(situation: GroupSituation, member_ids: Collection[str], rack: str | None) -> GroupSituation:
    """The members with these ids are in that rack."""
    moved = {one: replace(situation.members[one], rack=rack) for one in member_ids}
    return replace(situation, members={**situation.members, **moved})


def common_topics(situation: GroupSituation) -> Sequence[str]:
    """What all members subscribe to, or every topic if there is no member.

    Raises `InputError` if members differ.
    """
    subscriptions = {tuple(sorted(set(member.topics))): member.topics for member in situation.members.values()}
    if len(subscriptions) > 1:
        raise InputError("members of this group subscribe to different topics")
    return next(iter(subscriptions.values()), [topic.name for topic in situation.topology.topics])


def with_member(situation: GroupSituation, member_id: str, rack: str | None, topics: Sequence[str]) -> GroupSituation:
    """A member has joined. Raises `InputError` if there is one with this id."""
    if member_id in situation.members:
        raise InputError(f"there is a member {member_id} already", "use another id")
    return replace(situation, members={**situation.members, member_id: Member(topics=list(topics), rack=rack)})


def with_partitions(situation: GroupSituation, name: str, more: int) -> GroupSituation:
    """A topic has more partitions, without lag. Raises `InputError`."""
    topology = situation.topology
    if name not in topology:
        raise InputError(f"there is no topic {name}", f"there are {listed([topic.name for topic in topology.topics])}")
    old = topology.topics[topology.index[name]]
    # A new partition is placed as those before it: racks go on in turns.
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
