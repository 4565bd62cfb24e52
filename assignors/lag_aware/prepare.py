"""Input of the lag-aware algorithms: lags as an array, members by id, topics' subscribers."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from hashlib import blake2b
from typing import Literal

import numpy as np
import numpy.typing as npt

from quorate.assignors import java_order
from quorate.assignors.group import GroupSpec
from quorate.assignors.lags import Lags
from quorate.assignors.model import AssignorError
from quorate.assignors.owners import previous_owners
from quorate.assignors.subscribers import by_topic
from quorate.assignors.topology import Ints, Topology

GivenLags = Mapping[tuple[str, int], int | None] | Lags | npt.NDArray[np.integer] | Sequence[int]
"""Topic and partition → lag, or one lag per partition in the topology's numbers.

`None`, no entry, and -1 in an array mean unknown.
"""

Missing = Literal["zero", "median"]
"""What an unknown lag counts as."""

_MIX = (np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB))  # of splitmix64


def lag_array(given: GivenLags, topology: Topology, missing: Missing) -> Ints:
    """Return one lag per partition, in records, limited so that sums fit into 64 bits.

    The limit is 2⁶² / partitions. Raises `AssignorError` if an array does not match the topology.
    """
    size = int(topology.first[-1])
    most = (1 << 62) // max(1, size)
    if isinstance(given, Mapping):
        lags: Ints = np.full(size, -1, np.int64)
        number = topology.number
        for (topic, partition), lag in given.items():
            at = number(topic, partition)
            if at >= 0 and lag is not None:
                lags[at] = max(0, min(int(lag), most))
    else:
        array = np.asarray(given)
        if array.shape != (size,) or (size and array.dtype.kind not in "iu"):
            raise AssignorError(
                f"lags have shape {array.shape} and type {array.dtype}, but the topology has {size:,} partitions; "
                "give one integer per partition, -1 if unknown, or a mapping of (topic, partition) to lag"
            )
        lags = np.minimum(array, most).astype(np.int64)
    unknown = lags < 0
    if missing == "median" and unknown.any():
        for topic in np.unique(topology.topic_of[unknown]).tolist():
            part = slice(int(topology.first[topic]), int(topology.first[topic + 1]))
            known = np.sort(lags[part][~unknown[part]])
            lags[part][unknown[part]] = known[(len(known) - 1) // 2] if len(known) else 0
    else:
        lags[unknown] = 0
    return lags


class Table:
    """A group and its lags.

    Members are numbered by id in Java's string order, and topics are taken by name, so the order of
    members and of topics in the metadata does not matter. `number_of[m]` is the group's number of
    member `m`.
    """

    def __init__(self, group: GroupSpec, lags: Ints, *, shuffle: bool) -> None:
        self.group = group
        self.topology = group.topology
        self.lags = lags
        self.shuffle = shuffle
        keys = [java_order.string_key(member_id) for member_id in group.member_ids]
        self.number_of: Ints = np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)
        self._subscribers: dict[bytes, Ints] = {}
        self._key_of: dict[int, bytes] = {}
        subscriptions = group.subscription_of[self.number_of]
        by_subscription = np.argsort(subscriptions, kind="stable")
        ends = np.cumsum(np.bincount(subscriptions, minlength=len(group.subscriptions)))
        members = np.split(by_subscription, ends[:-1]) if len(ends) else []
        topics = [subscription.topics for subscription in group.subscriptions]
        flat, which, starts, ends = by_topic(topics, len(self.topology))
        for topic, start, end in zip(flat[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
            listed = which[start:end]
            key = self._key_of[topic] = listed.tobytes()
            if key not in self._subscribers:
                self._subscribers[key] = np.sort(np.concatenate([members[one] for one in listed.tolist()]))
        names = {topic: java_order.string_key(self.topology.topics[topic].name) for topic in self._key_of}
        self.topics: list[int] = sorted(self._key_of, key=names.__getitem__)
        """Topics with subscribers, by name."""

    def subscribers(self, topic: int) -> Ints:
        """Return the subscribers of a topic in id order.

        Topics with the same subscribers share one array.
        """
        return self._subscribers[self._key_of[topic]]

    def in_turn(self, topic: int, members: Ints) -> npt.NDArray[np.uint64] | Ints:
        """Return sort keys that break ties: members' numbers, or with `shuffle` hashes."""
        if not self.shuffle:
            return members
        mixed = self._hashes[members]
        mixed ^= np.uint64(_hash(self.topology.topics[topic].name))
        for shift, factor in zip((30, 27), _MIX, strict=True):
            mixed ^= mixed >> np.uint64(shift)
            mixed *= factor
        mixed ^= mixed >> np.uint64(31)
        return mixed

    def dealt_together(self) -> list[tuple[Ints, list[int]]]:
        """Return topics with their candidates, grouped by equal candidates in equal order.

        Candidates that cannot get a partition are left out.
        """
        together: dict[bytes, list[int]] = {}
        for topic in self.topics:
            together.setdefault(self._key_of[topic], []).append(topic)
        if not self.shuffle:
            return [(self._subscribers[key], topics) for key, topics in together.items()]
        found = []
        for topic in self.topics:
            members = self.subscribers(topic)
            keys = self.in_turn(topic, members)
            size = int(self.topology.sizes[topic])
            if 0 < size < len(members):
                first = first_in_turn(keys, size)
                members, keys = members[first], keys[first]
            found.append((members[np.argsort(keys, kind="stable")], [topic]))
        return found

    @cached_property
    def _hashes(self) -> npt.NDArray[np.uint64]:
        """A hash of each member's instance id, or else of its member id."""
        members = list(self.group.members.items())
        return np.array(
            [_hash(members[at][1].instance_id or members[at][0]) for at in self.number_of.tolist()], np.uint64
        )

    @cached_property
    def by_lag(self) -> Ints:
        """All partitions by topic, then by decreasing lag, then by number."""
        # One key takes a third of the time of a lexsort by two: 6 ms for 100,000 partitions. It
        # does not overflow, as lags are limited to 2⁶² / partitions.
        above = int(self.lags.max(initial=0)) + 1
        return np.argsort(self.topology.first[self.topology.topic_of] * above - self.lags, kind="stable")

    @cached_property
    def owners(self) -> Ints:
        """The previous owner of each partition; -1 without one."""
        place: Ints = np.empty(len(self.number_of) + 1, np.int64)
        place[self.number_of] = np.arange(len(self.number_of))
        place[-1] = -1
        return place[previous_owners(self.group)]


def first_in_turn(turns: npt.NDArray[np.uint64] | Ints, size: int) -> Ints:
    """Return the positions of the `size` smallest keys of `Table.in_turn`, in no order."""
    share = (size + 8 * size**0.5 + 8) / len(turns)
    if turns.dtype == np.uint64 and share < 0.5:
        # Hashes are uniform, so it is rare that too few are below this limit, and few are too many.
        among = np.flatnonzero(turns < np.uint64(int(share * 2**64)))
        if len(among) >= size:
            return among[np.argpartition(turns[among], size - 1)[:size]]
    return np.argpartition(turns, size - 1)[:size]


def _hash(text: str) -> int:
    """Return a 64-bit hash that is the same in every process and on every machine."""
    return int.from_bytes(blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big")
