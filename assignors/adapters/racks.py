"""The cluster as an assignor sees it, and the watch that a leader keeps on the racks of its group's partitions (KIP-881).

Knows no client.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.assignors.topology import Topic, Topology

__all__ = ["ClusterView", "RackWatch"]

Replicas = dict[int, str | None]
"""Replica → rack, of brokers that the metadata has. A broker that is away, and so a rack that
nobody knows, is not in it.
"""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """What a client's metadata says: `brokers` that are there with their racks, and topic → partition → ids of all its replicas, the leader's first.

    A topic that the metadata lacks is not in `topics`; a topic of which it has nothing but an error
    is neither.
    """

    brokers: Mapping[int, str | None]
    topics: Mapping[str, Mapping[int, Sequence[int]]]


@dataclass(slots=True)
class RackWatch:
    """What one consumer knows about racks: those of brokers, also of brokers that have gone, and those that its last assignment as leader was made for."""

    _last_known: dict[int, str | None] = field(default_factory=dict)
    _assigned: dict[str, dict[int, tuple[tuple[int, ...], Replicas]]] | None = None

    def learn(self, view: ClusterView) -> None:
        """Remember the racks of brokers: replicas that are offline count (KIP-881), but metadata has no rack of a broker that is away."""
        self._last_known.update({broker: rack or None for broker, rack in view.brokers.items()})

    def topology(self, view: ClusterView, topics: Iterable[str]) -> Topology:
        """Those of `topics` that the metadata has, with the racks of all replicas."""
        self.learn(view)
        racks_of: dict[tuple[int, ...], tuple[str | None, ...]] = {}
        found = []
        for name in sorted(set(topics)):
            partitions = view.topics.get(name)
            if not partitions:
                continue
            numbers = sorted(partitions)
            racks = []
            for number in numbers:
                replicas = tuple(partitions[number])
                if replicas not in racks_of:
                    racks_of[replicas] = tuple(self._last_known.get(broker) for broker in replicas)
                racks.append(racks_of[replicas])
            contiguous = numbers[-1] == len(numbers) - 1
            found.append(
                Topic(name=name, partitions=len(numbers), racks=racks, numbers=None if contiguous else numbers)
            )
        return Topology(found)

    def start(self, view: ClusterView, topics: Iterable[str]) -> None:
        """Keep what the assignment is made for, so that `change` can tell when it no longer holds."""
        # Few different lists of replicas occur, whatever the number of partitions.
        seen: dict[tuple[int, ...], Replicas] = {}
        self._assigned = {}
        for name in sorted(set(topics) & set(view.topics)):
            self._assigned[name] = {}
            for number, listed in view.topics[name].items():
                replicas = tuple(listed)
                if replicas not in seen:
                    seen[replicas] = _racks(view, replicas)
                self._assigned[name][number] = (replicas, seen[replicas])

    def stop(self) -> None:
        """Forget it: the member is not the leader any more, or about to join anew."""
        self._assigned = None

    def change(self, view: ClusterView) -> str | None:
        """What changed in the racks of the partitions since `start`, in words; `None` if nothing did.

        The rule is Kafka's (KIP-881, as KAFKA-20778 corrected it): a rack that came or went is a
        change unless it belongs to a replica whose broker is away, then or now. Numbers of
        partitions are the client's own business.
        """
        self.learn(view)
        if self._assigned is None:
            return None
        seen: dict[tuple[int, ...], Replicas] = {}
        for name, partitions in self._assigned.items():
            now_partitions = view.topics.get(name, {})
            for number, (replicas, before) in partitions.items():
                if number not in now_partitions:
                    continue
                now_replicas = tuple(now_partitions[number])
                if now_replicas not in seen:
                    seen[now_replicas] = _racks(view, now_replicas)
                now = seen[now_replicas]
                if now == before:
                    continue
                if _gone(before, now, now_replicas) or _gone(now, before, replicas):
                    return f"{name}-{number} was in the racks {_words(before)} and is now in {_words(now)}"
                # A broker that has come back is known from here on: should it move to another rack
                # later, that is a change.
                for broker in replicas:
                    if broker not in before and broker in now:
                        before[broker] = now[broker]
        return None


def _racks(view: ClusterView, replicas: Iterable[int]) -> Replicas:
    return {broker: view.brokers[broker] or None for broker in replicas if broker in view.brokers}


def _gone(before: Replicas, now: Replicas, now_replicas: Sequence[int]) -> bool:
    """Whether a rack of `before` is not in `now`, other than by the absence of a broker that is still a replica."""
    away = {broker for broker in now_replicas if broker not in now}
    tolerated = {rack for broker, rack in before.items() if broker in away}
    return bool({rack for rack in before.values() if rack is not None} - set(now.values()) - tolerated)


def _words(replicas: Replicas) -> str:
    return ", ".join(sorted({rack for rack in replicas.values() if rack is not None})) or "(none)"
