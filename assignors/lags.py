"""Lag sources of the `lag-aware` assignor: a mapping, a function, or the cluster.

A source belongs to one group: it knows the group id and the lag of partitions without a committed
offset. The group's leader calls it once per rebalance, for all partitions together. A source never
fails a rebalance: if it cannot read lags, it logs the cause and the remedy, and returns its
fallback.
"""

import logging
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal, Protocol, runtime_checkable

from quorate.assignors.topology import TopicPartition
from quorate.codecs.printable import brief, some_of

__all__ = ["AdminLags", "CallableLags", "Fallback", "LagSource", "Lags", "StaticLags", "as_lag_source", "lags_of"]

log = logging.getLogger(__name__)

Lags = Mapping[TopicPartition, int | None]
"""Partition → number of records after the committed offset; `None` or no entry if unknown."""

Fallback = Literal["last", "none"]
"""What a source returns if it cannot read lags.

`last`: the lags read last, if any; `none`: no lags.
"""


@runtime_checkable
class LagSource(Protocol):
    """A source of lags.

    `lags` may block (each source here has a time limit), so a program that must not block calls it
    in a thread.
    """

    def lags(self, partitions: Sequence[TopicPartition]) -> Lags:
        """Return the lags of these partitions, as far as they are known. Does not raise."""
        ...


def _partition(at: object) -> TopicPartition:
    if not isinstance(at, tuple) or len(at) != 2:
        raise TypeError(f"lags of {at!r}: the keys of the mapping are (topic, partition)")
    return TopicPartition(*at)


class StaticLags:
    """Fixed lags from a mapping of `(topic, partition)`. Raises `TypeError` for other keys."""

    def __init__(self, lags: Mapping[tuple[str, int], int | None]) -> None:
        self._lags: Lags = {_partition(at): lag for at, lag in lags.items()}

    def lags(self, partitions: Sequence[TopicPartition]) -> Lags:
        """Return all given lags, also those of other partitions."""
        return self._lags


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


def _check_names(bootstrap_servers: object, group_id: object) -> None:
    if not isinstance(bootstrap_servers, str | Sequence):
        raise ValueError(f"bootstrap_servers is {bootstrap_servers!r}: give HOST:PORT, or a list of such addresses")
    if not isinstance(group_id, str):
        raise ValueError(f"group_id is {group_id!r}: give the name of the group")


class _Guarded(ABC):
    """Base class of sources that read lags in a thread, with a time limit."""

    def __init__(self, *, timeout_ms: int, fallback: Fallback) -> None:
        if not _is_positive(timeout_ms):
            raise ValueError(f"timeout_ms is {timeout_ms!r}: give the time in ms that a rebalance may wait for lags")
        if fallback not in ("last", "none"):
            raise ValueError(f"unknown fallback {fallback!r}; use last or none")
        self.timeout_ms = timeout_ms
        self.fallback = fallback
        self._last: dict[TopicPartition, int | None] = {}
        self._reading: threading.Thread | None = None

    @abstractmethod
    def _read(self, partitions: Sequence[TopicPartition]) -> Mapping[tuple[str, int], int | None]:
        """Read the lags. May raise or block."""

    @abstractmethod
    def _remedy(self) -> str:
        """Return what to check after a failure, for the log."""

    def lags(self, partitions: Sequence[TopicPartition]) -> Lags:
        """Return the lags of these partitions, or the fallback.

        Returns within `timeout_ms` and never raises.
        """
        if not partitions:
            return {}
        if self._reading is not None and self._reading.is_alive():
            return self._fallback_lags("the previous read is still running")
        failed: list[BaseException] = []
        results: list[dict[TopicPartition, int | None]] = []

        def read() -> None:
            try:
                found = self._read(partitions)
                results.append({TopicPartition(*at): None if lag is None else int(lag) for at, lag in found.items()})
                self._last = results[0]  # even if it is too late for this rebalance
            except BaseException as error:  # noqa: BLE001  # from a client or a user's function; logged below
                failed.append(error)

        self._reading = threading.Thread(target=read, name="quorate-lags", daemon=True)
        self._reading.start()
        self._reading.join(self.timeout_ms / 1000)
        if results:
            return results[0]
        if failed:
            return self._fallback_lags(f"{type(failed[0]).__name__}: {failed[0]}")
        self._give_up()
        return self._fallback_lags(f"no response within {self.timeout_ms:,} ms")

    def _give_up(self) -> None:  # noqa: B027  # nothing to do unless the source holds resources
        """Release the resources of a read that exceeded the time limit."""

    def _fallback_lags(self, reason: str) -> Lags:
        known = self._last if self.fallback == "last" else {}
        log.warning(
            "lags could not be read (%s); partitions are assigned by %s; %s",
            brief(" ".join(reason.split()), 1_000),
            f"the {len(known):,} lags read last" if known else "partition counts only",
            self._remedy(),
        )
        return known


