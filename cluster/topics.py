"""Topics and partitions: their ids, replicas, leaders and logs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.cluster.log import PartitionLog
from quorate.codecs import CONSUMER_OFFSETS, Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import TRANSACTION_STATE

__all__ = [
    "INTERNAL",
    "NO_LEADER",
    "Election",
    "Elections",
    "PartitionState",
    "TopicState",
    "is_valid_name",
    "leader_error",
    "wake",
]

INTERNAL: Mapping[str, tuple[str, Mapping[str, str]]] = {
    CONSUMER_OFFSETS: ("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTION_STATE: ("transaction.state.log", {"cleanup.policy": "compact", "compression.type": "uncompressed"}),
}
"""Topics that brokers write: the beginning of their configs' names, and the topic's own configs, in
addition to `segment.bytes`.
"""
NO_LEADER = -1
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(slots=True)
class PartitionState:
    """A partition: its replicas, the preferred leader first; those in sync; who leads, in which epoch; and the one log that the replicas share."""

    topic: str
    index: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)
    adding: tuple[int, ...] = ()
    removing: tuple[int, ...] = ()

    def elect(self, alive: Iterable[int], *, preferred: bool = False) -> bool:
        """Choose a leader among the replicas in sync that are alive: the present one if it can stay, else the first by preference.

        Returns whether it changed.
        """
        leader = self.leader
        self.lead(*_elected(frozenset(alive), self.replicas, self.in_sync, NO_LEADER if preferred else leader))
        return self.leader != leader

    def lead(self, leader: int, in_sync: tuple[int, ...]) -> None:
        """Have another leader, in the next epoch, or the same; and other replicas in sync."""
        if leader != self.leader:
            self.leader_epoch += 1
        self.leader, self.in_sync = leader, in_sync


Election = tuple[int, tuple[int, ...]]
"""The leader, and the replicas in sync."""


class Elections(dict[tuple[tuple[int, ...], tuple[int, ...], int], Election]):
    """Replicas, those in sync, and the leader of partitions → their leader and those in sync, with these brokers alive.

    Each is found out once: partitions are many.
    """

    def __init__(self, alive: Iterable[int]) -> None:
        super().__init__()
        self._up = frozenset(alive)

    def __missing__(self, key: tuple[tuple[int, ...], tuple[int, ...], int]) -> Election:
        found = self[key] = _elected(self._up, *key)
        return found

    def moved(self, partitions: Iterable[PartitionState]) -> list[tuple[PartitionState, Election]]:
        """The partitions with another outcome than their present one."""
        return [
            (one, elected)
            for one in partitions
            if (elected := self[one.replicas, one.in_sync, one.leader]) != (one.leader, one.in_sync)
        ]


def _elected(
    up: frozenset[int], replicas: tuple[int, ...], in_sync: tuple[int, ...], leader: int
) -> tuple[int, tuple[int, ...]]:
    """The leader, and the replicas in sync.

    The last replica in sync stays in sync without being alive: no other replica has every record
    (Kafka's rule; here it only decides who may lead).
    """
    there = tuple(one for one in replicas if one in up)
    stays = leader in up and leader in replicas
    return leader if stays else next(iter(there), NO_LEADER), there or in_sync[:1] or replicas[:1]


def wake(partition: PartitionState) -> None:
    """Answer the fetches that wait for a partition: something about it has changed."""
    for listener in list(partition.log.waiting):
        listener()


@dataclass(slots=True)
class TopicState:
    """A topic, with configs by Kafka's names.

    `leadership`: goes up when leaders or replicas in sync change.
    """

    name: str
    id: Uuid
    partitions: list[PartitionState]
    config: dict[str, str] = field(default_factory=dict)
    internal: bool = False
    leadership: int = 0

    def add_partitions(self, replicas: Sequence[Sequence[int]], alive: Iterable[int]) -> None:
        """More partitions, by the brokers of each."""
        up = list(alive)
        for brokers in replicas:
            made = PartitionState(self.name, len(self.partitions), tuple(brokers), tuple(brokers))
            made.elect(up)
            made.leader_epoch = 0
            self.partitions.append(made)


def is_valid_name(name: str) -> bool:
    """Whether a topic may have this name: up to 249 letters, digits, dots, underscores and hyphens."""
    return 0 < len(name) <= 249 and name not in (".", "..") and _ALLOWED.issuperset(name)


def leader_error(partition: PartitionState | None, broker: int, leader_epoch: int) -> ErrorCode:
    """Why a broker may not answer for a partition: it does not lead it, or the client knows another leader epoch (KIP-320; -1: it knows none)."""
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker in partition.replicas and leader_epoch != -1:  # replicas look at the epoch first
        if leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > partition.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if partition.leader == broker else ErrorCode.NOT_LEADER_OR_FOLLOWER
