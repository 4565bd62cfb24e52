"""`Controller`: appends records to the metadata log, replays them, and notifies those who follow the cluster.

Records are encoded in turns. Appending and replaying them is one step of the loop, so a change is
seen as a whole or not at all, and not before it is written.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from quorate.cluster.changes import Changes
from quorate.cluster.controller.state import Delta
from quorate.cluster.log_manager import LogManager
from quorate.cluster.services import Services
from quorate.cluster.storage.metadata import MetadataBatch, MetadataLog
from quorate.cluster.turns import Work, at_once
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message
from quorate.coordinator.errors import ApiError
from quorate.coordinator.log import AppendError

__all__ = ["Controller", "NotWrittenError"]

T = TypeVar("T")

_TRIES = 3
"""How often a change is prepared if something that it depends on changes meanwhile; the last time
at once.
"""


class NotWrittenError(ApiError):
    """A change could not be appended to the metadata log. Nothing of it was done."""


class Controller:
    """The only one that changes `state`.

    `changes`: the queue of requests that change it; `version`: goes up when topics or brokers
    change, which a change in progress may depend on; `publish`: called with what has changed, in
    the same step; `log`: the metadata log, once the cluster writes one.
    """

    def __init__(
        self,
        services: Services,
        logs: LogManager,
        publish: Callable[[Delta], object],
    ) -> None:
        self.state = services.state
        self.changes = Changes()
        self.version = 0
        self.log: MetadataLog | None = None
        self._logs = logs
        self._services = services
        self._publish = publish
        self._pending: list[Message] = []  # replayed, and not written yet
        self._replayed = 0  # records, without a log

    @property
    def next_offset(self) -> int:
        """The offset of the next record."""
        return self._replayed if self.log is None else self.log.log.next_offset + len(self._pending)

    # ---- changes

    def append(self, records: Iterable[Message]) -> None:
        """Make a change at once. Raises `NotWrittenError`."""
        at_once(self.appending(records))

    def appending(self, records: Iterable[Message]) -> Work[None]:
        """Make a change that depends on nothing which can change meanwhile, in turns.

        Raises `NotWrittenError`.
        """
        batch = yield from self.encoding(records)
        if batch.records:
            yield from self.committing(batch)

    def encoding(self, records: Iterable[Message]) -> Work[MetadataBatch]:
        """The records of a change for `commit`, encoded in turns."""
        batch = MetadataBatch(encode=self.log is not None)
        for record in records:
            batch.add(record)
            yield None
        return batch

    def preparing(self, work: Callable[[], Work[T]]) -> Work[T]:
        """Prepare a change in turns, again if what it depends on changes meanwhile.

        Raises `NotWrittenError`.

        `work` changes nothing that can be seen. The change is to be committed before the next turn.
        """
        for _ in range(_TRIES - 1):
            self.write_pending()  # what could not be written before comes first
            seen = self.version
            found = yield from work()
            if seen == self.version:
                return found
        self.write_pending()
        return at_once(work())

    def committing(self, batch: MetadataBatch) -> Work[None]:
        """Commit a change in the first turn; then logs follow it in turns.

        Raises `NotWrittenError`.
        """
        yield from self._logs.following(self.commit(batch))

    def commit(self, batch: MetadataBatch) -> Delta:
        """Append and replay the records of a change; returns what has changed.

        Raises `NotWrittenError`.
        """
        self.write_pending()
        self._write(batch)
        return self._replay(batch)

    def commit_in_any_case(self, batch: MetadataBatch) -> Delta:
        """The same for a change that nobody can refuse, such as a broker that stops: it is written later if it cannot be now."""
        try:
            return self.commit(batch)
        except NotWrittenError:
            self._pending += batch.records
            return self._replay(batch)

    def write_pending(self) -> None:
        """Write what could not be written before. Raises `NotWrittenError`."""
        if self._pending and self.log is not None:
            self._write(MetadataBatch.of(self._pending))
            self._pending.clear()

    def _write(self, batch: MetadataBatch) -> None:
        if self.log is None or not batch.records:
            if self._logs.data is not None:  # the cluster starts: it is written with the first change after that
                self._pending += batch.records
            return
        if batch.encoded is None:
            batch = MetadataBatch.of(batch.records)
        try:
            self.log.append(batch, self._services.clock.now_ms())
        except AppendError as refused:
            self._services.reports.note(f"the cluster's metadata could not be written: {refused}; free some space")
            raise NotWrittenError(ErrorCode.KAFKA_STORAGE_ERROR, refused.message) from None

    def _replay(self, batch: MetadataBatch) -> Delta:
        self.state.replay(*batch.records)
        self._replayed += len(batch.records)
        delta = self.state.take_delta()
        if delta.topics or delta.led or delta.removed or delta.brokers or delta.broker_configs:
            self.version += 1
        self._publish(delta)
        if self.log is not None and not self._pending:
            self.log.compact_after(len(batch.records), self._services.clock.now_ms())
        return delta
