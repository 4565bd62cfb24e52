"""Which settings brokers have in which release of Kafka, and who may change them while brokers run (KIP-226).

The facts are in `broker_settings.tsv`, which scripts/make_broker_settings.py writes from Kafka's own classes. Which of them mean something here, `settings` knows.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from importlib.resources import files

from quorate.cluster.topic_settings import Kind, Release, Setting

__all__ = ["SYNONYMS", "THROTTLES", "BrokerSetting", "UpdateMode", "of_brokers", "setting_named"]

SYNONYMS: Mapping[str, tuple[tuple[str, int], ...]] = {
    "log.flush.interval.ms": (("log.flush.scheduler.interval.ms", 1),),
    "log.retention.ms": (("log.retention.minutes", 60_000), ("log.retention.hours", 3_600_000)),
    "log.roll.jitter.ms": (("log.roll.jitter.hours", 3_600_000),),
    "log.roll.ms": (("log.roll.hours", 3_600_000),),
}
"""Settings that say the same where the first is not given, the next best first, and how many of the first's units are one of theirs."""

THROTTLES = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Known to brokers only while they run: whatever they are given at the start is theirs to keep."""
_OF_A_LISTENER = "listener.name."


class UpdateMode(Enum):
    """For whom a setting may be changed while brokers run."""

    NOBODY = ""
    ALL = "all"
    """All brokers, or one."""
    BROKER = "broker"
    """One broker only."""
    LISTENER = "listener"
    """One of a broker's listeners only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerSetting:
    """A setting of brokers. `default` is `None` where there is none; `shown`: also where nobody gave it; `custom`: Kafka does not know it, and keeps it for plugins."""

    name: str
    kind: Kind
    change: UpdateMode
    default: str | None
    rule: Setting
    shown: bool = True
    custom: bool = False

    def problem(self, value: str) -> str | None:
        """What keeps it from having a value, or `None`."""
        return self.rule.problem(value)


@cache
def of_brokers(release: Release) -> Mapping[str, BrokerSetting]:
    """The settings of a release, by name. A release newer than the table is like its newest."""
    text = files("quorate.cluster").joinpath("broker_settings.tsv").read_text("utf-8")
    return {one.name: one for one in _rows(text, release)}


def setting_named(release: Release, name: str) -> BrokerSetting:
    """A setting, that of a listener (`listener.name.client.ssl.keystore.location`), or one that Kafka does not know."""
    known = of_brokers(release)
    if name in known:
        return known[name]
    kind = Kind.UNKNOWN
    if name in THROTTLES:
        kind = Kind.LONG
    elif name.startswith(_OF_A_LISTENER) and (behind := known.get(name.removeprefix(_OF_A_LISTENER).partition(".")[2])):
        kind = behind.kind
    change = UpdateMode.BROKER if name.startswith(_OF_A_LISTENER) and kind is not Kind.UNKNOWN else UpdateMode.ALL
    rule = Setting(name=name, kind=kind, default="")
    return BrokerSetting(name=name, kind=kind, change=change, default=None, rule=rule, shown=False, custom=True)


def _rows(text: str, release: Release) -> Iterator[BrokerSetting]:
    rows = [line.split("\t") for line in text.splitlines() if not line.startswith("#")]
    for name, kind, change, default, allowed, told, since, until in rows[1:]:
        if (since and release < _release(since)) or (until and release >= _release(until)):
            continue
        yield BrokerSetting(
            name=name,
            kind=Kind[kind.upper()],
            change=UpdateMode(change),
            default=None if default == r"\N" else default,
            rule=_rule(name, Kind[kind.upper()], "" if default == r"\N" else default, allowed),
            shown=not told,
        )


def _rule(name: str, kind: Kind, default: str, allowed: str) -> Setting:
    """From `1..9|-1` (bounds, and one number more), `delete|compact`, or the words and signs that the head of the table explains."""
    if ".." not in allowed:
        words = allowed.lstrip("+*~")
        return Setting(
            name=name,
            kind=kind,
            default=default,
            values=tuple(words.split("|")) if words else None,
            any_case=allowed.startswith("~"),
            not_empty=allowed.startswith("+"),
            whole_elements=kind is Kind.LIST and allowed.startswith(("+", "*")),
        )
    bounds, _, also = allowed.partition("|")
    least, _, most = bounds.partition("..")
    return Setting(
        name=name,
        kind=kind,
        default=default,
        least=float(least),
        most=float(most) if most else None,
        also=int(also) if also else None,
    )


def _release(text: str) -> Release:
    major, _, minor = text.partition(".")
    return int(major), int(minor)
