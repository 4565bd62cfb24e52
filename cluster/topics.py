"""State of topics and partitions: ids, replicas, leaders and logs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field

from quorate.cluster.log import PartitionLog
from quorate.codecs import CONSUMER_OFFSETS, Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import SHARE_GROUP_STATE, TRANSACTION_STATE

INTERNAL: Mapping[str, tuple[str, Mapping[str, str]]] = {
    CONSUMER_OFFSETS: ("offsets.topic", {"cleanup.policy": "compact", "compression.type": "producer"}),
    TRANSACTION_STATE: ("transaction.state.log", {"cleanup.policy": "compact", "compression.type": "uncompressed"}),
    SHARE_GROUP_STATE: (
        "share.coordinator.state.topic",
        {"cleanup.policy": "delete", "compression.type": "producer", "retention.ms": "-1"},
    ),
}
"""Internal topics: the prefix of their configs, and the topic's own configs in addition to
`segment.bytes`.
"""
NO_LEADER = -1
_LONGEST_NAME = 249
_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


@dataclass(slots=True)
class PartitionState:
    """A partition and the log that its replicas share.

    `replicas`: preferred leader first. `in_sync`: the ISR.
    """

    topic: str
    index: int
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] = ()
    leader: int = NO_LEADER
    leader_epoch: int = 0
    log: PartitionLog = field(default_factory=PartitionLog)

    def elect(self, alive: Iterable[int]) -> bool:
        """Elect a live in-sync replica as leader: the current one, else the first by preference.

        Returns whether the leader changed.
        """
        leader = self.leader
        self.lead(*_elected(frozenset(alive), self.replicas, self.in_sync, leader))
        return self.leader != leader

    def lead(self, leader: int, in_sync: tuple[int, ...]) -> None:
        """Set leader and ISR; a new leader begins the next epoch."""
        if leader != self.leader:
            self.leader_epoch += 1
        self.leader, self.in_sync = leader, in_sync


Election = tuple[int, tuple[int, ...]]
"""The leader, and the replicas in sync."""


class Elections(dict[tuple[tuple[int, ...], tuple[int, ...], int], Election]):
    """Replicas, ISR and leader of partitions → new leader and ISR, for a set of live brokers.

    Results are cached, because many partitions have the same replicas.
    """

    def __init__(self, alive: Iterable[int]) -> None:
        super().__init__()
        self._up = frozenset(alive)

    def __missing__(self, key: tuple[tuple[int, ...], tuple[int, ...], int]) -> Election:
        found = self[key] = _elected(self._up, *key)
        return found

    def moved(self, partitions: Iterable[PartitionState]) -> list[tuple[PartitionState, Election]]:
        """Return the partitions whose leader or ISR changes."""
        return [
            (partition, elected)
            for partition in partitions
            if (elected := self[partition.replicas, partition.in_sync, partition.leader])
            != (partition.leader, partition.in_sync)
        ]


def _elected(
    up: frozenset[int], replicas: tuple[int, ...], in_sync: tuple[int, ...], leader: int
) -> tuple[int, tuple[int, ...]]:
    """Return leader and ISR.

    The last in-sync replica stays in the ISR when it fails, because other replicas may lack records
    (Kafka's rule; here it only decides who may lead).
    """
    live = tuple(replica for replica in replicas if replica in up)
    stays = leader in up and leader in replicas
    return leader if stays else next(iter(live), NO_LEADER), live or in_sync[:1] or replicas[:1]


def wake(partition: PartitionState) -> None:
    """Complete waiting fetches of a partition after a change."""
    for listener in list(partition.log.waiting):
        listener()


@dataclass(slots=True)
class TopicState:
    """A topic.

    `config`: its configs, by Kafka's names. `leadership`: grows with each change of leaders or
    ISRs.
    """

    name: str
    id: Uuid
    partitions: list[PartitionState]
    config: dict[str, str] = field(default_factory=dict)
    internal: bool = False
    leadership: int = 0

    def add_partitions(self, replicas: Sequence[Sequence[int]], alive: Iterable[int]) -> None:
        """Add partitions with the given replicas."""
        up = list(alive)
        for brokers in replicas:
            made = PartitionState(self.name, len(self.partitions), tuple(brokers), tuple(brokers))
            made.elect(up)
            made.leader_epoch = 0
            self.partitions.append(made)


def is_valid_name(name: str) -> bool:
    """Return whether a topic name is valid: up to 249 letters, digits and "._-"."""
    return 0 < len(name) <= _LONGEST_NAME and name not in (".", "..") and _ALLOWED.issuperset(name)


def name_problem(name: str) -> str:
    """Return Kafka's message about an invalid topic name."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > _LONGEST_NAME:
        problem = f"the length of '{name}' is longer than the max allowed length {_LONGEST_NAME}"
    else:
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    return f"Topic name is invalid: {problem}"


def leader_error(partition: PartitionState | None, broker: int, leader_epoch: int) -> ErrorCode:
    """Return why a broker may not serve a partition, or NONE.

    `leader_epoch`: that of the client (KIP-320), -1 if it sent none.
    """
    if partition is None:
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    if broker in partition.replicas and leader_epoch != -1:  # replicas check the epoch first
        if leader_epoch < partition.leader_epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if leader_epoch > partition.leader_epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
    return ErrorCode.NONE if partition.leader == broker else ErrorCode.NOT_LEADER_OR_FOLLOWER
