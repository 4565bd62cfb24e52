"""The owners of a consumer group's partitions, as their member epochs."""

from collections.abc import Callable, Iterable

from quorate.codecs import Uuid
from quorate.codecs.messages.consumer_group import TopicPartitions
from quorate.coordinator.state.groups import ReplayError

LISTED = 1 << 16
"""Partitions from this number on are in a dictionary, so that a damaged record takes no memory."""


class PartitionEpochs:
    """Topic id → partition → epoch of the member that owns it, or has to revoke it.

    A topic's epochs are a list, which takes 8 bytes for a partition; a dictionary took 46.
    """

    __slots__ = ("_far", "_topics")

    def __init__(self) -> None:
        self._topics: dict[Uuid, list[int | None]] = {}  # `None` for free ones; the last one is not free
        self._far: dict[tuple[Uuid, int], int] = {}

    def get(self, topic_id: Uuid, partition: int) -> int | None:
        """Return the epoch of a partition's owner; `None` if it is free."""
        epochs = self._topics.get(topic_id, ())
        return epochs[partition] if 0 <= partition < len(epochs) else self._far.get((topic_id, partition))

    def take(self, topics: Iterable[TopicPartitions], epoch: int) -> None:
        """Set the owner of partitions.

        Raises `ReplayError` if another member owns one at the same or a later epoch. An earlier
        epoch is overwritten (KAFKA-19862).
        """
        for topic in topics:
            topic_id = topic.topic_id
            for partition in topic.partitions:
                previous = self.get(topic_id, partition)
                if previous is not None and previous >= epoch:
                    raise ReplayError(
                        f"partition {topic_id}-{partition} is assigned at epoch {epoch}, "
                        f"but its owner has epoch {previous}"
                    )
                self._set(topic_id, partition, epoch)

    def _set(self, topic_id: Uuid, partition: int, epoch: int) -> None:
        if not 0 <= partition < LISTED:
            self._far[topic_id, partition] = epoch
            return
        epochs = self._topics.get(topic_id)
        if epochs is None:
            epochs = self._topics[topic_id] = []
        if partition >= len(epochs):
            epochs.extend([None] * (partition + 1 - len(epochs)))
        epochs[partition] = epoch

    def release(self, topics: Iterable[TopicPartitions], epoch: int) -> None:
        """Free partitions, except those that another member owns since."""
        for topic in topics:
            topic_id = topic.topic_id
            epochs = self._topics.get(topic_id, [])
            for partition in topic.partitions:
                if self.get(topic_id, partition) != epoch:
                    continue
                if not 0 <= partition < LISTED:
                    del self._far[topic_id, partition]
                    continue
                epochs[partition] = None
                while epochs and epochs[-1] is None:
                    epochs.pop()
                if not epochs:
                    del self._topics[topic_id]

    def share(self, keep: Callable[[int, int], int]) -> None:
        """Replace epochs by the equal objects that `keep` returns."""
        for epochs in self._topics.values():
            epochs[:] = [None if epoch is None else keep(epoch, epoch) for epoch in epochs]

    def by_topic(self) -> dict[Uuid, dict[int, int]]:
        """Return a copy as dictionaries."""
        found = {
            topic_id: {partition: epoch for partition, epoch in enumerate(epochs) if epoch is not None}
            for topic_id, epochs in self._topics.items()
        }
        for (topic_id, partition), epoch in self._far.items():
            found.setdefault(topic_id, {})[partition] = epoch
        return found
