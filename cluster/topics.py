"""Topics and partitions: their ids, replicas, leaders and logs."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from quorate.cluster.log import PartitionLog
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode

__all__ = ["NO_LEADER", "PartitionState", "TopicState", "is_valid_name", "leader_error"]

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
        """Choose a leader among the replicas in sync that are alive: the present one if it can stay, else the first by preference. Returns whether it changed.

        The last replica in sync stays in sync without being alive: nobody else has everything (Kafka's rule; here it only decides who may lead).
        """
        up = set(alive)
        in_sync = tuple(one for one in self.replicas if one in up) or self.in_sync[:1] or self.replicas[:1]
        stays = self.leader in up and self.leader in self.replicas and not preferred
        leader = self.leader if stays else next((one for one in self.replicas if one in up), NO_LEADER)
        changed = leader != self.leader
        if changed:
            self.leader_epoch += 1
        self.leader, self.in_sync = leader, in_sync
        return changed


@dataclass(slots=True)
class TopicState:
    """A topic, with settings by Kafka's names."""

    name: str
    id: Uuid
    partitions: list[PartitionState]
    config: dict[str, str] = field(default_factory=dict)
    internal: bool = False

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
