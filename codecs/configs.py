"""Configs of brokers, topics, groups and client metrics in each release of Kafka.

This covers types, defaults, valid values and update modes (KIP-226). `configs.tsv` is written by
scripts/make_configs.py from Kafka's own classes. Values are texts, as in a properties file. Which
configs have an effect in quorate, and which values exclude each other, is not known here.
"""

import re
from collections.abc import Mapping
from enum import IntEnum, StrEnum
from functools import cache
from math import isfinite
from pkgutil import get_data
from typing import Any

from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.printable import suggestion
from quorate.codecs.releases import KafkaVersion

THROTTLES = frozenset(
    {
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "replica.alter.log.dirs.io.max.bytes.per.second",
    }
)
"""Dynamic configs of brokers: values given at startup are not validated.

Before 4.3 no table of Kafka has them.
"""


class ConfigResourceType(IntEnum):
    """Types of resources with configs, by Kafka's numbers (ConfigResource.Type)."""

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
    """How a config of brokers can be changed at run time (KIP-226)."""

    READ_ONLY = "read-only"
    CLUSTER_WIDE = "cluster-wide"
    """For all brokers, or for one."""
    PER_BROKER = "per-broker"
    """For one broker only."""
    LISTENER = "listener"
    """For one listener of a broker only."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigKey:
    """The definition of a config.

    `default` is `None` without one; `update_mode` is set for configs of brokers only. `synonyms`
    are configs of brokers that apply if this one is not set, in order of precedence, each with the
    number of units of this config in one of its units. `least` and `most` are the bounds of a
    number, `also` a further valid number.

    `values` are the valid texts, or list elements; `any_case` ignores their case. `pattern` matches
    further texts, or a whole list. `not_empty`: a text or list must not be empty; `whole_elements`:
    a list must not have empty elements. `internal`: listed only if it was set. `custom`: unknown to
    Kafka, which keeps it for plugins.
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
        """Whether values are hidden: passwords, and unknown configs, which may be passwords."""
        return self.type in (ConfigType.PASSWORD, ConfigType.UNKNOWN)

    def parsed(self, value: str) -> str:
        """Return a valid value in the form that Kafka has after parsing it."""
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
        """Return why Kafka rejects a value, in the words of ConfigDef; `None` if it is valid."""
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
            if "".join(parts) == "*" or all(re.fullmatch(self.pattern, part) for part in parts if part):
                return None
            form = f"must be the literal '*' or a list of replicas in the following format: {_REPLICAS}"
            return self._invalid(f"[{', '.join(parts)}]", f"{self.name} {form}")
        if self.not_empty and not parts:
            valid = f"[{', '.join(self.values)}]" if self.values else "any non-empty value"
            return f"Configuration '{self.name}' must not be empty. Valid values include: {valid}"
        for part in parts:
            if self.whole_elements and not part:
                return f"Configuration '{self.name}' values must not be empty."
            if (reason := self._problem_of_text(part)) is not None:
                return self._invalid(part, reason)
        return None

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
    """Return a value as in a properties file; lists have commas."""
    return ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)


def elements(text: str) -> list[str]:
    """Return the elements of a list, split as Kafka does."""
    stripped = text.strip()
    return [part.strip() for part in stripped.split(",")] if stripped else []


@cache
def config_keys(resource: int, version: KafkaVersion) -> Mapping[str, ConfigKey]:
    """Return the configs of a resource type in a release, by name.

    Loggers have none, nor have groups before 4.0. A release newer than the table has the configs of
    its newest release. Internal configs of topics are left out: Kafka's own tests set them.
    """
    found = {}
    for of, name, type_, update, default, valid, synonyms, internal, since, until in _rows():
        if of != _NAMES.get(resource) or (internal and resource == ConfigResourceType.TOPIC):
            continue
        if (since and version < _release(since)) or (until and version >= _release(until)):
            continue
        kind = _TYPES[type_]
        found[name] = ConfigKey(
            name=name,
            type=kind,
            default=None if default == r"\N" else default,
            update_mode=_UPDATE_MODES.get(update),
            synonyms=_synonyms(synonyms) if synonyms else (),
            internal=bool(internal),
            **(_validity(kind, valid) if valid else {}),
        )
    return found


