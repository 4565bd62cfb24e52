"""Records in the versions that Kafka writes."""

from collections.abc import Callable
from functools import cache

from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.message import CONSUMER_OFFSETS, Message
from quorate.codecs.message_methods import positional
from quorate.codecs.messages import RECORD_TYPES
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.coordinator.config import CoordinatorConfig

_WRITTEN: dict[type[Message], int | None] = {
    kind.messages[0]: kind.written for kind in RECORD_TYPES[CONSUMER_OFFSETS].values()
}


def written(key: Message, value: Message) -> CoordinatorRecord:
    """Return a record in the value version that Kafka 4.4 writes.

    Raises `ValueError` for a type that Kafka no longer writes.
    """
    version = _WRITTEN[type(key)]
    if version is None:
        raise ValueError(f"{type(key).__name__} is only read and deleted, not written")
    return CoordinatorRecord(key=key, value=value, version=version)


def tombstone(key: Message) -> CoordinatorRecord:
    """Return the record that deletes the key."""
    return CoordinatorRecord(key=key, value=None, version=None)


@cache
def _makers() -> tuple[Callable[..., Message], Callable[..., Message], Callable[..., CoordinatorRecord]]:
    """Return functions that create the key, the value and the record of a committed offset."""
    fields = ("offset", "leader_epoch", "metadata", "commit_timestamp", "expire_timestamp", "topic_id")
    return (
        positional(OffsetCommitKey, "group", "topic", "partition"),
        positional(OffsetCommitValue, *fields),
        positional(CoordinatorRecord, "key", "value", "version"),
    )


def offset_commit(
    config: CoordinatorConfig,
    group: str,
    topic: str,
    partition: int,
    offset: int,
    leader_epoch: int,
    metadata: str,
    commit_timestamp_ms: int,
    expire_timestamp_ms: int = -1,
    topic_id: Uuid = Uuid.ZERO,
) -> CoordinatorRecord:
    """Return the record of a committed offset.

    Its version is 1 with an expire timestamp, else 4, with the topic id; 3 before Kafka 4.1.
    """
    make_key, make_value, make_record = _makers()
    usual = 4 if config.behaviour.topic_ids else 3
    return make_record(
        make_key(group, topic, partition),
        make_value(offset, leader_epoch, metadata, commit_timestamp_ms, expire_timestamp_ms, topic_id),
        1 if expire_timestamp_ms >= 0 else usual,
    )


def empty_classic_group(group: str, now_ms: int) -> CoordinatorRecord:
    """Return the record that creates a classic group without members."""
    return written(
        GroupMetadataKey(group=group),
        GroupMetadataValue(
            protocol_type="", generation=0, protocol=None, leader=None, current_state_timestamp=now_ms, members=()
        ),
    )
