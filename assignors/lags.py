"""Where `lag-aware` gets lags from: a mapping, a function, or the cluster.

Knows nothing of assignment.

A source is made for one group: it knows by itself the group id and what a partition without a
committed offset counts as. The leader of a group asks it once per rebalance, for all partitions
together. A source never breaks a rebalance: when it cannot tell, it logs why and what to do, and
answers what its fallback says.
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
"""Records that are written and not yet committed as read, for each partition; `None`, or no entry:
not known.
"""

Fallback = Literal["last", "none"]
"""What a source answers when it cannot read lags: `last`: those that it read last, as far as it has
any; `none`: no lags.
"""


@runtime_checkable
class LagSource(Protocol):
    """Whatever tells lags.

    It may take its time (each of ours has a limit), so a program that must not wait asks it in a
    thread.
    """

    def lags(self, partitions: Sequence[TopicPartition]) -> Lags:
        """The lags of these partitions, as far as they are known. Does not raise."""
        ...


class StaticLags:
    """Lags that are given."""

    def __init__(self, lags: Mapping[tuple[str, int], int | None]) -> None:
        self._lags: Lags = {TopicPartition(*at): lag for at, lag in lags.items()}

    def lags(self, partitions: Sequence[TopicPartition]) -> Lags:
        """The lags that were given, also of partitions that were not asked for."""
        return self._lags


class _Guarded(ABC):
    """Reads lags in a thread of its own and waits for it no longer than its time limit."""

    def __init__(self, *, timeout_ms: int, fallback: Fallback) -> None:
        if timeout_ms <= 0:
            raise ValueError(f"timeout_ms is {timeout_ms}: give the time that a rebalance may wait for lags, in ms")
        if fallback not in ("last", "none"):
            raise ValueError(f"fallback {fallback!r} is not known; use last or none")
        self.timeout_ms = timeout_ms
        self.fallback = fallback
        self._last: dict[TopicPartition, int | None] = {}
        self._reading: threading.Thread | None = None

    @abstractmethod
    def _read(self, partitions: Sequence[TopicPartition]) -> Mapping[tuple[str, int], int | None]:
        """Read them; may raise or take for ever."""

    @abstractmethod
    def _remedy(self) -> str:
        """What is read, and where to look when that fails."""

    def lags(self, partitions: Sequence[TopicPartition]) -> Lags:
        """The lags of these partitions, or what the fallback says.

        Returns within `timeout_ms` and never raises.
        """
        if not partitions:
            return {}
        if self._reading is not None and self._reading.is_alive():
            return self._instead("the reading before this one has not ended yet")
        failed: list[BaseException] = []
        answered: list[dict[TopicPartition, int | None]] = []

        def read() -> None:
            try:
                found = self._read(partitions)
                answered.append({TopicPartition(*at): None if lag is None else int(lag) for at, lag in found.items()})
                self._last = answered[0]  # also when it comes too late for this rebalance
            except BaseException as error:  # noqa: BLE001  # whatever a client or a user's function raises: told below
                failed.append(error)

        self._reading = threading.Thread(target=read, name="quorate-lags", daemon=True)
        self._reading.start()
        self._reading.join(self.timeout_ms / 1000)
        if answered:
            return answered[0]
        if failed:
            return self._instead(f"{type(failed[0]).__name__}: {failed[0]}")
        self._give_up()
        return self._instead(f"no answer within {self.timeout_ms:,} ms")

    def _give_up(self) -> None:  # noqa: B027  # what ends by itself needs nothing
        """Nobody waits for the reading any more."""

    def _instead(self, reason: str) -> Lags:
        known = self._last if self.fallback == "last" else {}
        log.warning(
            "lags could not be read (%s), so partitions are assigned by %s; %s",
            brief(" ".join(reason.split()), 1_000),
            f"the {len(known):,} lags read last" if known else "their numbers only",
            self._remedy(),
        )
        return known


class CallableLags(_Guarded):
    """Lags from a function of the partitions.

    It may raise and take its time; after `timeout_ms` the fallback holds.
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
        return f"look at {name}, which is to return the lag of each partition in time"


