"""Configs whose values depend on each other: what Kafka's brokers check besides each value (KafkaConfig, GroupCoordinatorConfig, ShareGroupConfig, GroupConfig).

Knows names and numbers, not where values come from: callers hand in a function that returns a broker's value, its default included.
"""

import re
from collections.abc import Callable, Iterator, Mapping

from quorate.cluster.broker_settings import SYNONYMS, of_brokers
from quorate.cluster.topic_settings import Release, elements

__all__ = ["broker_problem", "group_problem"]

Value = Callable[[str], str | None]
"""A broker's value of a config by name; `None` where it has none."""

_AT_LEAST, _AT_MOST, _BELOW = "must be greater than or equal to", "must be less than or equal to", "must be less than"
_PREFIX = "org.apache.kafka.coordinator.group.assignor."
_SELECTORS = tuple(f"org.apache.kafka.common.replica.{name}Selector" for name in ("RackAwareReplica", "Leader"))
_PRINCIPALS = "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder"
_PLUGINS = ("alter.config.policy.class.name", "client.quota.callback.class", "create.topic.policy.class.name")
_CODECS = ("offsets.topic.compression.codec", "share.coordinator.state.topic.compression.codec")
_SHARE_ASSIGNORS = ("simple", f"{_PREFIX}SimpleAssignor")

_Relation = tuple[str, str, str]
_SHARE: tuple[_Relation, ...] = (
    ("group.share.max.delivery.count.limit", _AT_LEAST, "group.share.delivery.count.limit"),
    ("group.share.delivery.count.limit", _AT_LEAST, "group.share.min.delivery.count.limit"),
    ("group.share.max.partition.max.record.locks", _AT_LEAST, "group.share.partition.max.record.locks"),
    ("group.share.partition.max.record.locks", _AT_LEAST, "group.share.min.partition.max.record.locks"),
    ("group.share.record.lock.duration.ms", _AT_LEAST, "group.share.min.record.lock.duration.ms"),
    ("group.share.max.record.lock.duration.ms", _AT_LEAST, "group.share.record.lock.duration.ms"),
    ("group.share.max.share.sessions", _AT_LEAST, "group.share.max.size"),
)


def _relations() -> Iterator[_Relation]:
    """In the order in which Kafka checks them."""
    for kind in ("consumer", "share", "streams"):
        group = f"group.{kind}."
        for rest in ("heartbeat.interval.ms", "session.timeout.ms", "assignment.interval.ms"):
            yield f"{group}max.{rest}", _AT_LEAST, f"{group}min.{rest}"
            yield f"{group}{rest}", _AT_LEAST, f"{group}min.{rest}"
            yield f"{group}{rest}", _AT_MOST, f"{group}max.{rest}"
            if rest.startswith("session"):
                yield f"{group}heartbeat.interval.ms", _BELOW, f"{group}session.timeout.ms"
    yield "group.streams.num.standby.replicas", _AT_MOST, "group.streams.max.standby.replicas"
    yield from _SHARE


_RELATIONS = tuple(_relations())


def broker_problem(release: Release, value: Value) -> str | None:
    """Why a broker of a release refuses to start with these values, or to change to them; `None` if it does not."""
    known = of_brokers(release)

    def number(name: str) -> int | None:
        found = value(name) if name in known else None
        return int(found) if found else None

    for left, must, right in _RELATIONS:
        if must is _BELOW and release < (4, 0):
            continue
        if not _holds(number(left), must, number(right)):
            return f"{left} {must} {right}"
    return _class_problem(release, value) or _log_problem(number) or _connection_problem(value, number)


def _class_problem(release: Release, value: Value) -> str | None:
    """Plug-ins: there is no Java here to run them, so each is one that a broker does not find."""
    share = value("group.share.assignors")
    assignors = ["simple"] if share is None else elements(share)
    if len(assignors) != 1 and set(assignors) != {"simple"}:
        return f"group.share.assignors must contain exactly one assignor, but found {len(assignors)}"
    if unknown := [one for one in assignors if one not in _SHARE_ASSIGNORS]:
        return f"Class {unknown[0]} cannot be found; valid values for group.share.assignors: {_SHARE_ASSIGNORS[0]}"
    names = elements(value("group.consumer.assignors") or "")
    if release < (4, 0) and (short := [one for one in names if "." not in one]):
        return f"Class {short[0]} cannot be found; before 4.0 group.consumer.assignors are names of classes"
    if (selector := (value("replica.selector.class") or "").strip()) and selector not in _SELECTORS:
        return f"Class {selector} cannot be found; valid values for replica.selector.class: {', '.join(_SELECTORS)}"
    for name in (*_PLUGINS, "principal.builder.class"):
        found = value(name)
        if found is not None and (name in _PLUGINS or found.strip() != _PRINCIPALS):
            return f"Invalid value {found} for configuration {name}: Class {found} could not be found."
    protocols = value("group.coordinator.rebalance.protocols")
    if protocols is not None and "classic" not in elements(protocols):
        return "Disabling the 'classic' protocol is not supported."
    return None


