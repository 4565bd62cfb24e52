"""Which settings topics and groups have in which release of Kafka: types, bounds, defaults, and the brokers' settings behind them.

Many are kept and shown without meaning anything here. Values are texts everywhere else; here is what a text has to be.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cache
from math import isfinite
from typing import Any

__all__ = ["GROUP_SETTINGS", "TOPIC_SETTINGS", "Kind", "Release", "Setting", "elements", "of_groups", "of_topics"]

Release = tuple[int, int]
"""Major and minor number."""


class Kind(IntEnum):
    """Types of settings, by Kafka's numbers (KIP-569)."""

    UNKNOWN = 0
    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """A setting. `broker`: the brokers' setting that is its default; `least`, `most`: bounds of a number, `also`: another number that it may be.

    `values`: of a text, or of a list's elements, where `any_case` says in any case; `pattern`: of a text that is none of them, or of a whole list.
    `not_empty`: a text or list has to have something in it; `whole_elements`: a list has no empty elements.
    `since`: the first release that has it; `until`: the first that has it no more.
    """

    name: str
    kind: Kind
    default: str
    broker: str | None = None
    least: float | None = None
    most: float | None = None
    also: int | None = None
    values: tuple[str, ...] | None = None
    pattern: str | None = None
    any_case: bool = False
    not_empty: bool = False
    whole_elements: bool = False
    since: Release = (0, 0)
    until: Release | None = None

    def is_in(self, release: Release) -> bool:
        """Whether a release has it."""
        return self.since <= release and (self.until is None or release < self.until)

    def problem(self, value: str) -> str | None:
        """Why Kafka refuses a value, in its words, or `None`."""
        text = value.strip()
        if self.kind is Kind.LIST:
            return self._problem_of_list(text)
        match self.kind:
            case Kind.BOOLEAN if text.lower() not in ("true", "false"):
                return self._invalid(value, "Expected value to be either true or false")
            case Kind.INT | Kind.SHORT | Kind.LONG | Kind.DOUBLE:
                return self._problem_of_number(value)
            case Kind.STRING if (reason := self._problem_of_text(text)) is not None:
                return self._invalid(text, reason)
        return None

    def _invalid(self, value: str, reason: str) -> str:
        return f"Invalid value {value} for configuration {self.name}: {reason}"

    def _problem_of_list(self, text: str) -> str | None:
        parts = elements(text)
        if self.pattern is not None:
            fits = re.fullmatch(self.pattern, ",".join(parts))
            return None if fits else self._invalid(text, f"it does not match {self.pattern}")
        if self.not_empty and not parts:
            valid = f"[{', '.join(self.values)}]" if self.values else "any non-empty value"
            return f"Configuration '{self.name}' must not be empty. Valid values include: {valid}"
        if self.whole_elements and "" in parts:
            return f"Configuration '{self.name}' values must not be empty."
        found = ((part, self._problem_of_text(part)) for part in parts)
        return next((self._invalid(part, reason) for part, reason in found if reason), None)

    def _problem_of_number(self, value: str) -> str | None:
        text = value.strip()
        try:
            number = _double_of(text) if self.kind is Kind.DOUBLE else _whole(text, _BITS[self.kind])
        except ValueError:
            return self._invalid(value, f"Not a number of type {self.kind.name}")
        if number == self.also:
            return None
        low = self.least is not None and number < self.least
        high = self.most is not None and number > self.most
        if not (low or high):
            return None
        if self.also is not None:
            reason = f"Value must be between {self.least:.0f} and {self.most:.0f} or equal to {self.also}"
        else:
            reason = (
                f"Value must be at least {self.least:.0f}" if low else f"Value must be no more than {self.most:.0f}"
            )
        return self._invalid(str(number), reason)

    def _problem_of_text(self, text: str) -> str | None:
        if self.kind is Kind.STRING and self.not_empty and not text:
            return "String must be non-empty"
        if self.values is None or text in self.values or (self.any_case and text.upper() in self.values):
            return None
        if self.kind is Kind.STRING and self.pattern is not None and re.fullmatch(self.pattern, text):
            return None
        return f"String must be one of{' (case insensitive)' if self.any_case else ''}: {', '.join(self.values)}"


