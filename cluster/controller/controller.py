"""`Controller`: appends records to the metadata log, replays them, and publishes what changed.

Records are encoded in turns. Appending and replaying them is one step of the event loop. A change
is visible as a whole, and not before it is written.
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

T = TypeVar("T")

_TRIES = 3
"""Attempts to prepare a change while others change the metadata; the last one is in one turn."""


class MetadataWriteError(ApiError):
    """A change could not be appended to the metadata log, and was not made."""


class Controller:
    """Makes all changes of `state`.

    `changes`: the queue of requests that change it. `version`: increases when topics or brokers
    change, on which a change in progress may depend. `publish`: called with each delta, in the same
    step. `log`: the metadata log, once the cluster writes one.
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
        self._pending: list[Message] = []  # replayed, but not written yet
        self._replayed = 0  # records, without a log

    @property
    def next_offset(self) -> int:
        """Offset of the next record."""
        return self._replayed if self.log is None else self.log.log.next_offset + len(self._pending)

    # ---- changes

    def append(self, records: Iterable[Message]) -> None:
        """Commit a change at once. Raises `MetadataWriteError`."""
        at_once(self.appending(records))

    def appending(self, records: Iterable[Message]) -> Work[None]:
        """Commit a change that does not depend on other changes, in turns.

        Raises `MetadataWriteError`.
        """
        batch = yield from self.encoding(records)
        if batch.records:
            yield from self.committing(batch)

    def encoding(self, records: Iterable[Message]) -> Work[MetadataBatch]:
        """Encode the records of a change for `commit`, in turns."""
        batch = MetadataBatch(encode=self.log is not None)
        for record in records:
            batch.add(record)
            yield None
        return batch

    def preparing(self, work: Callable[[], Work[T]]) -> Work[T]:
        """Prepare a change in turns. Prepare it again if topics or brokers change meanwhile.

        `work` has no visible effect. The caller commits the change before the next turn. Raises
        `MetadataWriteError`.
        """
        for _ in range(_TRIES - 1):
            self.write_pending()
            seen = self.version
            found = yield from work()
            if seen == self.version:
                return found
        self.write_pending()
        return at_once(work())

    def committing(self, batch: MetadataBatch) -> Work[None]:
        """Commit a change in the first turn, then apply it to the logs, in turns.

        Raises `MetadataWriteError`.
        """
        yield from self._logs.apply_configs(self.commit(batch))

    def commit(self, batch: MetadataBatch) -> Delta:
        """Append and replay the records of a change, and return the delta.

        Raises `MetadataWriteError`.
        """
        self.write_pending()
        self._write(batch)
        return self._replay(batch)

    def commit_in_any_case(self, batch: MetadataBatch) -> Delta:
        """Commit a change that cannot be rejected, such as a broker that stops.

        If the log cannot be written now, the change is written later.
        """
        try:
            return self.commit(batch)
        except MetadataWriteError:
            self._pending += batch.records
            return self._replay(batch)

    def write_pending(self) -> None:
        """Write records that could not be written before. Raises `MetadataWriteError`."""
        if self._pending and self.log is not None:
            self._write(MetadataBatch.of(self._pending))
            self._pending.clear()

    def _write(self, batch: MetadataBatch) -> None:
        if self.log is None or not batch.records:
            if self._logs.data is not None:  # the cluster is starting; the next change writes them
                self._pending += batch.records
            return
        if batch.encoded is None:
            batch = MetadataBatch.of(batch.records)
        try:
            self.log.append(batch, self._services.clock.now_ms())
        except AppendError as refused:
            self._services.reports.note(f"the cluster's metadata could not be written: {refused}; free some space")
            raise MetadataWriteError(ErrorCode.KAFKA_STORAGE_ERROR, refused.message) from None

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
