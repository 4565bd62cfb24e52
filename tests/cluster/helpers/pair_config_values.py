"""Random configs of topics and groups for `pair_requests`, from the declared keys of a release.

Values are at the limits, malformed, or of another type. Keys that would make a real broker act at
a time of its own get only values without effect.
"""

from collections.abc import Mapping
from random import Random

from quorate.codecs.configs import ConfigKey, ConfigType, config_keys
from quorate.codecs.releases import KafkaVersion

_TIMED = frozenset(
    {
        "delete.retention.ms",
        "errors.deadletterqueue.topic.name",
        "file.delete.delay.ms",
        "flush.messages",
        "flush.ms",
        "max.compaction.lag.ms",
        "min.cleanable.dirty.ratio",
        "min.compaction.lag.ms",
        "min.insync.replicas",
        "preallocate",
        "retention.bytes",
        "segment.bytes",
        "segment.index.bytes",
        "segment.jitter.ms",
        "segment.ms",
    }
)
"""Cleaning, rolling and flushing of logs, writes to other topics, failing produce requests."""
_TIMED_ENDS = (".assignment.interval.ms", ".initial.rebalance.delay.ms", ".offload.enable")
_GARBAGE: tuple[str | None, ...] = ("", " ", "x", "-7", "1e3", "0x10", "1.5", "99999999999999999999", None)
_TEXTS: Mapping[ConfigType, tuple[str, ...]] = {
    ConfigType.BOOLEAN: ("true", "false", "TRUE", " false ", "yes", "0"),
    ConfigType.INT: ("0", "-1", "+5", " 45000 ", "1000", "15000", "50000", "2147483647", "2147483648", "-2147483649"),
    ConfigType.LONG: ("0", "-1", "-2", "1000", " 86400000 ", "9223372036854775807", "9223372036854775808"),
    ConfigType.DOUBLE: ("0", "1", "0.5", ".5", "1e-1", "NaN", "-0.1", "1.1"),
    ConfigType.LIST: ("a", "a,b", "a,a", "a,,b", " a , b ", ",", "*", "0:1", "0:1,1:1", "0:1,", "0:x"),
    ConfigType.STRING: ("a", "A", "by_duration:PT1H", "by_duration:pt1h", "by_duration:P1Y", "by_duration:-PT1H"),
}


def random_config(random: Random, resource: int, version: KafkaVersion) -> tuple[str, str | None]:
    """Return the name and the value of a config of a resource type."""
    keys = config_keys(resource, version)
    key = keys[random.choice(sorted(keys))]
    return key.name, random.choice(_values(key))


def _values(key: ConfigKey) -> tuple[str | None, ...]:
    if key.name in _TIMED or key.name.endswith(_TIMED_ENDS):
        return *_GARBAGE, key.default
    limits = [str(int(limit) + step) for limit in (key.least, key.most) if limit is not None for step in (-1, 0, 1)]
    names = [text for value in key.values or () for text in (value, value.upper(), f" {value} ")]
    usual = (*_TEXTS.get(key.type, ()), *limits, *names, key.default)
    return *usual, *usual, *_GARBAGE