class AdminLags(_Guarded):
    """Lags from the cluster, by kafka-python's admin client: log end offset minus committed offset, as KIP-169 defines it.

    A partition without a committed offset lags by 0 if `auto_offset_reset` is `latest`, and
    otherwise by all records that it has (end minus beginning). One OffsetFetch to the group's
    coordinator and one ListOffsets to each leader (two if beginnings are needed), whatever the
    number of partitions; the connection is opened for the reading and closed after it. `timeout_ms`
    limits all of it together. Further options (`security_protocol`, `ssl_cafile`, `sasl_mechanism`,
    …) are those of `KafkaAdminClient`. It needs DESCRIBE on the group and on the topics.

    For partitions that have no leader just now, and for topics that are gone or that may not be
    described, the fallback holds, and the others are read. Any other failure is one for all of
    them.
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

        # What outlives our time limit, in its own thread, ends by the client's.
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
            for one in clients:  # an admin client whose making fails leaves its thread and sockets behind
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
        """Those that have a leader to ask.

        One partition that has none would fail the whole ListOffsets.
        """
        led = {
            (topic["name"], partition["partition_index"])
            for topic in admin.describe_topics(sorted({topic for topic, _ in partitions}))
            for partition in topic["partitions"]
            if partition["leader_id"] >= 0
        }
        readable = [at for at in partitions if at in led]
        if not readable:
            raise LookupError("no partition has a leader, or no topic may be described")
        if len(readable) < len(partitions):
            some = [f"{topic}-{partition}" for topic, partition in partitions if (topic, partition) not in led]
            log.warning(
                "lags of %s of %s partitions could not be read, as they have no leader or may not be described (%s); "
                "look at these topics, and at DESCRIBE on them",
                f"{len(some):,}",
                f"{len(partitions):,}",
                some_of(some),
            )
        return readable

    def _give_up(self) -> None:
        # A TLS handshake without an answer has no end in kafka-python 3.0. Closing may take its
        # time, too.
        threading.Thread(target=_close, args=(list(self._clients),), name="quorate-lags-close", daemon=True).start()

    def _remedy(self) -> str:
        servers = (
            self.bootstrap_servers if isinstance(self.bootstrap_servers, str) else ",".join(self.bootstrap_servers)
        )
        return (
            f"look at the brokers ({servers}), at the security options, and at DESCRIBE on group {self.group_id} and its topics, "
            f"or raise timeout_ms ({self.timeout_ms:,})"
        )


def lags_of(
    partitions: Sequence[TopicPartition],
    *,
    committed: Mapping[Any, int],
    ends: Mapping[Any, int],
    starts: Mapping[Any, int],
) -> dict[TopicPartition, int]:
    """End minus committed offset, as KIP-169 defines a lag; without a committed offset, end minus `starts`.

    A partition without an end is left out.
    """
    return {at: max(0, ends[at] - committed.get(at, starts.get(at, 0))) for at in partitions if at in ends}


def _close(clients: Sequence[Any]) -> None:
    for one in clients:
        # kafka-python says so of a client that its reader, whose call has failed by now, is closing
        # as well.
        with suppress(RuntimeError):
            one.close()


def _left_ms(until: float) -> int:
    """Milliseconds until then, at least one: kafka-python takes 0 for its default."""
    return max(1, int((until - time.monotonic()) * 1000))


def as_lag_source(
    lags: "LagSource | Mapping[tuple[str, int], int | None] | Callable[[Sequence[TopicPartition]], Any]",
) -> LagSource:
    """A mapping or a function as a source; a source as it is. Raises `TypeError`."""
    if isinstance(lags, LagSource):
        return lags
    if isinstance(lags, Mapping):
        return StaticLags(lags)
    if callable(lags):
        return CallableLags(lags)
    raise TypeError(f"lags come from a mapping, a function or a LagSource, not from {type(lags).__name__}")
