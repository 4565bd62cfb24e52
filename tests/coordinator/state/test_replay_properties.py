"""Invariants after each step of recorded histories with groups of all kinds.

- Replaying the log gives the state of the shard.
- Partitions of consumer groups have one owner, also during an online migration.
- Epochs never decrease.

The histories (tests/data) have reloads, transactions and failing writes, and run on our side only.
No record has the state of a rebalancing classic group, so these are compared when stable or empty.
"""

from collections.abc import Iterator, Mapping
from itertools import groupby
from types import MappingProxyType
from typing import Any

from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.log import StoredMarker
from quorate.coordinator.state import (
    ClassicGroup,
    ClassicState,
    ConsumerGroup,
    ConsumerMember,
    CoordinatorState,
    GroupKind,
)
from quorate.coordinator.state.modern import ModernGroup
from tests.coordinator.recordings import read_recordings
from tests.coordinator.scripts import Duel
from tests.coordinator.snapshots import snapshot
from tests.extent import sampled

IN_NO_RECORD = {"_homogeneous", "_recounted", "attached", "initializing_since_ms", "refresh_at_ms", "refresh_epoch"}
HISTORIES = [recording for recording in read_recordings() if not recording.name.startswith(("static", "regex"))]
COMPARED = dict.fromkeys(GroupKind, 0)
"""Number of compared groups by kind."""


class Watched(Duel):
    """Checks the invariants after each step."""

    replayed = CoordinatorState()
    _read = 0
    _epochs: Mapping[str, tuple[int, int]] = MappingProxyType({})

    def op(self, op: str, **fields: Any) -> dict[str, Any]:
        response = super().op(op, **fields)
        if op in ("config", "new", "load", "reload"):
            self.replayed, self._read = CoordinatorState(), 0
            if op != "reload":
                self._epochs = {}
        stored = self.ours.log.stored
        for one in stored[self._read :]:
            if isinstance(one, StoredMarker):
                self.replayed.offsets.end_transaction(one.producer_id, commit=one.commit)
            else:
                self.replayed.replay(one.record, offset=one.offset, producer_id=one.producer_id, strict=True)
        self._read = len(stored)
        self.check_invariants()
        return response

    def check_invariants(self) -> None:
        live, reported = self.ours.shard.state, self.replayed
        for name in ("offsets", "share_states", "share_group_ids"):
            assert snapshot(live)[name] == snapshot(reported)[name], name
        for group_id in live.groups.keys() | reported.groups.keys():
            here, there = live.groups.get(group_id), reported.groups.get(group_id)
            if isinstance(here, ClassicGroup):
                assert there is None or isinstance(there, ClassicGroup)
                if isinstance(here, LiveGroup) and there is not None and here.phase is ClassicState.STABLE:
                    assert classic(here) == classic(there)
                    COMPARED[GroupKind.CLASSIC] += 1
            elif here is None:
                # As in Kafka, a rejected JoinGroup removes an empty consumer group, with no record.
                assert isinstance(there, ConsumerGroup)
                assert not there.members
            else:
                assert there is not None
                assert _logged(live, group_id) == _logged(reported, group_id)
                COMPARED[here.kind] += 1
            if isinstance(here, ConsumerGroup):
                owned = [(topic, one) for member in here.members.values() for topic, one in owned_partitions(member)]
                assert len(owned) == len(set(owned)), "one owner"
        epochs = {
            name: (group.epoch, group.assignment_epoch)
            for name, group in live.groups.items()
            if isinstance(group, ModernGroup)
        }
        for group_id, now in epochs.items():
            assert now >= self._epochs.get(group_id, now), "epochs never decrease"
        self._epochs = epochs


def owned_partitions(member: ConsumerMember) -> Iterator[tuple[Any, int]]:
    """Yield assigned partitions and those pending revocation."""
    for owned in (member.assigned, member.pending_revocation):
        yield from ((topic, partition) for topic, partitions in owned.items() for partition in partitions)


def classic(group: ClassicGroup) -> dict[str, Any]:
    return {
        "generation": group.generation,
        "protocol": (group.protocol_type, group.protocol),
        "members": {
            member.member_id: (member.group_instance_id, bytes(member.assignment)) for member in group.ordered_members()
        },
    }


def _logged(state: CoordinatorState, group_id: str) -> Any:
    _, groups = snapshot(state)["groups"]
    kind, fields = dict(groups)[group_id]
    return kind, {name: value for name, value in fields.items() if name not in IN_NO_RECORD}


def test_replaying_the_log_gives_the_state_of_the_shard() -> None:
    for _, same_kind in groupby(HISTORIES, lambda history: history.name.partition(",")[0]):
        for history in sampled(list(same_kind)):  # test_recordings.py plays all
            history.play(Watched)
    assert all(COMPARED[kind] > 100 for kind in (GroupKind.CLASSIC, GroupKind.CONSUMER, GroupKind.SHARE)), COMPARED
