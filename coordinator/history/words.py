"""How facts name members, topics and partitions. Topic ids become names where these are known."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from quorate.codecs import Uuid, as_kafka_reads
from quorate.codecs.messages.consumer_group import ConsumerGroupPartitionMetadataValue
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.codecs.messages.share_group import ShareGroupStatePartitionMetadataValue

__all__ = ["Partition", "Words", "hash_text", "learn_names"]

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
        return ", ".join(f"{topic} {_spans(sorted(numbers))}" for topic, numbers in sorted(by_topic.items()))

    def members(self, member_ids: Iterable[str]) -> str:
        """Several of them; "nobody" for none."""
        return ", ".join(map(self.member, member_ids)) or "nobody"


def learn_names(names: dict[Uuid, str], record: object) -> None:
    """Add the names of topics that a record tells together with their ids."""
    readable = as_kafka_reads(record)
    if readable is None:
        return
    key, value = readable.key, readable.value
    if isinstance(value, OffsetCommitValue) and isinstance(key, OffsetCommitKey):
        if value.topic_id != Uuid.ZERO:
            names[value.topic_id] = key.topic
    elif isinstance(value, ConsumerGroupPartitionMetadataValue):
        names |= {topic.topic_id: topic.topic_name for topic in value.topics}
    elif isinstance(value, ShareGroupStatePartitionMetadataValue):
        for topics in (value.initializing_topics, value.initialized_topics, value.deleting_topics):
            names |= {topic.topic_id: topic.topic_name for topic in topics}


def hash_text(value: int) -> str:
    """A metadata hash, as 64 bits in hex."""
    return f"0x{value & (1 << 64) - 1:016x}"


def _spans(numbers: list[int]) -> str:
    found: list[str] = []
    start = 0
    for end in range(1, len(numbers) + 1):
        if end == len(numbers) or numbers[end] != numbers[end - 1] + 1:
            low, high = numbers[start], numbers[end - 1]
            found.append(str(low) if low == high else f"{low}-{high}")
            start = end
    return " ".join(found)