class CallableLags(_Guarded):
    """Lags from a function of the partitions.

    The function may raise or block; after `timeout_ms` the fallback is used. Raises `ValueError`
    for a time limit or fallback that is not valid.
    """

    def __init__(
        self,
        function: Callable[[Sequence[TopicPartition]], Mapping[tuple[str, int], int | None]],
        *,
        timeout_ms: int = 3_000,
        fallback: Fallback = "last",
    ) -> None:
        super().__init__(timeout_ms=timeout_ms, fallback=fallback)
        self.function = function

    def _read(self, partitions: Sequence[TopicPartition]) -> Mapping[tuple[str, int], int | None]:
        return self.function(partitions)

    def _remedy(self) -> str:
        name = getattr(self.function, "__qualname__", repr(self.function))
        return f"check {name}, which must return the lag of each partition in time"


class AdminLags(_Guarded):
    """Lags from the cluster, read with kafka-python's admin client.

    The lag is log end offset minus committed offset (KIP-169). For a partition without a committed
    offset it is 0 if `auto_offset_reset` is `latest`, otherwise the number of its records (log end
    minus log start offset).

    One read sends one OffsetFetch to the group's coordinator and one ListOffsets to each leader, or
    two if log start offsets are needed. The connection is opened and closed for each read.

    The fallback is used for partitions without a leader, for deleted topics, and for topics without
    DESCRIBE permission; the others are read. After any other failure it is used for all partitions.

    Raises `ValueError` for parameters that are not valid; further ones of the client are not
    checked.
    """

    def __init__(
        self,
        bootstrap_servers: str | Sequence[str],
        group_id: str,
        *,
        auto_offset_reset: str = "latest",
        timeout_ms: int = 3_000,
        fallback: Fallback = "last",
        **kafka_python_config: Any,
    ) -> None:
        super().__init__(timeout_ms=timeout_ms, fallback=fallback)
        _check_names(bootstrap_servers, group_id)
        reset = str(auto_offset_reset)
        if reset not in ("latest", "earliest", "none") and not reset.startswith("by_duration:"):
            raise ValueError(
                f"unknown auto_offset_reset {auto_offset_reset!r}; use latest, earliest, none, or by_duration: and an "
                "ISO 8601 duration"
            )
        self.bootstrap_servers = bootstrap_servers
        self.group_id = group_id
        self.auto_offset_reset = auto_offset_reset
        self.config = kafka_python_config
        self._clients: list[Any] = []

    def _read(self, partitions: Sequence[TopicPartition]) -> Mapping[tuple[str, int], int | None]:
        from kafka.admin import KafkaAdminClient, OffsetSpec
        from kafka.net.compat import KafkaNetClient
        from kafka.structs import TopicPartition as At

        until = time.monotonic() + self.timeout_ms / 1000
        self._clients = clients = []

        def client(**config: Any) -> Any:
            clients.append(KafkaNetClient(**config))
            return clients[-1]

        # A read that exceeds our time limit ends, in its own thread, by the client's time limit.
        limits = {
            "bootstrap_timeout_ms": self.timeout_ms,
            "request_timeout_ms": self.timeout_ms,
            "client_id": "quorate-lags",
        }
        try:
            admin = KafkaAdminClient(
                bootstrap_servers=self.bootstrap_servers, kafka_client=client, **{**limits, **self.config}
            )
        except BaseException:
            for one in clients:  # an admin client that fails to start leaves its thread and sockets open
                one.close()
            raise
        try:
            wanted = [At(topic, partition) for topic, partition in self._readable(admin, partitions)]
            committed = admin.list_group_offsets({self.group_id: wanted})[self.group_id]
            ends = admin.list_partition_offsets(dict.fromkeys(wanted, OffsetSpec.LATEST), timeout_ms=_left_ms(until))
            fresh = [at for at in wanted if at not in committed or committed[at].offset < 0]
            starts = {}
            if fresh and self.auto_offset_reset != "latest":
                found = admin.list_partition_offsets(
                    dict.fromkeys(fresh, OffsetSpec.EARLIEST), timeout_ms=_left_ms(until)
                )
                starts = {at: found[at].offset for at in fresh}
            else:
                starts = {at: ends[at].offset for at in fresh}
        finally:
            admin.close()
        found = lags_of(
            [TopicPartition(*at) for at in wanted],
            committed={at: one.offset for at, one in committed.items() if at not in starts},
            ends={at: one.offset for at, one in ends.items()},
            starts=starts,
        )
        lags: dict[tuple[str, int], int | None] = {at: found.get(at) for at in found}
        if self.fallback == "last" and len(lags) < len(partitions):
            lags = {at: self._last[at] for at in partitions if at in self._last} | lags
        return lags

    def _readable(self, admin: Any, partitions: Sequence[TopicPartition]) -> Sequence[tuple[str, int]]:
        """Return the partitions that have a leader.

        One partition without a leader would fail the whole ListOffsets request.
        """
        led = {
            (topic["name"], partition["partition_index"])
            for topic in admin.describe_topics(sorted({topic for topic, _ in partitions}))
            for partition in topic["partitions"]
            if partition["leader_id"] >= 0
        }
        readable = [at for at in partitions if at in led]
        if not readable:
            raise LookupError("no partition has a leader, or DESCRIBE is denied on all topics")
        if len(readable) < len(partitions):
            some = [f"{topic}-{partition}" for topic, partition in partitions if (topic, partition) not in led]
            log.warning(
                "lags of %s of %s partitions could not be read: no leader or no DESCRIBE permission (%s); "
                "check these topics and their ACLs",
                f"{len(some):,}",
                f"{len(partitions):,}",
                some_of(some),
            )
        return readable

    def _give_up(self) -> None:
        # In kafka-python 3.0 a TLS handshake without a response never ends. Closing may block, too.
        threading.Thread(target=_close, args=(list(self._clients),), name="quorate-lags-close", daemon=True).start()

    def _remedy(self) -> str:
        servers = (
            self.bootstrap_servers if isinstance(self.bootstrap_servers, str) else ",".join(self.bootstrap_servers)
        )
        return (
            f"check the brokers ({servers}), the security options, "
            f"and DESCRIBE on group {self.group_id} and its topics, "
            f"or raise timeout_ms ({self.timeout_ms:,})"
        )


