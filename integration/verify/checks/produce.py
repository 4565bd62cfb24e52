"""Produce: what brokers accept, and sequence numbers of idempotent producers."""

from typing import Any

from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.checks.fetch import read
from quorate.integration.verify.messages import batch_of
from quorate.integration.verify.session import CheckSession


def to_partition(topic: str, records: bytes | None, partition: int = 0, **more: Any) -> dict[str, Any]:
    """Return the fields of a Produce request with one batch."""
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return {"acks": -1, "timeout_ms": 10_000, "topic_data": data, **more}


def idempotent(s: CheckSession) -> dict[str, Any]:
    """Get a producer id; returns the fields of a batch."""
    response = s.ask("InitProducerId", 4, compared=False, transactional_id=None, transaction_timeout_ms=1)
    return {"producer_id": response.producer_id, "producer_epoch": response.producer_epoch}


@check("Kafka protocol guide", "Records get consecutive offsets, and the response has the first of a batch.")
def offsets_are_consecutive(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a", b"b")
    s.produce(topic, b"c")
    read(s, topic, records=3)


@check("Kafka protocol guide", "Acks other than -1, 0 and 1 are an INVALID_REQUIRED_ACKS; with 0 there is no response.")
def acks_have_to_be_valid(s: CheckSession) -> None:
    topic = s.topic()
    for acks in (1, 2, -2):
        s.ask("Produce", 9, **to_partition(topic, batch_of(b"a"), acks=acks))
    s.ask("Produce", 9, **to_partition(topic, batch_of(b"b"), acks=0))
    read(s, topic, records=2)


@check("Kafka protocol guide", "A batch for a missing topic or partition is an UNKNOWN_TOPIC_OR_PARTITION.")
def partition_has_to_exist(s: CheckSession) -> None:
    topic = s.topic()
    s.ask("Produce", 9, **to_partition(s.name("none"), batch_of(b"a")))
    s.ask("Produce", 9, **to_partition(topic, batch_of(b"a"), 7))
    s.ask("Produce", 9, **to_partition(topic, batch_of(b"a"), -1))


@check("KIP-98", "A batch with a wrong CRC is a CORRUPT_MESSAGE.")
def checksum_has_to_be_right(s: CheckSession) -> None:
    topic = s.topic()
    records = bytearray(batch_of(b"abc"))
    records[-2] ^= 1
    s.ask("Produce", 9, **to_partition(topic, bytes(records)))


@check("KIP-98", "Two batches for one partition are an INVALID_RECORD, as is none.")
def one_batch_per_partition(s: CheckSession) -> None:
    topic = s.topic()
    s.ask("Produce", 9, **to_partition(topic, batch_of(b"a") + batch_of(b"b")))
    s.ask("Produce", 9, **to_partition(topic, b""))


@check("Kafka protocol guide", "A batch above max.message.bytes is a MESSAGE_TOO_LARGE.")
def batch_has_a_maximum_size(s: CheckSession) -> None:
    topic = s.topic(max__message__bytes="1000")
    s.produce(topic, b"x" * 2000)
    s.produce(topic, b"x" * 500)


@check("KIP-135", "A record without a key in a compacted topic is an INVALID_RECORD.")
def compacted_topics_need_keys(s: CheckSession) -> None:
    topic = s.topic(cleanup__policy="compact")
    s.produce(topic, b"a")
    s.produce(topic, b"a", key=b"k")


@check("KIP-937", "A timestamp after message.timestamp.after.max.ms is an INVALID_TIMESTAMP.")
def timestamp_must_not_be_far_in_the_future(s: CheckSession) -> None:
    topic = s.topic(message__timestamp__after__max__ms="3600000")
    s.produce(topic, b"a", timestamp_ms=4_000_000_000_000)
    s.produce(topic, b"a")


@check("KIP-32", "With LogAppendTime the response has the broker's timestamp, else -1.")
def brokers_timestamp_is_returned(s: CheckSession) -> None:
    s.produce(s.topic(message__timestamp__type="LogAppendTime"), b"a")
    s.produce(s.topic(), b"a")


@check("KIP-98", "A batch with a sequence number that was stored returns the offset that it has.")
def batch_is_stored_once(s: CheckSession) -> None:
    topic, own = s.topic(), idempotent(s)
    for value, sequence in ((b"a", 0), (b"b", 1), (b"b", 1), (b"a", 0)):
        s.produce(topic, value, base_sequence=sequence, **own)
    read(s, topic, records=2)


@check("KIP-98", "A batch that skips sequence numbers is an OUT_OF_ORDER_SEQUENCE_NUMBER.")
def sequence_must_not_have_gaps(s: CheckSession) -> None:
    topic, own = s.topic(), idempotent(s)
    s.produce(topic, b"a", base_sequence=0, **own)
    s.produce(topic, b"b", base_sequence=5, **own)
    s.produce(topic, b"b", base_sequence=1, **own)


@check("KIP-360", "A producer without state in the partition may begin at any sequence number.")
def first_sequence_of_an_unknown_producer(s: CheckSession) -> None:
    topic, own = s.topic(), idempotent(s)
    s.produce(topic, b"a", base_sequence=7, **own)


@check("KIP-98", "After its epoch was incremented, a producer begins at sequence number 0.")
def new_epoch_begins_at_sequence_0(s: CheckSession) -> None:
    topic, own = s.topic(), idempotent(s)
    s.produce(topic, b"a", base_sequence=0, **own)
    newer = {**own, "producer_epoch": own["producer_epoch"] + 1}
    s.produce(topic, b"b", base_sequence=3, **newer)
    s.produce(topic, b"b", base_sequence=0, **newer)
    s.produce(topic, b"c", base_sequence=1, **own)


@check("KIP-110", "gzip, snappy, lz4 and zstd batches are accepted and returned.")
def compressed_batches_are_accepted(s: CheckSession) -> None:
    for codec in ("gzip", "snappy", "lz4", "zstd"):
        topic = s.topic()
        s.produce(topic, b"a" * 50, b"b", compression=codec)
        read(s, topic, records=2)


@check("KIP-664", "DescribeProducers returns the producers of a partition with their last sequence numbers.")
def producers_are_described(s: CheckSession) -> None:
    topic, own = s.topic(), idempotent(s)
    s.produce(topic, b"a", b"b", base_sequence=0, **own)
    s.ask("DescribeProducers", 0, topics=[{"name": topic, "partition_indexes": [0, 4]}])


CHECKS = checks_in(globals())
