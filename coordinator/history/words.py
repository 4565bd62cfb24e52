"""How facts name members, topics and partitions. Topic ids become names where these are known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from quorate.codecs import Uuid
from quorate.codecs.printable import spans

__all__ = ["Partition", "Words"]

Partition = tuple[Uuid | str, int]
"""A topic, by its id or its name as the record has it, and the partition's number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """`names`: topic id → name; `member`: what to call a member of this id."""

    names: Mapping[Uuid, str] = field(default_factory=dict)
    member: Callable[[str], str] = str

    def topic(self, topic: Uuid | str) -> str:
        """A topic's name, or its id if that is all there is."""
        return topic if isinstance(topic, str) else self.names.get(topic, str(topic))

    def partitions(self, partitions: Iterable[Partition]) -> str:
        """Orders 0-2 5, clicks 1."""
        by_topic: dict[str, list[int]] = {}
        for topic, number in partitions:
            by_topic.setdefault(self.topic(topic), []).append(number)
        return ", ".join(f"{topic} {spans(numbers)}" for topic, numbers in sorted(by_topic.items()))

    def members(self, member_ids: Iterable[str]) -> str:
        """Several of them; "nobody" for none."""
        return ", ".join(map(self.member, member_ids)) or "nobody"
