"""`TransactionShard`: the transaction coordinator of one partition of `__transaction_state` (KIP-98, KIP-360, KIP-890).

A change is a record that is written first. A transaction ends in three steps: the decision is
written, then the markers in the transaction's partitions, then that it has ended. From the decision
on it does end: what fails is tried again, also by the next leader, which aborts transactions whose
time is over, too.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

from quorate.codecs import CoordinatorRecord, MalformedRecord, UnknownRecord, as_kafka_reads
from quorate.codecs.message import Message
from quorate.codecs.messages.transaction import TransactionLogKey, TransactionLogValue
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.log import AppendError
from quorate.coordinator.results import RequestContext, Result, Task
from quorate.coordinator.state.groups import ReplayError
from quorate.coordinator.timers import Timers
from quorate.coordinator.transactions.records import (
    ENDED,
    Status,
    Transaction,
    record_of,
    tombstone_of,
    transaction_of,
)

if TYPE_CHECKING:
    from quorate.codecs.log.raw import RawBlock

__all__ = ["TransactionHost", "TransactionShard"]

RETRY_MS = 100
"""What could not be written is tried again so often."""

_LAST_EPOCH = 0x7FFF - 1

Producer = tuple[int, int]
"""A producer's id and epoch."""


class TransactionHost(Protocol):
    """What transaction coordinators get from the process that hosts them."""

    @property
    def record_version(self) -> int:
        """The version of records: 1 if the feature `transaction.version` is at least 1, else 0."""

    @property
    def most_timeout_ms(self) -> int:
        """`transaction.max.timeout.ms`."""

    @property
    def expiration_ms(self) -> int:
        """`transactional.id.expiration.ms`."""

    @property
    def behaviour(self) -> Behaviour:
        """What the release of Kafka does."""

    def new_producer_id(self) -> int:
        """An id that no producer has had. Raises `ApiError`."""

    def write_markers(self, transaction: Transaction, coordinator_epoch: int) -> None:
        """Write the markers of a transaction that is about to end, to all of its partitions.

        Raises `AppendError`.
        """

    def note(self, text: str) -> None:
        """Tell the owner."""


