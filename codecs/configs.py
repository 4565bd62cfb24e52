"""Configs of brokers, topics, groups and client metrics in each release of Kafka: types, defaults, valid values, and who may change them while brokers run (KIP-226).

The facts are in `configs.tsv`, which scripts/make_configs.py writes from Kafka's own classes.
Values are texts, as in a properties file. Which configs mean something here, and which values go
together, is not known here.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any

from quorate.codecs.releases import KafkaVersion

__all__ = [
    "THROTTLES",
    "ConfigKey",
    "ConfigResourceType",
    "ConfigType",
    "UpdateMode",
    "as_text",
    "broker_config_key",
    "config_keys",
    "elements",
]

THROTTLES = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Known to brokers only while they run: no value that they are given at the start is checked.
Before 4.3 no table of Kafka's has them.
"""


class ConfigResourceType(IntEnum):
    """What has configs, by Kafka's numbers (ConfigResource.Type)."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class ConfigType(IntEnum):
    """Types of configs, by Kafka's numbers (KIP-569)."""

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


class UpdateMode(StrEnum):
    """Who may get another value of a broker's config while brokers run."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"
    """All brokers, or one."""
    PER_BROKER = "per-broker"
    """One broker only."""
    LISTENER = "listener"
    """One of a broker's listeners only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """A config. `default`: `None` where there is none; `update_mode`: of brokers' configs only.

    `synonyms`: brokers' configs that count where this one is not given, the next best first, each
    with how many of this one's units are one of theirs. `least`, `most`: bounds of a number,
    `also`: another number that it may be. `values`: of a text, or of a list's elements, where
    `any_case` says in any case; `pattern`: of a text that is none of them, or of a whole list.
    `not_empty`: a text or list has to have something in it; `whole_elements`: a list has no empty
    elements. `internal`: listed only where it was given. `custom`: Kafka does not know it, and
    keeps it for plugins.
    """

    name: str
    type: ConfigType
    default: str | None = None
    update_mode: UpdateMode | None = None
    synonyms: tuple[tuple[str, int], ...] = ()
    least: float | None = None
    most: float | None = None
    also: int | None = None
    values: tuple[str, ...] | None = None
    pattern: str | None = None
    any_case: bool = False
    not_empty: bool = False
    whole_elements: bool = False
    internal: bool = False
    custom: bool = False

    @property
    def sensitive(self) -> bool:
        """Whether values are hidden: of passwords, and of what may be one since nobody knows it."""
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parsed(self, value: str) -> str:
        """A valid value as Kafka has it after reading it."""
        match self.type:
            case ConfigType.BOOLEAN:
                return value.strip().lower()
            case ConfigType.INT | ConfigType.LONG | ConfigType.SHORT:
                return str(int(value))
            case ConfigType.LIST:
                return ",".join(elements(value))
            case _:
                return value.strip()

    def problem(self, value: str) -> str | None:
        """Why Kafka refuses a value, in its words (ConfigDef), or `None`."""
        text = value.strip()
        match self.type:
            case ConfigType.LIST:
                return self._problem_of_list(text)
            case ConfigType.BOOLEAN if text.lower() not in ("true", "false"):
                return self._invalid(value, "Expected value to be either true or false")
            case ConfigType.INT | ConfigType.SHORT | ConfigType.LONG | ConfigType.DOUBLE:
                return self._problem_of_number(value)
            case ConfigType.STRING if (reason := self._problem_of_text(text)) is not None:
                return self._invalid(text, reason)
        return None

    def _invalid(self, value: str, reason: str) -> str:
        return f"Invalid value {value} for configuration {self.name}: {reason}"

    def _problem_of_list(self, text: str) -> str | None:
        parts = elements(text)
        if self.pattern is not None:
            if re.fullmatch(self.pattern, ",".join(parts)):
                return None
            form = f"must be the literal '*' or a list of replicas in the following format: {_REPLICAS}"
            return self._invalid(f"[{', '.join(parts)}]", f"{self.name} {form}")
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
            number = _double_of(text) if self.type is ConfigType.DOUBLE else _whole(text, _BITS[self.type])
        except ValueError:
            return self._invalid(value, f"Not a number of type {self.type.name}")
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
        if self.type is ConfigType.STRING and self.not_empty and not text:
            return "String must be non-empty"
        if self.values is None or text in self.values or (self.any_case and text.upper() in self.values):
            return None
        if self.pattern is not None:
            if re.fullmatch(self.pattern, text):
                return None
            valid = "either 'earliest', 'latest' or of the format 'by_duration:<PnDTnHnMn.nS>'"
            return f"Invalid value `{text}` for configuration {self.name}. The value must be {valid}."
        return f"String must be one of{' (case insensitive)' if self.any_case else ''}: {', '.join(self.values)}"


def as_text(value: object) -> str:
    """A value as a properties file has it: lists with commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def elements(text: str) -> list[str]:
    """The elements of a list, as Kafka splits them."""
    stripped = text.strip()
    return [part.strip() for part in stripped.split(",")] if stripped else []