def broker_config_key(version: KafkaVersion, name: str) -> ConfigKey:
    """Return a config of brokers or listeners, or a definition for one that is unknown to Kafka.

    An example of a listener's is `listener.name.client.ssl.keystore.location`.
    """
    known = config_keys(ConfigResourceType.BROKER, version)
    if name in known:
        return known[name]
    kind, update_mode = ConfigType.LONG if name in THROTTLES else ConfigType.UNKNOWN, UpdateMode.CLUSTER_WIDE
    if name.startswith(_LISTENER_PREFIX) and (key := known.get(name.removeprefix(_LISTENER_PREFIX).partition(".")[2])):
        kind, update_mode = key.type, UpdateMode.PER_BROKER
    return ConfigKey(name=name, type=kind, update_mode=update_mode, internal=True, custom=True)


def similar_broker_config(name: str) -> str | None:
    """Return the broker config that an unknown name is probably a misspelling of.

    Kafka ignores unknown configs, as they may be of plug-ins. So those that are not similar to
    Kafka's have `None`, and so have Kafka's own, of any release.
    """
    own, known = _without_listener(name), _broker_names()
    if own in known:
        return None
    from difflib import get_close_matches  # not loaded by each start of a cluster

    near = get_close_matches(own, known, 1, cutoff=0.9)
    return name.removesuffix(own) + near[0] if near else None


def unknown_broker_config(name: str) -> str | None:
    """Return a notice for a config that no release of Kafka has, which brokers ignore."""
    own, known = _without_listener(name), _broker_names()
    mechanism = own is not name and own.partition(".")[2] in known  # listener.name.LISTENER.MECHANISM.NAME
    if own in known or mechanism or name in THROTTLES or name in _OF_AUTHORIZER:
        return None
    notice = f"properties: Kafka has no config {name}, and brokers ignore it"
    hint = suggestion(own, known, "", 1)
    return f"{notice}; {hint}" if hint else notice


_OF_AUTHORIZER = frozenset({"super.users", "allow.everyone.if.no.acl.found"})
"""Configs that Kafka's authorizer reads, and no table of Kafka has."""


def _without_listener(name: str) -> str:
    return name.removeprefix(_LISTENER_PREFIX).partition(".")[2] if name.startswith(_LISTENER_PREFIX) else name


def _broker_names() -> frozenset[str]:
    return frozenset(row[1] for row in _rows() if row[0] == _NAMES[ConfigResourceType.BROKER])


@cache
def _rows() -> tuple[list[str], ...]:
    text = (get_data("quorate.codecs", "configs.tsv") or b"").decode()
    return tuple([line.split("\t") for line in text.splitlines() if not line.startswith("#")][1:])


def _synonyms(text: str) -> tuple[tuple[str, int], ...]:
    return tuple((each, int(times or 1)) for each, _, times in (one.partition("*") for one in text.split()))


def _validity(kind: ConfigType, valid: str) -> dict[str, Any]:
    """Parse `1..9|-1` (bounds, and another valid number), `delete|compact`, or a named rule.

    The head of the table explains the rules.
    """
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
_TYPES = {one.name.lower(): one for one in ConfigType}
_UPDATE_MODES = {one.value: one for one in UpdateMode}
_release = cache(KafkaVersion.parse)
_NAMES: Mapping[int, str] = {one: one.name.lower().replace("_", "-") for one in ConfigResourceType}
"""Resource type → its name in the first column of the table."""
_LISTENER_PREFIX = "listener.name."

_REPLICAS = "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
_REPLICAS_PATTERN = r"[0-9]+:[0-9]+"
"""Partitions and brokers (KIP-73), or `*` for all."""
_BY_DURATION = "by_duration:PnDTnHnMn.nS"
_BY_DURATION_PATTERN = r"by_duration:(?i:P(?=\d|T\d)(\d+D)?(T(?=\d)(\d+H)?(\d+M)?(\d+(\.\d{1,9})?S)?)?)"
"""An ISO 8601 duration before now (KIP-1106)."""
