"""Fetch, ListOffsets, OffsetForLeaderEpoch and DeleteRecords."""

from typing import Any

from quorate.codecs import Uuid
from quorate.codecs.batches import BatchRecord, read_batches
from quorate.integration.verify.check import check, checks_in
from quorate.integration.verify.session import CheckSession

_UNKNOWN_ID = Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ")


def read(
    s: CheckSession, topic: str, *, offset: int = 0, records: int = 0, partition: int = 0, epoch: int = -1, **more: Any
) -> Any:
    """Fetch a partition, with at least so many records, and record the response."""
    wanted = {
        "partition": partition,
        "fetch_offset": offset,
        "partition_max_bytes": 1 << 20,
        "current_leader_epoch": epoch,
    }
    fields = {
        "max_wait_ms": 500,
        "min_bytes": 1,
        "session_epoch": -1,
        "topics": [{"topic": topic, "partitions": [wanted]}],
        **more,
    }
    return s.ask("Fetch", 12, until=(lambda response: _count(response) >= records) if records else None, **fields)


def _count(response: Any) -> int:
    total = 0
    for topic in response.responses:
        for partition in topic.partitions:
            for batch in read_batches(partition.records or b""):
                total += sum(isinstance(record, BatchRecord) for record in getattr(batch, "records", tuple)())
    return total


def offsets_at(topic: str, *timestamps: int, partition: int = 0, epoch: int = -1) -> dict[str, Any]:
    """Return the fields of ListOffsets of one partition."""
    partitions = [
        {"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": epoch}
        for timestamp in timestamps
    ]
    return {"replica_id": -1, "topics": [{"name": topic, "partitions": partitions}]}