def lags_of(
    partitions: Sequence[TopicPartition],
    *,
    committed: Mapping[Any, int],
    ends: Mapping[Any, int],
    starts: Mapping[Any, int],
) -> dict[TopicPartition, int]:
    """Return end minus committed offset (KIP-169); without a committed offset, end minus start.

    Partitions without an end offset are left out.
    """
    return {at: max(0, ends[at] - committed.get(at, starts.get(at, 0))) for at in partitions if at in ends}


def _close(clients: Sequence[Any]) -> None:
    for client in clients:
        # kafka-python raises RuntimeError if the reading thread, whose call has failed by now, is
        # closing the client as well.
        with suppress(RuntimeError):
            client.close()


def _left_ms(until: float) -> int:
    """Return the milliseconds left, at least 1: kafka-python replaces 0 by its default."""
    return max(1, int((until - time.monotonic()) * 1000))


def as_lag_source(
    lags: "LagSource | Mapping[tuple[str, int], int | None] | Callable[[Sequence[TopicPartition]], Any]",
) -> LagSource:
    """Convert a mapping or a function to a source; a source stays as it is. Raises `TypeError`."""
    if isinstance(lags, LagSource):
        return lags
    if isinstance(lags, Mapping):
        return StaticLags(lags)
    if callable(lags):
        return CallableLags(lags)
    raise TypeError(f"lags must be a mapping, a function or a LagSource, not {type(lags).__name__}")