@dataclass
class TransactionShard:
    """What is known of the transactional ids of a partition.

    `coordinator_epoch`: the leader epoch, which markers have.
    """

    host: TransactionHost
    coordinator_epoch: int = 0
    image: MetadataImage = MetadataImage.EMPTY
    reads_columns = False

    def __post_init__(self) -> None:
        self.by_id: dict[str, Transaction] = {}
        self.timers = Timers()
        self.tasks: deque[Task] = deque()
        self._failed: set[str] = set()  # of which the owner knows that something could not be written

    # ---- what producers ask for

    def fence(self, transactional_id: str, timeout_ms: int, producer: Producer, now_ms: int) -> Result[None]:
        """The first step of InitProducerId: end the open transaction of those that had the id before.

        Raises `ApiError`.
        """
        if not 0 < timeout_ms <= self.host.most_timeout_ms:
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
        """The second step of InitProducerId: a producer begins.

        Gives its id and epoch. Raises `ApiError`.
        """
        producer_id, epoch = producer
        found = self.by_id.get(transactional_id)
        if found is None:
            fresh = self.host.new_producer_id()
            found = Transaction(transactional_id=transactional_id, producer_id=fresh, epoch=-1, timeout_ms=timeout_ms)
        elif found.status in ENDED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)  # the markers are yet to come; clients ask again
        if producer_id < 0 or producer_id != found.producer_id or epoch != found.last_epoch:
            found = self._raised(found)  # else the same request again: the producer did not get the response
            if producer_id < 0:  # a new producer, so that the one before it is fenced (KIP-360)
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
        """Partitions that the transaction writes to, which begins with them.

        Raises `ApiError`. `version`: of transactions, that the client knows.
        """
        found = self._checked(transactional_id, producer)
        if found.status in ENDED:
            raise ApiError(ErrorCode.CONCURRENT_TRANSACTIONS)
        begins = found.status is not Status.ONGOING
        known = () if begins else found.partitions
        already = frozenset(known)
        more = tuple(one for one in dict.fromkeys(partitions) if one not in already)
        if not more and not begins:  # naming none begins a transaction, too
            return Result(response=producer)
        start_ms = now_ms if begins else found.start_ms
        return self._put(
            replace(found, status=Status.ONGOING, partitions=(*known, *more), start_ms=start_ms, version=version),
            now_ms,
            then=self._set_timer if begins else None,
        )

    def check_open(self, transactional_id: str, producer: Producer, where: tuple[str, int]) -> None:
        """Raises `ApiError` unless the producer's open transaction has the partition (KIP-890)."""
        found = self._checked(transactional_id, producer)
        if found.status is not Status.ONGOING or where not in found.partitions:
            raise ApiError(ErrorCode.TRANSACTION_ABORTABLE)

    def end(
        self, transactional_id: str, producer: Producer, now_ms: int, *, commit: bool, raise_epoch: bool
    ) -> Result[Producer]:
        """EndTxn: commit or abort.

        Gives the producer's id and epoch from now on. With `raise_epoch` the epoch goes up with
        each end (KIP-890). Raises `ApiError`.
        """
        producer_id, epoch = producer
        found = self.by_id.get(transactional_id)
        if found is None:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        # Whoever repeats a request that raised the epoch has the epoch before it, or the id before
        # it, with its last epoch.
        rotated = producer_id == found.previous_producer_id and epoch == _LAST_EPOCH and found.epoch == 0
        again = raise_epoch and (rotated or epoch == found.epoch - 1)
        if producer_id != found.producer_id and not (again and rotated):
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        ending, has_ended = found.status in ENDED, found.status in ENDED.values()
        # Of an end under way that is repeated the epoch was raised already; another end has to wait
        # for it.
        expected = found.epoch - 1 if ending and raise_epoch else found.epoch
        if epoch != expected and not (has_ended and again):
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        if ending:
            raise ApiError(
                ErrorCode.CONCURRENT_TRANSACTIONS if found.commits is commit else ErrorCode.INVALID_TXN_STATE
            )
        if has_ended and (again or not raise_epoch):
            if found.status is not (Status.COMPLETE_COMMIT if commit else Status.COMPLETE_ABORT):
                raise ApiError(ErrorCode.INVALID_TXN_STATE)
            return Result(response=(found.producer_id, found.epoch))
        if found.status is Status.ONGOING:
            found = replace(self._raised(found), version=2) if raise_epoch else replace(found, version=0)
        elif raise_epoch and not commit:  # an abort without a transaction (KIP-890)
            found = replace(self._raised(found), partitions=(), start_ms=now_ms, version=2)
        else:
            raise ApiError(ErrorCode.INVALID_TXN_STATE)
        return self._end(found, now_ms, commit=commit)

    # ---- the steps

    def _checked(self, transactional_id: str, producer: Producer) -> Transaction:
        found = self.by_id.get(transactional_id)
        if found is None or found.producer_id != producer[0]:
            raise ApiError(ErrorCode.INVALID_PRODUCER_ID_MAPPING)
        if found.epoch != producer[1]:
            raise ApiError(ErrorCode.PRODUCER_FENCED)
        return found

    def _raised(self, found: Transaction) -> Transaction:
        """With the next epoch, or another producer id when there is none."""
        if found.epoch >= _LAST_EPOCH:
            return replace(found, producer_id=self.host.new_producer_id(), epoch=0, last_epoch=found.epoch)
        return replace(found, epoch=found.epoch + 1, last_epoch=found.epoch)

    def _end(self, found: Transaction, now_ms: int, *, commit: bool) -> Result[Producer]:
        """The decision. The markers follow when it is written."""
        was = self.by_id[found.transactional_id]
        prepared = replace(found, status=Status.PREPARE_COMMIT if commit else Status.PREPARE_ABORT)
        if prepared.producer_id != was.producer_id:
            # The old id wrote the records, so the markers have it, with its very last epoch; the
            # new one counts after them (KIP-890).
            prepared = replace(
                prepared, producer_id=was.producer_id, epoch=_LAST_EPOCH + 1, next_producer_id=prepared.producer_id
            )
        result = self._put(prepared, now_ms, then=self._complete_soon)
        result.response = (found.producer_id, found.epoch)
        return result

    def _complete_soon(self, prepared: Transaction) -> None:
        self.timers.cancel(_timer_key(prepared.transactional_id))
        self.tasks.append(Task(name="markers", operation=partial(self._complete, prepared.transactional_id)))

    def _complete(self, transactional_id: str, now_ms: int) -> Result[Producer]:
        """Write the markers, then that the transaction has ended.

        If that fails, it is tried again in a moment; the owner is told once.
        """
        prepared = self.by_id.get(transactional_id)
        if prepared is None or prepared.status not in ENDED:
            return Result()
        ended = replace(prepared, status=ENDED[prepared.status], partitions=(), next_producer_id=-1)
        if prepared.next_producer_id >= 0:
            ended = replace(ended, producer_id=prepared.next_producer_id, epoch=0)

        def again(error: object) -> None:
            self._tell_once(
                transactional_id, f"markers of {transactional_id} could not be written, and will be: {error}"
            )
            self.timers.schedule(
                _timer_key(transactional_id),
                now_ms + RETRY_MS,
                partial(self._complete, transactional_id),
                retry_ms=RETRY_MS,
            )

        try:
            self.host.write_markers(prepared, self.coordinator_epoch)
        except AppendError as error:
            again(error)
            return Result()
        result = self._put(ended, now_ms, then=self._tell_of_end)
        result.on_failed = lambda code: again(ErrorCode(code).name)
        return result

    def _tell_of_end(self, ended: Transaction) -> None:
        if ended.transactional_id in self._failed:
            self._failed.discard(ended.transactional_id)
            self.host.note(f"markers of {ended.transactional_id} are written")

    def _tell_once(self, transactional_id: str, text: str) -> None:
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
        """The transaction took longer than its producer said: it is aborted, and the producer fenced."""
        found = self.by_id.get(transactional_id)
        if found is None or found.status is not Status.ONGOING:
            return Result()
        failed = f"transaction {transactional_id} could not be aborted, and will be: "
        try:
            result = self._end(self._raised(found), now_ms, commit=False)
        except ApiError as error:  # no other producer id is to be had
            self._tell_once(transactional_id, f"{failed}{error}")
            raise
        result.on_failed = lambda code: self._tell_once(transactional_id, f"{failed}{ErrorCode(code).name}")
        return result

    def _put(
        self, found: Transaction, now_ms: int, *, then: Callable[[Transaction], None] | None = None
    ) -> Result[Producer]:
        """Write what is known of an id from now on, and know it when that is written."""
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
            replay=False,  # records do not tell all of it
            on_appended=appended,
        )

    # ---- what a runtime asks of a shard

    def handle(self, request: Message, context: RequestContext) -> Result[Any]:
        """There are no requests: the broker's APIs call the methods above (`PartitionRuntime.run`)."""
        raise KeyError(type(request).__name__)

    def failed(self, request: Message, context: RequestContext, code: ErrorCode, message: str) -> NoReturn:
        """See `handle`."""
        raise KeyError(type(request).__name__)

    def replay(
        self,
        record: CoordinatorRecord | UnknownRecord | MalformedRecord,
        *,
        offset: int = -1,
        producer_id: int | None = -1,
        strict: bool = False,
    ) -> None:
        """Apply a record of the log.

        Raises `ReplayError` for a status that does not exist. As Kafka's, it skips what it does not
        know.
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

    def replay_columns(self, blocks: "Iterator[RawBlock]") -> None:
        """See `reads_columns`."""
        raise NotImplementedError

    def written(self) -> None:
        """Nothing is kept for failed writes."""

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        """Nobody commits to this topic in a transaction."""

    def loaded(self, now_ms: int) -> Result[None]:
        """Transactions that were about to end go on ending, and open ones time out."""
        for found in self.by_id.values():
            if found.status in ENDED:
                self._complete_soon(found)
            elif found.status is Status.ONGOING:
                self._set_timer(found)
        return Result()

    def unloaded(self) -> None:
        """Another broker coordinates the partition from now on."""
        self.tasks.clear()

    def take_image(
        self, image: MetadataImage, now_ms: int, delta: MetadataDelta | None = None
    ) -> tuple[MetadataDelta, list[Result[None]]]:
        """Transactions do not depend on metadata."""
        self.image = image
        return delta or MetadataDelta.between(image, image), []

    def clean_up(self, now_ms: int) -> Result[None]:
        """Forget ids that nobody used for `transactional.id.expiration.ms`, unless their transaction is open."""
        before_ms = now_ms - self.host.expiration_ms
        idle = [
            one.transactional_id
            for one in self.by_id.values()
            if one.status not in (Status.ONGOING, *ENDED) and one.updated_ms <= before_ms
        ]
        return Result(records=[tombstone_of(one) for one in idle], atomic=False)


def _timer_key(transactional_id: str) -> str:
    return f"transaction-{transactional_id}"


def _may_resume(found: Transaction, producer_id: int, epoch: int) -> bool:
    """KIP-360: a producer that knows its id and epoch may go on with them."""
    if producer_id == found.producer_id:
        return epoch in (found.epoch, found.last_epoch)
    return producer_id == found.previous_producer_id
