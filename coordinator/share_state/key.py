"""`SharePartitionKey`: a partition as consumed by a share group, and its key in requests."""

import re
from typing import Final, NamedTuple, Self

from quorate.assignors.java_order import java_hash
from quorate.codecs import Uuid

_PARTITION: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_MASK: Final = (1 << 32) - 1


class SharePartitionKey(NamedTuple):
    """A group and one of its partitions."""

    group_id: str
    topic_id: Uuid
    partition: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse GROUP:TOPIC_ID:PARTITION, the key of FindCoordinator. Groups may contain colons.

        Raises `ValueError`.
        """
        group_id, _, rest = text.rpartition(":")
        group_id, _, topic_id = group_id.rpartition(":")
        if not group_id.strip() or _PARTITION.fullmatch(rest) is None or not -(1 << 31) <= int(rest) < 1 << 31:
            raise ValueError(f"{text!r} is not the key of a share-partition: write GROUP:TOPIC_ID:PARTITION")
        return cls(group_id, Uuid.parse(topic_id), int(rest))

    @property
    def coordinator_key(self) -> str:
        """The text whose hash selects the partition of `__share_group_state`."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


def hash_of(key: SharePartitionKey) -> int:
    """Return Java's hash code of a key, which contains a partition without a topic name."""
    inner = 31 * (31 + java_hash(key.topic_id)) + 31 * (31 + key.partition)
    return (31 * (31 + java_hash(key.group_id)) + inner) & _MASK
