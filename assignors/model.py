"""Input and output of assignors: members with their subscriptions, and the assignment.

Groups may have 10,000 members and 100,000 partitions, so `Assignment` stores partition numbers in
arrays and creates `TopicPartition` objects on access.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from quorate.assignors.errors import AssignorError
from quorate.assignors.topology import Ints, TopicPartition, Topology, grouped, sorted_by
from quorate.codecs.message_methods import positional

__all__ = ["Assignment", "AssignorError", "Member"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Member:
    """A member of a group, as an assignor sees it.

    - `topics`: the subscription: topic names, known or not; duplicates are ignored.
    - `rack`: `client.rack`; the empty string means no rack.
    - `instance_id`: `group.instance.id` of a static member.
    - `owned`: on the client side the owned partitions of the subscription, in the order given; on
      the server side the member's previous target assignment, in the order of the record.
    - `generation`: the generation in which the owned partitions were assigned; -1 if unknown.
    - `user_data`: the user data of the subscription. `sticky` reads the owned partitions of members
      with an older subscription version from it.

    Raises `AssignorError` if `topics` is a single string.
    """

    topics: Sequence[str] = ()
    rack: str | None = None
    instance_id: str | None = None
    owned: Sequence[tuple[str, int]] = ()
    generation: int = -1
    user_data: bytes | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if isinstance(self.topics, str):  # type checkers accept it as a sequence of one-letter names
            raise AssignorError(f"topics is {self.topics!r}: give a list of names, such as [{self.topics!r}]")


class Assignment(Mapping[str, tuple[TopicPartition, ...]]):
    """Member id → its partitions, for every member of the group.

    A member's partitions are in the order in which Kafka's assignor of that name lists them.

    The same as arrays, in the partition numbers of `topology`: member `i` has
    `partitions[offsets[i]:offsets[i + 1]]`; `offsets` has one entry more than there are members.
    """

    __slots__ = ("_arrays", "_lists", "_number_of", "member_ids", "topology")

    def __init__(self, topology: Topology, member_ids: Sequence[str], offsets: Ints, partitions: Ints) -> None:
        self.topology = topology
        self.member_ids = member_ids
        self._arrays: tuple[Ints, Ints] | None = (offsets, partitions)
        self._lists: Sequence[Sequence[int]] = ()
        self._number_of: dict[str, int] | None = None

    @classmethod
    def from_lists(cls, topology: Topology, member_ids: Sequence[str], lists: Iterable[Sequence[int]]) -> "Assignment":
        """Create an assignment from one list of partition numbers per member.

        The lists are in the order of `member_ids`.
        """
        return _of_lists(topology, member_ids, None, list(lists), None)

    @classmethod
    def from_owners(cls, topology: Topology, member_ids: Sequence[str], partitions: Ints, owners: Ints) -> "Assignment":
        """Create an assignment from partition numbers and the member number of each.

        A member's partitions keep the order given.
        """
        offsets = np.zeros(len(member_ids) + 1, np.int64)
        np.cumsum(np.bincount(owners, minlength=len(member_ids)), out=offsets[1:])
        return cls(topology, member_ids, offsets, sorted_by(owners, partitions, len(member_ids)))

    def __getitem__(self, member_id: str) -> tuple[TopicPartition, ...]:
        if self._arrays is None:
            return self.topology.few_partitions(self._lists[self._index(member_id)])
        return self.topology.topic_partitions(self.numbers(member_id))

    def __iter__(self) -> Iterator[str]:
        return iter(self.member_ids)

    def __len__(self) -> int:
        return len(self.member_ids)

    def __repr__(self) -> str:
        return f"Assignment({len(self.member_ids)} members, {len(self.partitions)} partitions)"

    def _in_arrays(self) -> tuple[Ints, Ints]:
        """Return offsets and partitions; small groups need them rarely."""
        if self._arrays is None:
            lists = self._lists
            offsets = np.zeros(len(lists) + 1, np.int64)
            np.cumsum([len(one) for one in lists], out=offsets[1:])
            self._arrays = offsets, np.fromiter(chain.from_iterable(lists), np.int64, count=int(offsets[-1]))
        return self._arrays

    @property
    def offsets(self) -> Ints:
        """Where each member's part of `partitions` starts."""
        return self._in_arrays()[0]

    @property
    def partitions(self) -> Ints:
        """The numbers of all assigned partitions, member after member."""
        return self._in_arrays()[1]

    @property
    def counts(self) -> Ints:
        """Number of partitions of each member, in the order of `member_ids`."""
        return np.diff(self.offsets)

    def _index(self, member_id: str) -> int:
        if self._number_of is None:
            self._number_of = {member: number for number, member in enumerate(self.member_ids)}
        return self._number_of[member_id]

    def numbers(self, member_id: str) -> Ints:
        """Return the numbers in `topology` of a member's partitions. Raises `KeyError`."""
        index = self._index(member_id)
        return self.partitions[self.offsets[index] : self.offsets[index + 1]]

    def by_topic(self, member_id: str) -> dict[str, list[int]]:
        """Return a member's partitions as topic → partition ids, in order of first appearance."""
        return grouped(self[member_id])


_of_lists = positional(Assignment, "topology", "member_ids", "_arrays", "_lists", "_number_of")