@cache
def config_keys(resource: int, version: KafkaVersion) -> Mapping[str, ConfigKey]:
    """The configs of a type of resource in a release, by name: none of loggers, nor of groups before 4.0.

    A release newer than the table is like its newest.

    Internal configs of topics are left out: Kafka's own tests set them.
    """
    found = {}
    for of, name, type_, update, default, valid, synonyms, internal, since, until in _rows():
        if of != _NAMES.get(resource) or (internal and resource == ConfigResourceType.TOPIC):
            continue
        if (since and version < KafkaVersion.parse(since)) or (until and version >= KafkaVersion.parse(until)):
            continue
        kind = ConfigType[type_.upper()]
        found[name] = ConfigKey(
            name=name,
            type=kind,
            default=None if default == r"\N" else default,
            update_mode=UpdateMode(update) if update else None,
            synonyms=tuple(
                (each, int(times or 1)) for each, _, times in (one.partition("*") for one in synonyms.split())
            ),
            internal=bool(internal),
            **_validity(kind, valid),
        )
    return found


def broker_config_key(version: KafkaVersion, name: str) -> ConfigKey:
    """A config of brokers, that of a listener (`listener.name.client.ssl.keystore.location`), or one that Kafka does not know."""
    known = config_keys(ConfigResourceType.BROKER, version)
    if name in known:
        return known[name]
    kind, update_mode = ConfigType.LONG if name in THROTTLES else ConfigType.UNKNOWN, UpdateMode.CLUSTER_WIDE
    if name.startswith(_LISTENER_PREFIX) and (key := known.get(name.removeprefix(_LISTENER_PREFIX).partition(".")[2])):
        kind, update_mode = key.type, UpdateMode.PER_BROKER
    return ConfigKey(name=name, type=kind, update_mode=update_mode, internal=True, custom=True)


@cache
def _rows() -> tuple[list[str], ...]:
    text = files("quorate.codecs").joinpath("configs.tsv").read_text("utf-8")
    return tuple([line.split("\t") for line in text.splitlines() if not line.startswith("#")][1:])


def _validity(kind: ConfigType, valid: str) -> dict[str, Any]:
    """From `1..9|-1` (bounds, and one number more), `delete|compact`, or the words and signs that the head of the table explains."""
    if valid == _REPLICAS:
        return {"pattern": _REPLICAS_PATTERN}
    if ".." not in valid:
        words = [word for word in valid.lstrip("+*~").split("|") if word]
        return {
            "values": tuple(word for word in words if word != _BY_DURATION) or None,
            "pattern": _BY_DURATION_PATTERN if _BY_DURATION in words else None,
            "any_case": valid.startswith("~"),
            "not_empty": valid.startswith("+"),
            "whole_elements": kind is ConfigType.LIST and valid.startswith(("+", "*")),
        }
    bounds, _, also = valid.partition("|")
    least, _, most = bounds.partition("..")
    return {"least": float(least), "most": float(most) if most else None, "also": int(also) if also else None}


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


_BITS = {ConfigType.SHORT: 16, ConfigType.INT: 32, ConfigType.LONG: 64}
_NAMES: Mapping[int, str] = {one: one.name.lower().replace("_", "-") for one in ConfigResourceType}
"""In the first column of the table."""
_LISTENER_PREFIX = "listener.name."

_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_REPLICAS_PATTERN = r"\*|(\d+:\d+(,\d+:\d+)*,*)?"
"""Partitions and brokers (KIP-73), or all."""
_BY_DURATION = "by_duration:PnDTnHnMn.nS"
_BY_DURATION_PATTERN = r"by_duration:(?i:P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)"
"""From so long ago on, as ISO 8601 says durations (KIP-1106)."""
