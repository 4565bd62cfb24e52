"""Partitions and offsets of a coordinator topic on a running cluster, with retries.

The topic is requested by name. kafka-python's own list of all topics is empty alike for a topic
that does not exist, one that may not be described, and one that is being created. Its consumer may
also raise the error of another caller's request. Knows nothing about records.
"""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.codecs.live_connect import LiveError, explain_error

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

RETRY_S: Final = 0.2
_MISSING_S: Final = 1.0
"""A new topic is not known to every broker at once.

A topic that is still unknown after this time does not exist.
"""
T = TypeVar("T")


def topic_partitions(
    client: "KafkaNetClient", topic: str, numbers: Collection[int] | None, where: str, timeout_ms: int
) -> list[int]:
    """Return the partitions of a topic in order, or those in `numbers`.

    Retries for up to `timeout_ms` while no leader is known or brokers do not respond. `where`
    names the cluster in messages. Raises `LiveError` if the topic or one of `numbers` does not
    exist, if describing it is not allowed, or after the timeout.
    """
    started = time.monotonic()
    try:
        known = retried(lambda: _partitions(client, topic, where, started, timeout_ms), timeout_ms)
    except retriable_errors() as error:
        raise LiveError(
            f"{where}: the partitions of {topic} are not known after {timeout_ms:,} ms: {explain_error(error)}; "
            "are enough brokers up?"
        ) from error
    missing = sorted(set(numbers or ()) - known)
    if missing:
        listed = ", ".join(map(str, missing))
        raise LiveError(f"{where}: {topic} has partitions 0 to {max(known)}, not {listed}")
    return sorted(known if numbers is None else set(numbers))


def _partitions(client: "KafkaNetClient", topic: str, where: str, started: float, timeout_ms: int) -> set[int]:
    """Send one metadata request and return the partitions.

    Raises `LiveError` if the topic is missing or access is denied, else the error of the response.
    """
    from kafka.errors import (
        LeaderNotAvailableError,
        TopicAuthorizationFailedError,
        UnknownTopicOrPartitionError,
        for_code,
    )
    from kafka.protocol.metadata import MetadataRequest

    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=topic)],
        allow_auto_topic_creation=False,
        include_cluster_authorized_operations=False,
        include_topic_authorized_operations=False,
    )
    manager: Any = client._manager
    response = manager.run(manager.send, request, None, timeout_ms)
    found = next(iter(response.topics), None)
    error = for_code(response.error_code or (found.error_code if found else 0))
    if error is TopicAuthorizationFailedError:
        raise LiveError(f"{where}: not allowed to describe {topic}; reading needs DESCRIBE and READ on it")
    if error is UnknownTopicOrPartitionError and time.monotonic() - started > _MISSING_S:
        raise LiveError(f"{where}: {topic} does not exist; brokers create it when the first group needs it")
    if error.errno:
        raise error(topic)
    if found is None or not found.partitions:
        raise LeaderNotAvailableError(topic)
    return {partition.partition_index for partition in found.partitions}


def offsets_of(
    lookup: Callable[..., "dict[TopicPartition, Any]"],
    partitions: "Collection[TopicPartition]",
    client: "KafkaNetClient",
    where: str,
    timeout_ms: int,
) -> "dict[TopicPartition, Any]":
    """Return the offsets that `lookup` finds for all of `partitions`.

    `lookup` is a method of kafka-python's consumer. Waits up to `timeout_ms` for leaders:
    kafka-python (3.0.12) omits partitions without a leader if others have one. Some of its methods
    raise KeyError then; for others such a partition looks like one without a matching record.

    Raises `LiveError`, which names the partitions without a leader, after the timeout, and
    `KafkaError` if a retry cannot help.
    """
    from kafka.errors import KafkaTimeoutError, LeaderNotAvailableError

    def once() -> "dict[TopicPartition, Any]":
        try:
            found = lookup(partitions, timeout_ms=timeout_ms)
        except KeyError:
            raise LeaderNotAvailableError from None
        if any(one is None and not _has_leader(client, at) for at, one in found.items()):
            raise LeaderNotAvailableError
        return found

    try:
        return retried(once, timeout_ms)
    except retriable_errors() as error:
        lost = sorted(at.partition for at in partitions if not _has_leader(client, at))
        if lost:
            listed = f"partition{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
            why = f"no leader for {listed}; are the brokers of their replicas up?"
        elif isinstance(error, (KafkaTimeoutError, LeaderNotAvailableError)):
            why = "their leaders do not respond; are their brokers up?"
        else:
            why = explain_error(error)
        topic = next(iter(partitions)).topic
        raise LiveError(f"{where}: no offsets of {topic} within {timeout_ms:,} ms: {why}") from error


def _has_leader(client: "KafkaNetClient", at: "TopicPartition") -> bool:
    """Whether the client knows a leader that is up."""
    return client.cluster.leader_for_partition(at) not in (None, -1)


def retried(request: Callable[[], T], timeout_ms: int) -> T:
    """Call `request` again after retriable errors until `timeout_ms` have passed.

    Raises the last error.
    """
    from kafka.errors import KafkaTimeoutError

    until = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return request()
        except KafkaTimeoutError:
            raise  # it has already waited that long
        except retriable_errors():
            if time.monotonic() >= until:
                raise
            time.sleep(RETRY_S)


def retriable_errors() -> "tuple[type[KafkaError], ...]":
    """Return the errors after which a retry may succeed.

    UnknownBrokerIdError is one of them: kafka-python raises it for a broker that left its metadata
    and may be back in the next response.
    """
    from kafka.errors import RetriableError, UnknownBrokerIdError

    return RetriableError, UnknownBrokerIdError
