"""Periodic maintenance of logs: retention, compaction, flushing, checkpoints, producer expiration.

Everything runs in the cluster's loop, by the cluster's clock. Compaction runs in slices, and large
batches in a thread, so that it does not delay requests.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from quorate.cluster.clock import Handle
from quorate.cluster.controller.controller import Controller, MetadataWriteError
from quorate.cluster.log import PartitionLog
from quorate.cluster.log_config import NEVER
from quorate.cluster.log_manager import LogManager
from quorate.cluster.services import Services
from quorate.cluster.share_state import ShareCoordinators
from quorate.cluster.storage.cleaning import clean, is_due
from quorate.cluster.storage.retention import expire
from quorate.cluster.transactions import TransactionCoordinators
from quorate.cluster.turns import Work
from quorate.codecs import LogError
from quorate.codecs.log.compaction import BatchWork
from quorate.coordinator.log import AppendError

_SLICE_S = 0.005
_LOG_ERRORS = (OSError, LogError, AppendError)


class Maintenance:
    """The periodic tasks of a cluster. They begin with `start`."""

    def __init__(
        self,
        services: Services,
        controller: Controller,
        logs: LogManager,
        transactions: TransactionCoordinators,
        share_state: ShareCoordinators,
    ) -> None:
        self._services = services
        self._state = services.state
        self._controller = controller
        self._log_manager = logs
        self._transactions = transactions
        self._share_state = share_state
        self._timers: dict[object, Handle] = {}
        self._cleaning: Iterator[BatchWork[Any] | None] | None = None

    def start(self) -> None:
        """Begin, in the running loop."""
        if self._timers:
            return
        self._every("log.retention.check.interval.ms", self.retain)
        self._every("producer.id.expiration.check.interval.ms", self.expire_producers)
        self._every("transaction.remove.expired.transaction.cleanup.interval.ms", self._transactions.expire)
        if self._services.broker_configs.boolean("log.cleaner.enable"):
            self._every("log.cleaner.backoff.ms", self.compact)
        if self._share_state.is_supported:
            self._every("share.coordinator.state.topic.prune.interval.ms", self._share_state.prune)
            self._every(
                "share.coordinator.cold.partition.snapshot.interval.ms", self._share_state.snapshot_cold_partitions
            )
        if self._log_manager.data is not None:
            self._every("log.flush.offset.checkpoint.interval.ms", self.checkpoint)

    def stop(self) -> None:
        """End; unfinished compactions are discarded."""
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        self._cleaning = None

    def _every(self, config: str, action: Callable[[], object]) -> None:
        def run() -> None:
            self._later(config, interval_ms, run)
            try:
                action()
            except _LOG_ERRORS as error:
                self._services.reports.note(f"{config}: {error}")

        interval_ms = max(self._services.broker_configs.number(config), 1)
        self._later(config, interval_ms, run)

    def _later(self, key: object, in_ms: int, action: Callable[[], object]) -> None:
        clock = self._services.clock
        self._timers[key] = clock.call_at(clock.now_ms() + in_ms, action)

    def _logs(self) -> Iterator[tuple[str, PartitionLog, Callable[[], bool]]]:
        """Yield each existing log: its name, the log, and whether it still exists."""
        for topic in list(self._state.topics.values()):
            for partition in list(topic.partitions):
                if self._state.has(partition):
                    yield f"{topic.name}-{partition.index}", partition.log, partial(self._state.has, partition)

    # ---- tasks

    def retain(self) -> None:
        """Delete segments by `retention.ms` and `retention.bytes`, in turns."""
        self._services.turns.run(
            self._retaining(), lambda _: None, partial(self._services.reports.failed, "deleting old records")
        )

    def _retaining(self) -> Work[None]:
        now_ms = self._services.clock.now_ms()
        for name, log, _ in self._logs():
            try:
                expire(log, now_ms)
            except _LOG_ERRORS as error:  # continue with other logs
                self._services.reports.note(f"old records of {name} could not be deleted: {error}")
            yield None

    def expire_producers(self) -> None:
        """Forget producers that wrote nothing for `producer.id.expiration.ms`, in turns."""
        self._services.turns.run(
            self._expiring(), lambda _: None, partial(self._services.reports.failed, "forgetting producers")
        )

    def _expiring(self) -> Work[None]:
        before_ms = self._services.clock.now_ms() - self._services.broker_configs.number("producer.id.expiration.ms")
        for _, log, _ in self._logs():
            log.producers.expire(before_ms)
            yield None

    def checkpoint(self) -> None:
        """Write recovery points, and metadata that the full disk had no space for."""
        if self._log_manager.data is not None:
            with suppress(MetadataWriteError):  # reported already
                self._controller.write_pending()
            self._log_manager.data.checkpoint()

    def compact(self) -> None:
        """Compact logs that are due, unless a compaction is running."""
        if self._cleaning is None:
            self._cleaning = self._pass()
            self._slice()

    def _pass(self) -> Iterator[BatchWork[Any] | None]:
        now_ms = self._services.clock.now_ms()
        for name, log, exists in self._logs():
            try:
                if log.config.compact and is_due(log, now_ms):
                    for work in clean(log, now_ms=now_ms):
                        yield work
                        if not exists():
                            break
            except _LOG_ERRORS as error:
                self._services.reports.note(f"{name} could not be compacted: {error}")
            yield None

    def _slice(self) -> None:
        cleaning = self._cleaning
        if cleaning is None:
            return
        until = time.perf_counter() + _SLICE_S
        for work in cleaning:
            if work is not None and work.large:
                failed = partial(self._services.reports.failed, "compacting a batch")
                self._services.turns.in_thread(work.run, lambda _: self._slice(), failed)
                return
            if time.perf_counter() > until:
                self._later(self._slice, 0, self._slice)
                return
        self._cleaning = None

    # ---- flushing

    def unflushed(self, log: PartitionLog) -> None:
        """Flush a log within `flush.ms` after a write."""
        if log.config.flush_ms < NEVER and id(log) not in self._timers:
            self._later(id(log), log.config.flush_ms, partial(self._flush, log))

    def _flush(self, log: PartitionLog) -> None:
        self._timers.pop(id(log), None)
        with suppress(AppendError):  # the log has reported why, see `PartitionLog.on_failure`
            log.flush()