def elements(text: str) -> list[str]:
    """The elements of a list, as Kafka splits them."""
    stripped = text.strip()
    return [part.strip() for part in stripped.split(",")] if stripped else []


def _double_of(text: str) -> float:
    number = float(text)
    if "_" in text or not text.isascii() or not isfinite(number):
        raise ValueError(text)
    return number


def _whole(text: str, bits: int) -> int:
    if not text.lstrip("+-").isascii():
        raise ValueError(text)
    number = int(text)
    if "_" in text or not -(1 << (bits - 1)) <= number < 1 << (bits - 1):
        raise ValueError(text)
    return number


_BITS = {Kind.SHORT: 16, Kind.INT: 32, Kind.LONG: 64}
_LONG_MAX = "9223372036854775807"
_Made = Callable[..., Setting]


def _of(kind: Kind) -> _Made:
    def make(name: str, default: str, broker: str | None = None, **more: object) -> Setting:
        return Setting(name=name, kind=kind, default=default, broker=broker, **more)  # type: ignore[arg-type]

    return make


_truth, _text, _int = _of(Kind.BOOLEAN), _of(Kind.STRING), _of(Kind.INT)
_long, _double, _list = _of(Kind.LONG), _of(Kind.DOUBLE), _of(Kind.LIST)

_REPLICAS = r"\*|(\d+:\d+(,\d+:\d+)*,*)?"
"""Partitions and brokers (KIP-73), or all."""
_BY_DURATION = r"by_duration:(?i:P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)"
"""From so long ago on, as ISO 8601 says durations (KIP-1106)."""

TOPIC_SETTINGS: Mapping[str, Setting] = {
    one.name: one
    for one in (
        _list("cleanup.policy", "delete", "log.cleanup.policy", values=("compact", "delete"), whole_elements=True),
        _int("compression.gzip.level", "-1", "compression.gzip.level", least=1, most=9, also=-1),
        _int("compression.lz4.level", "9", "compression.lz4.level", least=1, most=17),
        _text(
            "compression.type",
            "producer",
            "compression.type",
            values=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        ),
        _int("compression.zstd.level", "3", "compression.zstd.level", least=-131072, most=22),
        _long("delete.retention.ms", "86400000", "log.cleaner.delete.retention.ms", least=0),
        _long("file.delete.delay.ms", "60000", "log.segment.delete.delay.ms", least=0),
        _long("flush.messages", _LONG_MAX, "log.flush.interval.messages", least=1),
        _long("flush.ms", _LONG_MAX, "log.flush.interval.ms", least=0),
        _list("follower.replication.throttled.replicas", "", pattern=_REPLICAS),
        _int("index.interval.bytes", "4096", "log.index.interval.bytes", least=0),
        _list("leader.replication.throttled.replicas", "", pattern=_REPLICAS),
        _long("local.retention.bytes", "-2", "log.local.retention.bytes", least=-2),
        _long("local.retention.ms", "-2", "log.local.retention.ms", least=-2),
        _long("max.compaction.lag.ms", _LONG_MAX, "log.cleaner.max.compaction.lag.ms", least=1),
        _int("max.message.bytes", "1048588", "message.max.bytes", least=0),
        _truth("message.downconversion.enable", "true", "log.message.downconversion.enable", until=(4, 0)),
        _text("message.format.version", "3.0-IV1", "log.message.format.version", until=(4, 0)),
        _long("message.timestamp.after.max.ms", "3600000", "log.message.timestamp.after.max.ms", least=0),
        _long("message.timestamp.before.max.ms", _LONG_MAX, "log.message.timestamp.before.max.ms", least=0),
        _long(
            "message.timestamp.difference.max.ms",
            _LONG_MAX,
            "log.message.timestamp.difference.max.ms",
            least=0,
            until=(4, 0),
        ),
        _text(
            "message.timestamp.type", "CreateTime", "log.message.timestamp.type", values=("CreateTime", "LogAppendTime")
        ),
        _double("min.cleanable.dirty.ratio", "0.5", "log.cleaner.min.cleanable.ratio", least=0, most=1),
        _long("min.compaction.lag.ms", "0", "log.cleaner.min.compaction.lag.ms", least=0),
        _int("min.insync.replicas", "1", "min.insync.replicas", least=1),
        _truth("preallocate", "false", "log.preallocate"),
        _truth("remote.log.copy.disable", "false"),
        _truth("remote.log.delete.on.disable", "false"),
        _truth("remote.storage.enable", "false"),
        _long("retention.bytes", "-1", "log.retention.bytes"),
        _long("retention.ms", "604800000", "log.retention.ms", least=-1),
        _int("segment.bytes", "1073741824", "log.segment.bytes", least=1048576),
        _int("segment.index.bytes", "10485760", "log.index.size.max.bytes", least=4),
        _long("segment.jitter.ms", "0", "log.roll.jitter.ms", least=0),
        _long("segment.ms", "604800000", "log.roll.ms", least=1),
        _truth("unclean.leader.election.enable", "false", "unclean.leader.election.enable"),
    )
}
"""Settings of topics, by name."""

