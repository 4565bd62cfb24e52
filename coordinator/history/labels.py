"""Names of members, topics and partitions in sentences."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import field

from quorate.codecs import Uuid
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.printable import spans

Partition = tuple[Uuid | str, int]
"""A topic, by its id or its name as the record has it, and the partition's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """`names`: topic id → name. `member`: returns the label of a member id."""

    names: Mapping[Uuid, str] = field(default_factory=dict)
    member: Callable[[str], str] = str

    def topic(self, topic: Uuid | str) -> str:
        """Return a topic's name, or its id if the name is unknown."""
        return topic if isinstance(topic, str) else self.names.get(topic, str(topic))

    def partitions(self, partitions: Iterable[Partition]) -> str:
        """Return partitions such as "clicks 1, orders 0-2 5"."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(self.topic(topic), []).append(number)
        return ", ".join(f"{topic} {spans(numbers)}" for topic, numbers in sorted(by_topic.items()))

    def members(self, member_ids: Iterable[str]) -> str:
        """Return a list of member labels, "no member" for none."""
        return ", ".join(map(self.member, member_ids)) or "no member"
