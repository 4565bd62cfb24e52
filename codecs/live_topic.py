"""A coordinator topic on a running cluster: which partitions it has, and requests that are repeated while brokers are not ready to answer them.

Asks for the topic by name: kafka-python's own view of all topics is empty alike for a topic that
does not exist, one that may not be seen, and one that is being created, and its consumer may raise
the error of another caller's request. Knows neither offsets nor records.
"""

import time
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, Final, TypeVar

from quorate.codecs.live_connect import LiveError, explain_error

if TYPE_CHECKING:
    from kafka import TopicPartition
    from kafka.errors import KafkaError
    from kafka.net.compat import KafkaNetClient

__all__ = ["RETRY_S", "offsets_of", "passing_errors", "topic_partitions"]

RETRY_S: Final = 0.2
_MISSING_S: Final = 1.0
"""A topic that has just been created is not known to every broker yet; one that is still unknown
after this time does not exist.
"""
T = TypeVar("T")


def topic_partitions(
    client: "KafkaNetClient", topic: str, numbers: Collection[int] | None, where: str, timeout_ms: int
) -> list[int]:
    """The partitions of a topic in order, or of `numbers` those.

    Repeats the request for up to `timeout_ms` while no leader is known or brokers do not answer.
    Raises `LiveError` if the topic or one of `numbers` does not exist, if it may not be described,
    or if the time is over; `where` names the cluster in the message.
    """
    started = time.monotonic()
    try:
        there = retried(lambda: _partitions(client, topic, where, started, timeout_ms), timeout_ms)
    except passing_errors() as error:
        raise LiveError(
            f"{where}: the partitions of {topic} are not known after {timeout_ms:,} ms: {explain_error(error)}; "
            "are enough brokers up?"
        ) from error
    missing = sorted(set(numbers or ()) - there)
    if missing:
        listed = ", ".join(map(str, missing))
        raise LiveError(f"{where}: {topic} has partitions 0 to {max(there)}, not {listed}")
    return sorted(there if numbers is None else set(numbers))


def _partitions(client: "KafkaNetClient", topic: str, where: str, started: float, timeout_ms: int) -> set[int]:
    """One request.

    Raises `LiveError` if the topic is missing or not allowed, and otherwise its error.
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
        raise LiveError(
            f"{where}: there is no {topic} on this cluster; brokers create it when the first group needs it"
        )
    if error.errno:
        raise error(topic)
    if found is None or not found.partitions:
        raise LeaderNotAvailableError(topic)
    return {one.partition_index for one in found.partitions}


def offsets_of(
    ask: Callable[..., "dict[TopicPartition, Any]"],
    partitions: "Collection[TopicPartition]",
    client: "KafkaNetClient",
    where: str,
    timeout_ms: int,
) -> "dict[TopicPartition, Any]":
    """What `ask`, a method of kafka-python's consumer that looks up offsets, returns for all of `partitions`.

    Waits up to `timeout_ms` for leaders: kafka-python (3.0.12) leaves out partitions without one if
    others have one, which is a KeyError in some methods, and looks like a partition without such a
    record in others. Raises `LiveError`, which names the partitions without a leader, after that
    time; `KafkaError` for what no waiting helps.
    """
    from kafka.errors import KafkaTimeoutError, LeaderNotAvailableError

    def once() -> "dict[TopicPartition, Any]":
        try:
            found = ask(partitions, timeout_ms=timeout_ms)
        except KeyError:
            raise LeaderNotAvailableError from None
        if any(one is None and not _has_leader(client, at) for at, one in found.items()):
            raise LeaderNotAvailableError
        return found

    try:
        return retried(once, timeout_ms)
    except passing_errors() as error:
        lost = sorted(at.partition for at in partitions if not _has_leader(client, at))
        if lost:
            listed = f"partition{'s' if len(lost) > 1 else ''} {', '.join(map(str, lost))}"
            why = f"no leader for {listed}; are the brokers of their replicas up?"
        elif isinstance(error, (KafkaTimeoutError, LeaderNotAvailableError)):
            why = "their leaders do not answer; are their brokers up?"
        else:
            why = explain_error(error)
        topic = next(iter(partitions)).topic
        raise LiveError(f"{where}: no offsets of {topic} within {timeout_ms:,} ms: {why}") from error


def _has_leader(client: "KafkaNetClient", at: "TopicPartition") -> bool:
    """Whether the client knows a leader that is up."""
    return client.cluster.leader_for_partition(at) not in (None, -1)


def retried(ask: Callable[[], T], timeout_ms: int) -> T:
    """What `ask` returns, called again after errors that may pass, until `timeout_ms` are over.

    Raises the last error.
    """
    from kafka.errors import KafkaTimeoutError

    until = time.monotonic() + timeout_ms / 1000
    while True:
        try:
            return ask()
        except KafkaTimeoutError:
            raise  # it has waited as long already
        except passing_errors():
            if time.monotonic() >= until:
                raise
            time.sleep(RETRY_S)


def passing_errors() -> "tuple[type[KafkaError], ...]":
    """What another try may not meet. kafka-python takes a broker that has gone from its metadata, which comes back with the next, for one that never was."""
    from kafka.errors import RetriableError, UnknownBrokerIdError

    return RetriableError, UnknownBrokerIdError
