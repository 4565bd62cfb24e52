"""What happened to a group between two moments, from its kept states."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace

from quorate.codecs import Uuid
from quorate.codecs.printable import counted
from quorate.coordinator.history import GroupView, MemberView, diff_views
from quorate.coordinator.state import GroupKind
from quorate.watch.model import OwnershipSpan, Place
from quorate.watch.states import STORED, Header, Members, member_rows
from quorate.watch.topics import KnownTopics


def ownership(
    states: Iterable[tuple[int, Header | None, Members]], name: Callable[[str], str], from_ms: int, to_ms: int
) -> list[OwnershipSpan]:
    """Return who owned which partition when, sorted by partition and time.

    A span that began before `from_ms` begins there; `to_ms` is `None` if it did not end.
    """
    found: list[OwnershipSpan] = []
    held: dict[Place, OwnershipSpan] = {}
    for at_ms, _, members in states:
        begin = max(at_ms, from_ms)
        owners = {place: row for row in member_rows(members, name) for place in row.assigned}
        for place in [
            place for place, span in held.items() if place not in owners or owners[place].member_id != span.member_id
        ]:
            span = held.pop(place)
            if begin > span.from_ms:
                found.append(replace(span, to_ms=begin))
        for place, row in owners.items():
            if place not in held:
                held[place] = OwnershipSpan(
                    topic=place[0],
                    partition=place[1],
                    member_id=row.member_id,
                    client_id=row.client_id,
                    host=row.host,
                    rack=row.rack,
                    from_ms=begin,
                    to_ms=None,
                )
    found += held.values()
    return sorted(found, key=lambda span: (span.topic, span.partition, span.from_ms))


def difference(
    group_id: str,
    before: tuple[Header, Members] | None,
    after: tuple[Header, Members] | None,
    offsets_before: Mapping[Place, int],
    offsets_after: Mapping[Place, int],
    topics: KnownTopics,
) -> list[str]:
    """Return the changes of a group as sentences."""
    labels = topics.labels()
    facts = diff_views(_view(group_id, before), _view(group_id, after))
    return [fact.sentence(labels) for fact in facts] + list(_offsets(offsets_before, offsets_after))


def _offsets(old: Mapping[Place, int], new: Mapping[Place, int]) -> Iterable[str]:
    ahead = {place: offset - old[place] for place, offset in new.items() if place in old and offset > old[place]}
    back = sorted(place for place, offset in new.items() if place in old and offset < old[place])
    if ahead:
        yield f"{sum(ahead.values()):,} records of {counted(len(ahead), 'partition')} committed"
    for topic, number in back:
        yield f"offset of {topic} {number} went back from {old[topic, number]:,} to {new[topic, number]:,}"
    if fresh := new.keys() - old.keys():
        yield f"offsets of {counted(len(fresh), 'partition')} committed for the first time"
    if gone := old.keys() - new.keys():
        yield f"offsets of {counted(len(gone), 'partition')} deleted or expired"


def _view(group_id: str, state: tuple[Header, Members] | None) -> GroupView | None:
    if state is None:
        return None
    header, members = state
    return GroupView(
        group_id=group_id,
        kind=GroupKind(header["kind"].capitalize()),
        state=header["state"],
        protocol_type=header["type"],
        epoch=header["epoch"],
        assignment_epoch=header["epoch"],
        assignor=header["assignor"],
        members={
            member_id: MemberView(
                member_id=member_id,
                **dict(zip(STORED, stored, strict=True)),
                assigned=_places(assigned),
                target=_places(target),
            )
            for member_id, (*stored, assigned, target) in members.items()
        },
    )


def _places(topics: Mapping[str, list[int]]) -> frozenset[tuple[Uuid | str, int]]:
    return frozenset((_topic(topic), number) for topic, numbers in topics.items() for number in numbers)


def _topic(text: str) -> Uuid | str:
    if len(text) == _ID_LENGTH:
        try:
            return Uuid.parse(text)
        except ValueError:
            return text
    return text


_ID_LENGTH = 22
