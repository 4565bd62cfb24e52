"""A topic's configs that its partitions' logs use, as numbers."""

from collections.abc import Mapping

from quorate.cluster.broker_configs import BrokerConfigs
from quorate.codecs.lazy_dataclass import dataclass

NEVER = 0x7FFF_FFFF_FFFF_FFFF
"""Kafka's value for "never" in configs that are a number of ms or messages."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogConfig:
    """A topic's configs, with Kafka's defaults; -1 is unlimited retention.

    `flush_messages`, `flush_ms`: flush (`fsync`) after so many records, or so long after a write.
    """

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    index_interval_bytes: int = 4096
    delete: bool = True
    retention_ms: int = 604_800_000
    retention_bytes: int = -1
    compact: bool = False
    delete_retention_ms: int = 86_400_000
    min_cleanable_dirty_ratio: float = 0.5
    min_compaction_lag_ms: int = 0
    max_compaction_lag_ms: int = NEVER
    max_message_bytes: int = 1_048_588
    append_time: bool = False
    flush_messages: int = NEVER
    flush_ms: int = NEVER

    @classmethod
    def of(cls, broker_configs: BrokerConfigs, config: Mapping[str, str], broker: int | None = None) -> "LogConfig":
        """Create from validated configs of a topic and of the broker that leads."""

        def config_of(name: str) -> str:
            return broker_configs.of_topic(name, config, broker).strip()

        def number(name: str) -> int:
            return int(config_of(name))

        policies = {each.strip() for each in config_of("cleanup.policy").split(",")}
        return cls(
            segment_bytes=number("segment.bytes"),
            segment_ms=number("segment.ms"),
            index_interval_bytes=number("index.interval.bytes"),
            delete="delete" in policies,
            retention_ms=number("retention.ms"),
            retention_bytes=number("retention.bytes"),
            compact="compact" in policies,
            delete_retention_ms=number("delete.retention.ms"),
            min_cleanable_dirty_ratio=float(config_of("min.cleanable.dirty.ratio")),
            min_compaction_lag_ms=number("min.compaction.lag.ms"),
            max_compaction_lag_ms=number("max.compaction.lag.ms"),
            max_message_bytes=number("max.message.bytes"),
            append_time=config_of("message.timestamp.type") == "LogAppendTime",
            flush_messages=number("flush.messages"),
            flush_ms=number("flush.ms"),
        )
