"""The embedded cluster as host of coordinators: partitions, logs, clock and turns.

Coordinators append real batches to a real topic. When a partition's leader changes, the coordinator
on the new leader loads the log, as in Kafka.
"""

from collections.abc import Callable, Generator, Sequence
from typing import Any, Generic

from quorate.cluster.clock import Handle
from quorate.cluster.coordinator_log import PartitionCoordinatorLog
from quorate.cluster.services import Services
from quorate.cluster.topics import PartitionState
from quorate.cluster.turns import turn_of_timers
from quorate.coordinator.partition_runtime import S
from quorate.coordinator.partitioning import partition_for


class TopicHost(Generic[S]):
    """The host (`quorate.coordinator.runtime.Host`) of the coordinators of one internal topic.

    `what`: "groups" or "transactions", for messages. `loads_all`: leaders load logs before the
    first request. `base_sequence`: that of batches.
    """

    def __init__(
        self,
        services: Services,
        topic: str,
        what: str,
        new_shard: Callable[[PartitionState], S],
        *,
        loads_all: bool = False,
        base_sequence: int = 0,
    ) -> None:
        self._services = services
        self.topic = topic
        self.what = what
        self._new_shard = new_shard
        self._loads_all = loads_all
        self._base_sequence = base_sequence

    def partition_for(self, key: str) -> PartitionState | None:
        """Return the partition of a group or transactional id; `None` without the topic."""
        topic = self._services.state.topics.get(self.topic)
        if topic is None or not topic.partitions:
            return None
        return topic.partitions[partition_for(key, len(topic.partitions))]

    def partitions(self) -> Sequence[PartitionState]:
        """Return the topic's partitions, by index; none while it does not exist."""
        topic = self._services.state.topics.get(self.topic)
        return () if topic is None else topic.partitions

    def new_shard(self, partition: PartitionState) -> S:
        """Return an empty shard."""
        return self._new_shard(partition)

    def log(self, partition: PartitionState) -> PartitionCoordinatorLog:
        """Return a partition's log."""
        return PartitionCoordinatorLog(partition, base_sequence=self._base_sequence)

    def loads_early(self, partition: PartitionState) -> bool:
        """Return whether to load a log before the first request; empty logs are not loaded."""
        return self._loads_all and partition.log.next_offset > 0

    def unreadable(self, partition: PartitionState, error: Exception) -> None:
        """Report a log that cannot be loaded."""
        self._services.reports.note(
            f"the {self.what} of {partition.topic}-{partition.index} have no coordinator: {error}"
        )

    def now_ms(self) -> int:
        """Return the current time in ms."""
        return self._services.clock.now_ms()

    def stepped_ms(self) -> int:
        """Return how far the clock has been set, in ms."""
        return self._services.clock.stepped_ms

    def call_at(self, at_ms: int, action: Callable[[], object]) -> Handle:
        """Call `action` at a time."""
        return self._services.clock.call_at(at_ms, action)

    def turn(self) -> Callable[[], bool]:
        """Begin a turn in which timers fire; the result returns whether it is over."""
        return turn_of_timers()

    def run_work(
        self,
        work: Generator[None, None, None],
        done: Callable[[Any], object],
        failed: Callable[[BaseException], object],
    ) -> bool:
        """Run long work in turns."""
        return self._services.turns.run(work, done, failed)

    def task_failed(self, error: BaseException) -> None:
        """Report an internal error of a coordinator."""
        self._services.reports.failed("a coordinator's task", error)