_BEFORE_4_0: Mapping[str, Mapping[str, Any]] = {
    "message.timestamp.after.max.ms": {"default": _LONG_MAX},
}

GROUP_SETTINGS: Mapping[str, Setting] = {
    one.name: one
    for one in (
        _int("consumer.assignment.interval.ms", "1000", "group.consumer.assignment.interval.ms", least=0, since=(4, 3)),
        _int("consumer.heartbeat.interval.ms", "5000", "group.consumer.heartbeat.interval.ms", least=1, since=(4, 0)),
        _int("consumer.session.timeout.ms", "45000", "group.consumer.session.timeout.ms", least=1, since=(4, 0)),
        _int("share.assignment.interval.ms", "1000", "group.share.assignment.interval.ms", least=0, since=(4, 3)),
        _text(
            "share.auto.offset.reset",
            "latest",
            "share.auto.offset.reset",
            values=("latest", "earliest"),
            pattern=_BY_DURATION,
            since=(4, 0),
        ),
        _int("share.delivery.count.limit", "5", "group.share.delivery.count.limit", least=2, since=(4, 3)),
        _int("share.heartbeat.interval.ms", "5000", "group.share.heartbeat.interval.ms", least=1, since=(4, 0)),
        _text(
            "share.isolation.level",
            "read_uncommitted",
            "share.isolation.level",
            values=("read_committed", "read_uncommitted"),
            since=(4, 1),
        ),
        _int(
            "share.partition.max.record.locks",
            "2000",
            "group.share.partition.max.record.locks",
            least=100,
            since=(4, 3),
        ),
        _int("share.record.lock.duration.ms", "30000", "group.share.record.lock.duration.ms", least=1000, since=(4, 0)),
        _truth("share.renew.acknowledge.enable", "true", "share.renew.acknowledge.enable", since=(4, 3)),
        _int("share.session.timeout.ms", "45000", "group.share.session.timeout.ms", least=1, since=(4, 0)),
        _int("streams.assignment.interval.ms", "1000", "group.streams.assignment.interval.ms", least=0, since=(4, 3)),
        _int("streams.heartbeat.interval.ms", "5000", "group.streams.heartbeat.interval.ms", least=1, since=(4, 1)),
        _int(
            "streams.initial.rebalance.delay.ms",
            "3000",
            "group.streams.initial.rebalance.delay.ms",
            least=0,
            since=(4, 2),
        ),
        _int("streams.num.standby.replicas", "0", "group.streams.num.standby.replicas", least=0, since=(4, 1)),
        _int("streams.session.timeout.ms", "45000", "group.streams.session.timeout.ms", least=1, since=(4, 1)),
    )
}
"""Settings of groups, by name."""


@cache
def of_topics(release: Release) -> Mapping[str, Setting]:
    """Settings of topics that a release has."""
    found = {name: one for name, one in TOPIC_SETTINGS.items() if one.is_in(release)}
    if release < (4, 0):  # what KIP-1030 made stricter
        for name, before in _BEFORE_4_0.items():
            found[name] = replace(found[name], **before)
    if release < (4, 1):
        found["segment.bytes"] = replace(found["segment.bytes"], least=14)
    return found


@cache
def of_groups(release: Release) -> Mapping[str, Setting]:
    """Settings of groups that a release has; none before 4.0, which does not know that groups have any."""
    return {name: one for name, one in GROUP_SETTINGS.items() if one.is_in(release)}
