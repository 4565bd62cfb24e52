"""The options of `quorate assign` that change a group before it is assigned: `--without`, `--add`, `--rack`, `--add-partitions`.

Each takes a situation and gives another; `current` stays what it was, so that what moves is counted against the group as it is.
"""

import difflib
import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from quorate.assignors import Member, Topic, TopicPartition, Topology
from quorate.cli.assign.situation import Situation, listed
from quorate.cli.errors import UserError

__all__ = ["Changes", "changed"]

MOST_PARTITIONS = 1_000_000
"""Added at a time."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The options, as given."""

    without: Sequence[str] = ()
    add: Sequence[str] = ()
    racks: Sequence[str] = ()
    partitions: Sequence[str] = ()

    @property
    def told(self) -> list[str]:
        """In words, for headings."""
        return [
            *(f"without {one}" for one in self.without),
            *(f"with {one}" for one in self.add),
            *(f"{one.rpartition('=')[0]} in {one.rpartition('=')[2] or 'no rack'}" for one in self.racks),
            *(f"{one.rpartition('=')[2]} more partitions of {one.rpartition('=')[0]}" for one in self.partitions),
        ]


def changed(situation: Situation, changes: Changes) -> Situation:
    """The situation after the changes: partitions first, then members leave, join and move. Raises `UserError`."""
    for text in changes.partitions:
        situation = _with_partitions(situation, text)
    members = dict(situation.members)
    for text in changes.without:
        for member_id in _meant("--without", text, members):
            del members[member_id]
    for text in changes.add:
        member_id, member = _added(text, situation, members)
        members[member_id] = member
    for text in changes.racks:
        name, equals, rack = text.rpartition("=")
        if not equals or not name:
            raise UserError(f"--rack {text}: is not MEMBER=RACK", "for no rack: MEMBER=")
        for member_id in _meant("--rack", name, members):
            members[member_id] = replace(members[member_id], rack=rack or None)
    if not members:
        raise UserError("no member is left, so there is nothing to assign", "leave one out of --without, or --add one")
    return replace(situation, members=members)


def _meant(option: str, text: str, members: Mapping[str, Member]) -> list[str]:
    """The members that a text means: an id, an instance id, a pattern, or the beginning of one id. Raises `UserError`."""
    if text in members:
        return [text]
    by_instance = [member_id for member_id, member in members.items() if text and member.instance_id == text]
    if by_instance:
        return by_instance
    names = {member_id: (member_id, member.instance_id or member_id) for member_id, member in members.items()}
    if any(character in text for character in "*?["):
        found = [one for one, both in names.items() if any(fnmatch.fnmatchcase(name, text) for name in both)]
        if found:
            return found
    elif text:
        found = [member_id for member_id in members if member_id.startswith(text)]
        if len(found) == 1:
            return found
        if found:
            raise UserError(
                f"{option} {text}: {len(found):,} members begin so: {listed(found)}",
                "give more of the id, or a pattern with *",
            )
    known = [member.instance_id or member_id for member_id, member in members.items()]
    close = difflib.get_close_matches(text, known, 3)
    raise UserError(
        f"{option} {text}: there is no such member",
        f"did you mean {' or '.join(close)}?" if close else f"there are {listed(known)}",
    )


def _added(text: str, situation: Situation, members: Mapping[str, Member]) -> tuple[str, Member]:
    member_id, _, rest = text.partition(":")
    rack, _, names = rest.partition(":")
    if not member_id:
        raise UserError(f"--add {text}: has no member id", "MEMBER, MEMBER:RACK or MEMBER:RACK:TOPIC,TOPIC")
    if member_id in members:
        raise UserError(f"--add {text}: there is a member {member_id} already", "use another id")
    if names:
        topics = [name for name in names.split(",") if name]
        unknown = [name for name in topics if name not in situation.topology]
        if unknown:
            raise UserError(f"--add {text}: there is no topic {unknown[0]}", f"there are {listed(_names(situation))}")
    else:
        subscriptions = {tuple(sorted(set(member.topics))) for member in situation.members.values()}
        if len(subscriptions) > 1:
            raise UserError(
                f"--add {text}: members of this group subscribe to different topics",
                f"say to which: --add {member_id}:{rack}:TOPIC,TOPIC",
            )
        topics = list(next(iter(situation.members.values())).topics) if situation.members else _names(situation)
    return member_id, Member(topics=topics, rack=rack or None)


def _with_partitions(situation: Situation, text: str) -> Situation:
    name, equals, number = text.rpartition("=")
    if not equals or not number.isascii() or not number.isdigit() or not 1 <= int(number[:9]) <= MOST_PARTITIONS:
        raise UserError(
            f"--add-partitions {text}: is not TOPIC=N, with N from 1 to {MOST_PARTITIONS:,}",
            "N is how many more: orders=4",
        )
    topology = situation.topology
    if name not in topology:
        raise UserError(f"--add-partitions {text}: there is no topic {name}", f"there are {listed(_names(situation))}")
    old, more = topology.topics[topology.index[name]], int(number)
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


def _names(situation: Situation) -> list[str]:
    return [topic.name for topic in situation.topology.topics]
