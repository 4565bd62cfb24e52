"""Where replicas go when nobody says so: rack by rack, as Kafka's controller does it (KIP-36, striped over racks).

Racks take turns, and within a rack its brokers; a partition's first replica is in the next rack after the one of the partition before it. With fewer racks than
replicas a rack gets several. Where it begins is random, in Kafka too.
"""

from collections.abc import Mapping, Sequence
from random import Random

__all__ = ["place"]


class _Rack:
    """Brokers of one rack, in turn."""

    def __init__(self, brokers: list[int]) -> None:
        self.brokers = brokers
        self.next = 0

    def take(self, taken: Sequence[int]) -> int | None:
        """The next broker that is not taken."""
        for step in range(len(self.brokers)):
            broker = self.brokers[(self.next + step) % len(self.brokers)]
            if broker not in taken:
                self.next = (self.next + step + 1) % len(self.brokers)
                return broker
        return None


def place(brokers: Mapping[int, str | None], partitions: int, replicas: int, random: Random) -> list[tuple[int, ...]]:
    """For each partition its brokers, the leader first. `brokers`: those that may be chosen, with their racks; as many as replicas, at least."""
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
    for _ in range(partitions):
        chosen: list[int] = []
        place_at = offset
        while len(chosen) < replicas:
            one = turns[place_at % len(turns)].take(chosen)
            if one is not None:
                chosen.append(one)
            place_at += 1
        offset = (offset + 1) % len(turns)
        out.append(tuple(chosen))
    return out
