"""The cluster's racks as a client's metadata shows them, and their changes (KIP-881).

Knows no client.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from quorate.assignors.topology import Topic, Topology

Replicas = dict[int, str | None]
"""Replica → rack, without brokers that are not in the metadata."""


@dataclass(frozen=True, slots=True)
class ClusterView:
    """A client's metadata.

    `brokers`: those that are available → rack. `topics`: topic → partition → ids of all its
    replicas, the leader's first; without topics that are unknown or have an error.
    """

    brokers: Mapping[int, str | None]
    topics: Mapping[str, Mapping[int, Sequence[int]]]


@dataclass(slots=True)
class RackWatch:
    """What one consumer knows of racks.

    It stores the racks of brokers, including brokers that are offline now, and the racks of its
    last assignment as the leader.
    """

    _last_known: dict[int, str | None] = field(default_factory=dict)
    _assigned: dict[str, dict[int, tuple[tuple[int, ...], Replicas]]] | None = None

    def learn(self, view: ClusterView) -> None:
        """Store the racks of brokers.

        Offline replicas count (KIP-881), but metadata has no rack of a broker that is offline.
        """
        self._last_known.update({broker: rack or None for broker, rack in view.brokers.items()})

    def topology(self, view: ClusterView, topics: Iterable[str]) -> Topology:
        """Return those of `topics` that are in the metadata, with the racks of all replicas."""
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
        """Store the racks of the assignment, for `change`."""
        # There are few different lists of replicas, however many partitions there are.
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
        """Stop watching: the member is no longer the leader, or is about to rejoin."""
        self._assigned = None

    def change(self, view: ClusterView) -> str | None:
        """Describe a change in the racks of partitions since `start`; `None` if there is none.

        The rule is Kafka's (KIP-881, corrected by KAFKA-20778): a rack that was added or removed is
        a change, unless it is that of a replica whose broker is or was offline. Partition counts
        are checked by the client.
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
                # A broker that is online again is compared from here on: if it moves to another
                # rack later, that is a change.
                for broker in replicas:
                    if broker not in before and broker in now:
                        before[broker] = now[broker]
        return None


def _racks(view: ClusterView, replicas: Iterable[int]) -> Replicas:
    return {broker: view.brokers[broker] or None for broker in replicas if broker in view.brokers}


def _gone(before: Replicas, now: Replicas, now_replicas: Sequence[int]) -> bool:
    """Return whether a rack of `before` is missing in `now`, except that of an offline replica."""
    away = {broker for broker in now_replicas if broker not in now}
    tolerated = {rack for broker, rack in before.items() if broker in away}
    return bool({rack for rack in before.values() if rack is not None} - set(now.values()) - tolerated)


def _words(replicas: Replicas) -> str:
    return ", ".join(sorted({rack for rack in replicas.values() if rack is not None})) or "(none)"
