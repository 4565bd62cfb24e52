"""A coordinator's records as record batches, as Kafka's brokers write them, and back. Where the batches are kept is not known here."""

from collections.abc import Iterator, Sequence

from quorate.codecs import CoordinatorRecord, LogError, decode_record, encode_record
from quorate.codecs.batches import Batch, BatchProblem, BatchRecord, control_record, encode_batch
from quorate.codecs.batches.v2 import HEADER_BYTES
from quorate.codecs.batches.writer import record_bytes
from quorate.coordinator.log import StoredMarker, StoredRecord

__all__ = ["batch_of", "in_batches", "stored_in"]


def batch_of(
    records: Sequence[CoordinatorRecord],
    *,
    first_offset: int,
    timestamp_ms: int,
    producer_id: int,
    producer_epoch: int,
    leader_epoch: int,
    base_sequence: int = 0,
) -> bytes:
    """One batch, transactional with a producer id. `base_sequence`: group coordinators write 0, with and without a producer."""
    pairs = [encode_record(record) for record in records]
    return encode_batch(
        [
            BatchRecord(offset=first_offset + index, timestamp_ms=timestamp_ms, key=key, value=value)
            for index, (key, value) in enumerate(pairs)
        ],
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        base_sequence=base_sequence,
        transactional=producer_id >= 0,
        partition_leader_epoch=leader_epoch,
    )


def in_batches(records: Sequence[CoordinatorRecord], max_bytes: int) -> Iterator[Sequence[CoordinatorRecord]]:
    """Records that need not be in one batch, in batches of at most `max_bytes`, each as full as it can be.

    So Kafka's runtime writes what is not atomic: the offsets and groups whose time is over, and those of deleted topics.
    One record that is larger alone is in a batch alone.
    """
    begin, size = 0, HEADER_BYTES
    for index, record in enumerate(records):
        key, value = encode_record(record)
        here = BatchRecord(offset=0, timestamp_ms=0, key=key, value=value)
        more = record_bytes(here, offset_delta=index - begin)
        if size + more > max_bytes and index > begin:
            yield records[begin:index]
            begin, size = index, HEADER_BYTES
            more = record_bytes(here, offset_delta=0)
        size += more
    yield records[begin:]


def stored_in(batch: Batch, *, topic: str, place: object) -> Iterator[StoredRecord | StoredMarker]:
    """The records of a batch, or its marker. Raises `LogError` for what is none; `place` is what it calls the log."""
    header = batch.header
    producer = (header.producer_id, header.producer_epoch) if header.transactional else (-1, -1)
    for record in batch.records():
        if isinstance(record, BatchProblem):
            raise LogError(f"{place}, position {record.position:,}: {record.detail}; restore the file from a copy")
        if not header.control:
            yield StoredRecord(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                record=decode_record(record.key, record.value, topic=topic),
                producer_id=producer[0],
                producer_epoch=producer[1],
            )
            continue
        commit = control_record(record.key, record.value).commits
        if commit is not None:  # leaders leave other control records in logs of brokers
            yield StoredMarker(
                offset=record.offset,
                timestamp_ms=record.timestamp_ms,
                producer_id=producer[0],
                producer_epoch=producer[1],
                commit=commit,
            )
