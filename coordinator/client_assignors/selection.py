"""Selection of a group's client-side assignor (KIP-848, "Assignor Selection").

All members must support it, with common metadata versions.
"""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from quorate.codecs.client_assignors import AnnouncedAssignors, ClientAssignor
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.codecs.tags import read_tags
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember

Offer = tuple[tuple[str, int, int], ...]
"""Client-side assignors of a member, in order of preference.

Each has a name, and its minimum and maximum metadata version.
"""


class Selected(NamedTuple):
    """The selected assignor, and the metadata versions that all members support."""

    name: str
    minimum_version: int
    maximum_version: int


def selected(offers: Mapping[Offer, int]) -> Selected | None:
    """Return the assignor of a group; `None` for a server-side assignor.

    `offers`: number of members by list of assignors.

    All members must support the assignor and a common version. Of several, the first preference of
    most members is selected; then the one with the lowest sum of ranks in all lists; then the first
    by name. The KIP only requires that the members' precedence is respected. Members of the classic
    protocol have no client-side assignors.
    """
    common: dict[str, Selected] | None = None
    for offer in offers:
        found: dict[str, Selected] = {}
        for name, low, high in offer:
            if common is not None:
                if name not in common:
                    continue
                low, high = max(low, common[name].minimum_version), min(high, common[name].maximum_version)
            if low <= high:
                found[name] = Selected(name, low, high)
        if not found:
            return None
        common = found
    if common is None:
        return None
    votes: Counter[str] = Counter()
    ranks: Counter[str] = Counter()
    for offer, members in offers.items():
        preferred = [name for name, _, _ in offer if name in common]
        votes[preferred[0]] += members
        for rank, name in enumerate(preferred):
            ranks[name] += rank * members
    return common[min(common, key=lambda name: (-votes[name], ranks[name], name))]


def announced_by(member: ConsumerGroupMemberMetadataValue) -> tuple[ClientAssignor, ...]:
    """Return the client-side assignors of a member."""
    return read_tags(AnnouncedAssignors, member.unknown_tags, strict=False).client_assignors or ()


def _offers(group: ConsumerGroup) -> Counter[Offer]:
    return Counter(map(_offer, (member.metadata for member in group.members.values())))


def _offer(member: ConsumerGroupMemberMetadataValue) -> Offer:
    return tuple((one.name, one.minimum_version, one.maximum_version) for one in announced_by(member))


def used_by(group: ConsumerGroup) -> Selected | None:
    """Return the group's client-side assignor as of the log; `None` for a server-side assignor."""
    return selected(_offers(group))


def with_member(group: ConsumerGroup, member: ConsumerMember) -> Mapping[Offer, int]:
    """Return the number of members by list of assignors, with this member's new metadata.

    The member may be new, or replace a static member.
    """
    offers = _offers(group)
    instance_id = member.metadata.instance_id
    static = None if instance_id is None else group.static_members.get(instance_id)
    for member_id in {member.member_id, static}:
        before = None if member_id is None else group.members.get(member_id)
        if before is not None:
            offers[_offer(before.metadata)] -= 1
    offers[_offer(member.metadata)] += 1
    return +offers


def announcement(member: ConsumerGroupMemberMetadataValue, name: str) -> ClientAssignor:
    """Return the member's assignor of this name. Raises `KeyError` if it does not support it."""
    for one in announced_by(member):
        if one.name == name:
            return one
    raise KeyError(name)
