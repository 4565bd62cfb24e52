"""`TransactionShard`: a partition's transaction coordinator (KIP-98, KIP-360, KIP-890).

Each change is written before it takes effect. A transaction ends in three steps: the decision is
written, then the markers in the transaction's partitions, then the completion. After the decision,
failed steps are retried, also by the next leader. Transactions that time out are aborted.

The markers of a large transaction are written in parts. Until the last one is written, the state is
PREPARE_COMMIT or PREPARE_ABORT.

The module is longer than others: it has all transitions of a transaction, with their retries.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Protocol

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord, as_kafka_reads
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.messages.transaction import TransactionLogKey, TransactionLogValue
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log import AppendError
from quorate.coordinator.results import Result, Task
from quorate.coordinator.state.groups import ReplayError
from quorate.coordinator.timers import Timers
from quorate.coordinator.transactions.records import (
    COMPLETION_OF,
    Status,
    Transaction,
    record_of,
    tombstone_of,
    transaction_of,
)

RETRY_MS = 100
"""Delay before a failed write is retried."""

_LAST_EPOCH = 0x7FFF - 1

Producer = tuple[int, int]
"""A producer's id and epoch."""


class TransactionHost(Protocol):
    """What the hosting process provides to transaction coordinators."""

    @property
    def record_version(self) -> int:
        """The version of records: 1 if the feature `transaction.version` is at least 1, else 0."""

    @property
    def max_timeout_ms(self) -> int:
        """`transaction.max.timeout.ms`."""

    @property
    def expiration_ms(self) -> int:
        """`transactional.id.expiration.ms`."""

    @property
    def behaviour(self) -> Behaviour:
        """The behaviour of the release of Kafka."""

    def new_producer_id(self) -> int:
        """Return a new producer id. Raises `ApiError`."""

    def write_markers(self, transaction: Transaction, coordinator_epoch: int) -> Generator[None, None, None]:
        """Write the markers of a prepared transaction to all of its partitions, in parts.

        Raises `AppendError`.
        """

    def note(self, text: str) -> None:
        """Report something to the owner of the cluster."""