def _holds(left: int | None, must: str, right: int | None) -> bool:
    if left is None or right is None:
        return True  # not in this release
    return left >= right if must is _AT_LEAST else left <= right if must is _AT_MOST else left < right


def _log_problem(number: Callable[[str], int | None]) -> str | None:
    def first(name: str) -> int | None:
        """Of those that mean the same the one that counts."""
        names = (name, *(other for other, _ in SYNONYMS[name]))
        return next((found for found in map(number, names) if found is not None), None)

    if (roll := first("log.roll.ms")) is not None and roll < 1:
        return "log.roll.ms must be greater than or equal to 1"
    if (jitter := first("log.roll.jitter.ms")) is not None and jitter < 0:
        return "log.roll.jitter.ms must be greater than or equal to 0"
    if first("log.retention.ms") == 0:
        return "log.retention.ms must be unlimited (-1) or, greater than or equal to 1"
    buffer, threads = number("log.cleaner.dedupe.buffer.size"), number("log.cleaner.threads")
    acks, replicas = number("offsets.commit.required.acks"), number("offsets.topic.replication.factor")
    if acks is not None and replicas is not None and not -1 <= acks <= replicas:
        return (
            "offsets.commit.required.acks must be greater or equal to -1"
            " and less or equal to offsets.topic.replication.factor"
        )
    for name in _CODECS:
        if (codec := number(name)) is not None and codec not in range(5):
            return f"Unknown compression type id: {codec}"
    if threads == 0:
        return "log.cleaner.threads must be at least 1 (with 0, Kafka's brokers stop with: / by zero)"
    if buffer is not None and threads is not None and buffer // threads <= 1 << 20:
        return "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread."
    return None


def _connection_problem(value: Value, number: Callable[[str], int | None]) -> str | None:
    wait = number("replica.fetch.wait.max.ms")
    if not _holds(wait, _AT_MOST, number("replica.socket.timeout.ms")):
        return (
            "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms"
            " to prevent unnecessary socket timeouts"
        )
    if not _holds(wait, _AT_MOST, number("replica.lag.time.max.ms")):
        return (
            "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms"
            " to prevent frequent changes in ISR"
        )
    queued = number("queued.max.request.bytes")
    if queued is not None and queued > 0 and not _holds(queued, _AT_LEAST, number("socket.request.max.bytes")):
        return "queued.max.request.bytes must be larger or equal to socket.request.max.bytes"
    delay, idle = number("connection.failed.authentication.delay.ms"), number("connections.max.idle.ms")
    if delay is not None and idle is not None and delay >= idle >= 0:
        return (
            f"connection.failed.authentication.delay.ms={delay} should always be less than connections.max.idle.ms={idle}"
            " to prevent failed authentication responses from timing out"
        )
    for entry in filter(None, (part.strip() for part in (value("max.connections.per.ip.overrides") or "").split(","))):
        if re.fullmatch(r".*:[+-]?\d{1,9}", entry, re.ASCII) is None:
            return f"Error parsing configuration property 'max.connections.per.ip.overrides': {entry!r} is not address:number"
    if number("max.connections.per.ip") == 0 and not value("max.connections.per.ip.overrides"):
        return "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides property is set."
    return None


def group_problem(configs: Mapping[str, str], release: Release, value: Value) -> str | None:
    """Why a group is refused configs whose values are sound by themselves; `None` if it is not. `value`: of its brokers."""
    known = of_brokers(release)
    for name, text in configs.items():
        kind, _, rest = name.partition(".")
        least, most = f"group.{kind}.min.{rest}", f"group.{kind}.max.{rest.removeprefix('num.')}"
        for bound, must in ((least, _AT_LEAST), (most, _AT_MOST)):
            limit = value(bound) if bound in known else None
            if limit and not _holds(int(text), must, int(limit)):
                return f"{name} {must} {bound}"
    for kind in ("consumer", "share", "streams"):
        session, heartbeat = f"{kind}.session.timeout.ms", f"{kind}.heartbeat.interval.ms"
        given = [configs.get(name) or value(f"group.{name}") for name in (session, heartbeat)]
        if given[0] and given[1] and int(given[0]) <= int(given[1]):
            return f"{session} must be greater than {heartbeat}"
    return None
