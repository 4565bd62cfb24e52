"""Replica placement: rack by rack, as in Kafka's controller (KIP-36, StripedReplicaPlacer).

Racks alternate, and within a rack its brokers. A partition's first replica is in the rack after
that of the previous partition. With fewer racks than replicas, a rack gets several. The first rack
is random, as in Kafka.
"""

from collections.abc import Mapping
from random import Random


class _Rack:
    """The brokers of one rack; each partition begins with the next one."""

    def __init__(self, brokers: list[int]) -> None:
        self.brokers = brokers
        self.first = -1
        self.partition = -1
        self.taken = 0

    def take(self, partition: int) -> int | None:
        """Return the next broker for a partition; `None` after all brokers."""
        if partition != self.partition:
            self.partition, self.taken = partition, 0
            self.first = (self.first + 1) % len(self.brokers)
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.first + self.taken - 1) % len(self.brokers)]


def place(brokers: Mapping[int, str | None], partitions: int, replicas: int, random: Random) -> list[tuple[int, ...]]:
    """Return the brokers of each partition, leader first.

    `brokers`: broker id → rack; at least `replicas` of them.
    """
    racks: dict[str, list[int]] = {}
    for broker, rack in sorted(brokers.items()):
        racks.setdefault(rack or "", []).append(broker)
    turns = []
    for name in sorted(racks):
        members = list(racks[name])
        random.shuffle(members)
        turns.append(_Rack(members))
    offset = random.randrange(len(turns))
    out = []
    for partition in range(partitions):
        chosen: list[int] = []
        place_at = offset
        while len(chosen) < replicas:
            one = turns[place_at % len(turns)].take(partition)
            if one is not None:
                chosen.append(one)
            place_at += 1
        offset = (offset + 1) % len(turns)
        out.append(tuple(chosen))
    return out