@dataclass
class TransactionShard:
    """The state of a partition's transactional ids.

    `coordinator_epoch`: the leader epoch, which is in markers.
    """

    host: TransactionHost
    coordinator_epoch: int = 0
    image: MetadataImage = MetadataImage.EMPTY

    def __post_init__(self) -> None:
        self.by_id: dict[str, Transaction] = {}
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self._unloaded = False
        self._failed: set[str] = set()  # transactional ids with a reported write failure

    # ---- requests of producers

    def fence(self, transactional_id: str, timeout_ms: int, producer: Producer, now_ms: int) -> Result[None]:
        """First step of InitProducerId: end the open transaction of a previous producer.

        Raises `ApiError`.
        """
        if not 0 < timeout_ms <= self.host.max_timeout_ms:
            raise ApiError(ErrorCode.INVALID_TRANSACTION_TIMEOUT)
        found = self.by_id.get(transactional_id)
        if found is None:
            return Result()
        if producer[0] >= 0 and not _may_resume(found, *producer):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if found.status is Status.ONGOING:
            ended = self._end(self._raised(found), now_ms, commit=False)
            return Result(records=ended.records, replay=False, on_appended=ended.on_appended)
        return Result()

    def begin(self, transactional_id: str, timeout_ms: int, producer: Producer, now_ms: int) -> Result[Producer]:
        """Second step of InitProducerId: return the producer id and epoch. Raises `ApiError`."""
        producer_id, epoch = producer
        found = self.by_id.get(transactional_id)
        if found is None:
            fresh = self.host.new_producer_id()
            found = Transaction(transactional_id=transactional_id, producer_id=fresh, epoch=-1, timeout_ms=timeout_ms)
        elif found.status in COMPLETION_OF:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)  # markers are not written yet; clients retry
        if producer_id < 0 or producer_id != found.producer_id or epoch != found.last_epoch:
            found = self._raised(found)  # else a retry after a lost response
            if producer_id < 0:  # a new producer fences the previous one (KIP-360)
                found = replace(found, last_epoch=-1)
        start_ms = -1 if self.host.behaviour.forgets_start else found.start_ms
        return self._put(
            replace(found, timeout_ms=timeout_ms, status=Status.EMPTY, partitions=(), start_ms=start_ms), now_ms
        )

    def add(
        self,
        transactional_id: str,
        producer: Producer,
        partitions: Iterable[tuple[str, int]],
        now_ms: int,
        *,
        version: int,
    ) -> Result[Producer]:
        """Add partitions to the transaction, starting it if needed.

        `version`: the client's transaction version. Raises `ApiError`.
        """
        found = self._checked(transactional_id, producer)
        if found.status in COMPLETION_OF:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        begins = found.status is not Status.ONGOING
        known = () if begins else found.partitions
        already = frozenset(known)
        more = [
            partition for partition in dict.fromkeys(partitions) if partition not in already
        ]  # no call for each of many
        if not more and not begins:  # a request without partitions starts a transaction, too
            return Result(response=producer)
        start_ms = now_ms if begins else found.start_ms
        return self._put(
            replace(found, status=Status.ONGOING, partitions=(*known, *more), start_ms=start_ms, version=version),
            now_ms,
            then=self._set_timer if begins else None,
        )

    def check_open(self, transactional_id: str, producer: Producer, where: tuple[str, int]) -> None:
        """Raise `ApiError` unless the producer's open transaction has the partition (KIP-890)."""
        found = self._checked(transactional_id, producer)
        if found.status is not Status.ONGOING or where not in found.partitions:
            raise ApiError(ErrorCode.TRANSACTION_ABORTABLE)

    def end(
        self, transactional_id: str, producer: Producer, now_ms: int, *, commit: bool, bump_epoch: bool
    ) -> Result[Producer]:
        """Commit or abort the transaction (EndTxn). Returns the producer's next id and epoch.

        `bump_epoch`: increment the epoch with each end (KIP-890). Raises `ApiError`.
        """
        producer_id, epoch = producer
        found = self.by_id.get(transactional_id)
        if found is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # A retry of a request that incremented the epoch has the previous epoch, or the previous id
        # with its last epoch.
        rotated = producer_id == found.previous_producer_id and epoch == _LAST_EPOCH and found.epoch == 0
        again = bump_epoch and (rotated or epoch == found.epoch - 1)
        if producer_id != found.producer_id and not (again and rotated):
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        ending, has_ended = found.status in COMPLETION_OF, found.status in COMPLETION_OF.values()
        # The epoch was incremented already for a retry of the current end; another end has to wait.
        expected = found.epoch - 1 if ending and bump_epoch else found.epoch
        if epoch != expected and not (has_ended and again):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if ending:
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS if found.commits is commit else ErrorCode.INVALID_TXN_STATE
            )
        if has_ended and (again or not bump_epoch):
            if found.status is not (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT):
                raise ApiError(ErrorCode.INVALID_TXN_STATE)
            return Result(response=(found.producer_id, found.epoch))
        if found.status is Status.ONGOING:
            found = replace(self._raised(found), version=2) if bump_epoch else replace(found, version=0)
        elif bump_epoch and not commit:  # an abort without a transaction (KIP-890)
            found = replace(self._raised(found), partitions=(), start_ms=now_ms, version=2)
        else:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        return self._end(found, now_ms, commit=commit)

    # ---- steps

    def _checked(self, transactional_id: str, producer: Producer) -> Transaction:
        found = self.by_id.get(transactional_id)
        if found is None or found.producer_id != producer[0]:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.epoch != producer[1]:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return found

    def _raised(self, found: Transaction) -> Transaction:
        """Return the transaction with the next epoch, or with a new producer id if none is left."""
        if found.epoch >= _LAST_EPOCH:
            return replace(found, producer_id=self.host.new_producer_id(), epoch=0, last_epoch=found.epoch)
        return replace(found, epoch=found.epoch + 1, last_epoch=found.epoch)

    def _end(self, found: Transaction, now_ms: int, *, commit: bool) -> Result[Producer]:
        """Write the decision; the markers follow."""
        was = self.by_id[found.transactional_id]
        prepared = replace(found, status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT)
        if prepared.producer_id != was.producer_id:
            # The markers have the old id, which wrote the records, with its very last epoch; the
            # new id applies after them (KIP-890).
            prepared = replace(
                prepared, producer_id=was.producer_id, epoch=_LAST_EPOCH + 1, next_producer_id=prepared.producer_id
            )
        result = self._put(prepared, now_ms, then=self._complete_soon)
        result.response = (found.producer_id, found.epoch)
        return result

    def _complete_soon(self, prepared: Transaction) -> None:
        self.timers.cancel(_timer_key(prepared.transactional_id))
        errors: list[AppendError] = []
        self.tasks.append(
            Task(
                name="markers",
                work=partial(self._write_markers, prepared, errors),
                operation=partial(self._complete, prepared, errors),
                concurrent=True,
            )
        )

    def _write_markers(self, prepared: Transaction, errors: list[AppendError]) -> Generator[None, None, None]:
        """Write the markers in parts, and collect the error if one cannot be written.

        Stops when another broker becomes the coordinator: it writes all markers again.
        """
        try:
            for _ in self.host.write_markers(prepared, self.coordinator_epoch):
                yield
                if self._unloaded:
                    return
        except AppendError as error:
            errors.append(error)

    def _complete(self, prepared: Transaction, errors: list[AppendError], now_ms: int) -> Result[Producer]:
        """Write that the transaction is complete, after its markers.

        A failure of either is reported once, and both are retried after `RETRY_MS`.
        """
        transactional_id = prepared.transactional_id
        if self.by_id.get(transactional_id) is not prepared:
            return Result()
        ended = replace(prepared, status=COMPLETION_OF[prepared.status], partitions=(), next_producer_id=-1)
        if prepared.next_producer_id >= 0:
            ended = replace(ended, producer_id=prepared.next_producer_id, epoch=0)

        def retry(error: object) -> None:
            self._report_once(
                transactional_id, f"markers of {transactional_id} could not be written; retrying: {error}"
            )
            self.timers.schedule(
                _timer_key(transactional_id), now_ms + RETRY_MS, partial(self._retry, prepared), retry_ms=RETRY_MS
            )

        if errors:
            retry(errors[0])
            return Result()
        result = self._put(ended, now_ms, then=self._report_end)
        result.on_failed = lambda code: retry(ErrorCode(code).name)
        return result

    def _retry(self, prepared: Transaction, now_ms: int) -> Result[Producer]:
        self._complete_soon(prepared)
        return Result()

    def _report_end(self, ended: Transaction) -> None:
        if ended.transactional_id in self._failed:
            self._failed.discard(ended.transactional_id)
            self.host.note(f"markers of {ended.transactional_id} were written")

    def _report_once(self, transactional_id: str, text: str) -> None:
        if transactional_id not in self._failed:
            self._failed.add(transactional_id)
            self.host.note(text)

    def _set_timer(self, found: Transaction) -> None:
        self.timers.schedule(
            _timer_key(found.transactional_id),
            found.start_ms + found.timeout_ms,
            partial(self._time_out, found.transactional_id),
            retry_ms=RETRY_MS,
        )

    def _time_out(self, transactional_id: str, now_ms: int) -> Result[Producer]:
        """Abort the transaction after its timeout, and fence the producer."""
        found = self.by_id.get(transactional_id)
        if found is None or found.status is not Status.ONGOING:
            return Result()
        failed = f"transaction {transactional_id} could not be aborted; retrying: "
        try:
            result = self._end(self._raised(found), now_ms, commit=False)
        except ApiError as error:  # no new producer id
            self._report_once(transactional_id, f"{failed}{error}")
            raise
        result.on_failed = lambda code: self._report_once(transactional_id, f"{failed}{ErrorCode(code).name}")
        return result

    def _put(
        self, found: Transaction, now_ms: int, *, then: Callable[[Transaction], None] | None = None
    ) -> Result[Producer]:
        """Write the state of a transactional id, which takes effect when it is written."""
        was = self.by_id.get(found.transactional_id)
        previous = found.producer_id if was is None else was.producer_id
        found = replace(found, updated_ms=now_ms, previous_producer_id=previous)

        def appended() -> None:
            self.by_id[found.transactional_id] = found
            if then is not None:
                then(found)

        return Result(
            response=(found.producer_id, found.epoch),
            records=[record_of(found, self.host.record_version)],
            replay=False,  # records do not have all fields
            on_appended=appended,
        )

    # ---- the interface of `Shard`

    def replay(
        self,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord,
        *,
        offset: int = -1,
        producer_id: int | None = -1,
        strict: bool = False,
    ) -> None:
        """Apply a record of the log, skipping unknown ones as Kafka does.

        Raises `ReplayError` for an unknown transaction state.
        """
        known = as_kafka_reads(record)
        if known is None or not isinstance(known.key, TransactionLogKey):
            return
        if isinstance(known.value, TransactionLogValue):
            try:
                self.by_id[known.key.transactional_id] = transaction_of(known.key, known.value)
            except ValueError as error:
                raise ReplayError(f"offset {offset:,}: {error}") from None
        else:
            self.by_id.pop(known.key.transactional_id, None)

    def written(self) -> None:
        """Do nothing, as no state depends on writes."""

    def not_written(self, records: Sequence[CoordinatorRecord]) -> None:
        """Do nothing: the operation handles a failed write."""

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Do nothing, as no transaction writes to this topic."""

    def loaded(self, now_ms: int) -> Result[None]:
        """Resume ending transactions, and start the timeouts of open ones."""
        for found in self.by_id.values():
            if found.status in COMPLETION_OF:
                self._complete_soon(found)
            elif found.status is Status.ONGOING:
                self._set_timer(found)
        return Result()

    def unloaded(self) -> None:
        """Drop pending tasks, as another broker becomes the coordinator."""
        self._unloaded = True
        self.tasks.clear()

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        """Set the image; no transaction depends on metadata."""
        self.image = image
        return delta or MetadataDelta.between(image, image), []

    def clean_up(self, now_ms: int) -> Result[None]:
        """Expire idle ids without a transaction after `transactional.id.expiration.ms`."""
        before_ms = now_ms - self.host.expiration_ms
        idle = [
            one.transactional_id
            for one in self.by_id.values()
            if one.status not in (Status.ONGOING, *COMPLETION_OF) and one.updated_ms <= before_ms
        ]
        return Result(records=[tombstone_of(one) for one in idle], atomic=False)


def _timer_key(transactional_id: str) -> str:
    return f"transaction-{transactional_id}"


def _may_resume(found: Transaction, producer_id: int, epoch: int) -> bool:
    """Return whether a producer may continue with its id and epoch (KIP-360)."""
    if producer_id == found.producer_id:
        return epoch in (found.epoch, found.last_epoch)
    return producer_id == found.previous_producer_id
