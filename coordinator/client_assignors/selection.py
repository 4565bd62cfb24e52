"""Which client-side assignor a group uses (KIP-848, "Assignor Selection"): one that all members can run, with metadata that all understand."""

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from quorate.codecs.client_assignors import AnnouncedAssignors, ClientAssignor
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.codecs.tags import read_tags
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["Offer", "Selected", "announced_by", "announcement", "selected", "used_by", "with_member"]

Offer = tuple[tuple[str, int, int], ...]
"""Client-side assignors that a member can run, the one that it prefers first: name, oldest and
newest version of the metadata that it understands.
"""


class Selected(NamedTuple):
    """The assignor, and the versions of metadata that all members understand."""

    name: str
    minimum_version: int
    maximum_version: int


def selected(offers: Mapping[Offer, int]) -> Selected | None:
    """The assignor of a group; `None` where the server assigns.

    `offers`: members per list of assignors.

    An assignor has to be common to all, and so have its versions. Of several, the one that most
    members prefer to the other common ones; then the one that stands further in front over all
    lists, then the first by name. The KIP says only that the members' precedence is respected. A
    member of the classic protocol announces nothing.
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
    """The client-side assignors that a member announced."""
    return read_tags(AnnouncedAssignors, member.unknown_tags, strict=False).client_assignors or ()


def _offers(group: ConsumerGroup) -> Counter[Offer]:
    return Counter(map(_offer, (member.metadata for member in group.members.values())))


def _offer(member: ConsumerGroupMemberMetadataValue) -> Offer:
    return tuple((one.name, one.minimum_version, one.maximum_version) for one in announced_by(member))


def used_by(group: ConsumerGroup) -> Selected | None:
    """The client-side assignor that the group uses as it is in the log; `None` where the server assigns."""
    return selected(_offers(group))


def with_member(group: ConsumerGroup, member: ConsumerMember) -> Mapping[Offer, int]:
    """Members per list of assignors when this member is in the group as it is now: in the place of the static member of its name, if there is one."""
    offers = _offers(group)
    instance_id = member.metadata.instance_id
    holder = None if instance_id is None else group.static_members.get(instance_id)
    for member_id in {member.member_id, holder}:
        before = None if member_id is None else group.members.get(member_id)
        if before is not None:
            offers[_offer(before.metadata)] -= 1
    offers[_offer(member.metadata)] += 1
    return +offers


def announcement(member: ConsumerGroupMemberMetadataValue, name: str) -> ClientAssignor:
    """What a member announced of an assignor that it can run. Raises `KeyError` if it cannot."""
    for one in announced_by(member):
        if one.name == name:
            return one
    raise KeyError(name)
