"""Which client-side assignor a group uses (KIP-848, "Assignor Selection"): one that all members can run, with metadata that all understand."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from quorate.codecs.messages.consumer_group import ClientAssignor, ConsumerGroupMemberMetadataValue
from quorate.coordinator.state.consumer import ConsumerGroup, ConsumerMember

__all__ = ["Selected", "announcement", "selected", "with_member"]


class Selected(NamedTuple):
    """The assignor, and the versions of metadata that all members understand."""

    name: str
    minimum_version: int
    maximum_version: int


def selected(members: Iterable[ConsumerGroupMemberMetadataValue]) -> Selected | None:
    """The assignor of members that announced this; `None` where the server assigns: an assignor has to be common to all, and so have its versions.

    Of several, the one that most members prefer to the other common ones; then the one that stands further in front over all lists, then the first by name.
    The KIP says only that the members' precedence is respected. A member of the classic protocol announces nothing.
    """
    lists: list[tuple[ClientAssignor, ...]] = []
    common: dict[str, Selected] | None = None
    for member in members:
        found: dict[str, Selected] = {}
        for one in member.client_assignors:
            before = (
                Selected(one.name, one.minimum_version, one.maximum_version) if common is None else common.get(one.name)
            )
            if before is not None:
                low = max(before.minimum_version, one.minimum_version)
                high = min(before.maximum_version, one.maximum_version)
                if low <= high:
                    found[one.name] = Selected(one.name, low, high)
        if not found:
            return None
        common = found
        lists.append(member.client_assignors)
    if not common:
        return None
    votes: Counter[str] = Counter()
    ranks: Counter[str] = Counter()
    for announced in lists:
        preferred = [one.name for one in announced if one.name in common]
        votes[preferred[0]] += 1
        for rank, name in enumerate(preferred):
            ranks[name] += rank
    return common[min(common, key=lambda name: (-votes[name], ranks[name], name))]


def with_member(group: ConsumerGroup, member: ConsumerMember) -> Iterator[ConsumerGroupMemberMetadataValue]:
    """What the members of a group announce when this one is in it as it is now: in the place of the static member of its name, if there is one."""
    instance_id = member.metadata.instance_id
    holder = None if instance_id is None else group.static_members.get(instance_id)
    yield member.metadata
    for member_id, other in group.members.items():
        if member_id not in (member.member_id, holder):
            yield other.metadata


def announcement(member: ConsumerGroupMemberMetadataValue, name: str) -> ClientAssignor:
    """What a member announced of an assignor that it can run. Raises `KeyError` if it cannot."""
    for one in member.client_assignors:
        if one.name == name:
            return one
    raise KeyError(name)