@check("Kafka protocol guide", "A fetch outside the log is an OFFSET_OUT_OF_RANGE; at its end it is empty.")
def offset_has_to_be_in_the_log(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a")
    read(s, topic, offset=1, max_wait_ms=0)
    for offset in (2, -1):
        read(s, topic, offset=offset, max_wait_ms=0)


@check("Kafka protocol guide", "A fetch of a missing topic or partition is an UNKNOWN_TOPIC_OR_PARTITION.")
def fetched_partition_has_to_exist(s: CheckSession) -> None:
    read(s, s.name("none"), max_wait_ms=0)
    read(s, s.topic(), partition=5, max_wait_ms=0)


@check("KIP-74", "The first batch is returned even if it is larger than the limits of the fetch.")
def fetch_returns_at_least_one_batch(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"x" * 1000)
    s.produce(topic, b"y" * 1000)
    read(s, topic, max_bytes=10, records=1)


@check("KIP-320", "A newer leader epoch in a request is an UNKNOWN_LEADER_EPOCH.")
def leader_epoch_is_checked(s: CheckSession) -> None:
    topic = s.topic()
    read(s, topic, epoch=77, max_wait_ms=0)
    s.ask("ListOffsets", 7, **offsets_at(topic, -1, epoch=77))


@check(
    "KIP-227", "An unknown fetch session is a FETCH_SESSION_ID_NOT_FOUND, a wrong epoch INVALID_FETCH_SESSION_EPOCH."
)
def fetch_sessions_are_checked(s: CheckSession) -> None:
    topic = s.topic()
    created = read(s, topic, session_epoch=0, max_wait_ms=0)
    read(s, topic, session_id=999_999_999, session_epoch=1, max_wait_ms=0)
    read(s, topic, session_id=created.session_id, session_epoch=5, max_wait_ms=0)
    read(s, topic, session_id=created.session_id, session_epoch=1, max_wait_ms=0)


@check("KIP-516", "Since version 13 topics have ids; an id that does not exist is an UNKNOWN_TOPIC_ID.")
def topics_of_fetches_have_ids(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a")
    if s.target.versions[1][-1] < 13:
        return
    for topic_id in (s.target.topic_id(topic), _UNKNOWN_ID):
        wanted = [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}]
        topics = [{"topic_id": topic_id, "partitions": wanted}]
        s.ask("Fetch", 13, max_wait_ms=0, min_bytes=0, session_epoch=-1, topics=topics)


@check("KIP-79", "ListOffsets returns the first record at or after a timestamp, or none.")
def offsets_are_found_by_timestamp(s: CheckSession) -> None:
    topic = s.topic()
    for timestamp_ms in (1_000_000, 2_000_000, 3_000_000):
        s.produce(topic, b"a", timestamp_ms=timestamp_ms)
    for timestamp in (0, 1_500_000, 3_000_000, 3_000_001):
        s.ask("ListOffsets", 7, **offsets_at(topic, timestamp))


@check("KIP-79", "ListOffsets returns the earliest and the latest offset for -2 and -1.")
def ends_of_the_log_are_listed(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a", b"b")
    for timestamp in (-2, -1):
        s.ask("ListOffsets", 7, **offsets_at(topic, timestamp))


@check("KIP-734", "ListOffsets for -3 returns the record with the largest timestamp.")
def largest_timestamp_is_found(s: CheckSession) -> None:
    topic = s.topic()
    s.ask("ListOffsets", 7, **offsets_at(topic, -3))
    for timestamp_ms in (1_000_000, 3_000_000, 2_000_000):
        s.produce(topic, b"a", timestamp_ms=timestamp_ms)
    s.ask("ListOffsets", 7, **offsets_at(topic, -3))


@check("KIP-405", "ListOffsets for -4 returns the first offset that is stored locally.")
def local_log_start_is_listed(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a")
    s.ask("ListOffsets", 8, **offsets_at(topic, -4))


@check("KIP-79", "ListOffsets of a missing topic or partition is an UNKNOWN_TOPIC_OR_PARTITION.")
def listed_partition_has_to_exist(s: CheckSession) -> None:
    s.ask("ListOffsets", 7, **offsets_at(s.name("none"), -1))
    s.ask("ListOffsets", 7, **offsets_at(s.topic(), -1, partition=4))


@check("KIP-79", "ListOffsets that names a partition twice is an INVALID_REQUEST for it.")
def partition_is_listed_once(s: CheckSession) -> None:
    s.ask("ListOffsets", 7, **offsets_at(s.topic(), -1, -2))


@check("KIP-320", "OffsetForLeaderEpoch returns the end of an epoch; of an unknown one it is -1.")
def end_of_a_leader_epoch(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a", b"b")
    for epoch in (0, 5):
        partitions = [{"partition": 0, "leader_epoch": epoch}]
        s.ask("OffsetForLeaderEpoch", 4, replica_id=-1, topics=[{"topic": topic, "partitions": partitions}])


@check(
    "KIP-107", "DeleteRecords moves the start of the log; -1 means its end, offsets after it are OFFSET_OUT_OF_RANGE."
)
def records_can_be_deleted(s: CheckSession) -> None:
    topic = s.topic()
    s.produce(topic, b"a", b"b", b"c")
    for offset in (2, 1, 9, -1):
        partitions = [{"partition_index": 0, "offset": offset}]
        s.ask("DeleteRecords", 2, timeout_ms=10_000, topics=[{"name": topic, "partitions": partitions}])
    read(s, topic, offset=0, max_wait_ms=0)
    s.ask("ListOffsets", 7, **offsets_at(topic, -2))


@check("KIP-107", "DeleteRecords of a topic that is only compacted is a POLICY_VIOLATION.")
def records_of_compacted_topics_stay(s: CheckSession) -> None:
    topic = s.topic(cleanup__policy="compact")
    s.produce(topic, b"a", key=b"k")
    partitions = [{"partition_index": 0, "offset": 1}]
    s.ask("DeleteRecords", 2, timeout_ms=10_000, topics=[{"name": topic, "partitions": partitions}])


CHECKS = checks_in(globals())
