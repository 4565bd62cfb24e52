"""Where replicas go when nobody says so: rack by rack, as Kafka's controller does it (KIP-36, striped over racks).

Racks take turns, and within a rack its brokers; a partition's first replica is in the next rack
after the one of the partition before it. With fewer racks than replicas a rack gets several. Where
it begins is random, in Kafka too.
"""

from collections.abc import Mapping
from random import Random

__all__ = ["place"]


class _Rack:
    """Brokers of one rack. With each partition another one is the first."""

    def __init__(self, brokers: list[int]) -> None:
        self.brokers = brokers
        self.first = -1
        self.partition = -1
        self.taken = 0

    def take(self, partition: int) -> int | None:
        """The next broker for a partition; `None` when it has them all."""
        if partition != self.partition:
            self.partition, self.taken = partition, 0
            self.first = (self.first + 1) % len(self.brokers)
        if self.taken == len(self.brokers):
            return None
        self.taken += 1
        return self.brokers[(self.first + self.taken - 1) % len(self.brokers)]


def place(brokers: Mapping[int, str | None], partitions: int, replicas: int, random: Random) -> list[tuple[int, ...]]:
    """For each partition its brokers, the leader first.

    `brokers`: those that may be chosen, with their racks; as many as replicas, at least.
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
