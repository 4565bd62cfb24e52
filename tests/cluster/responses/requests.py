"""Requests that several tests use."""

from typing import Any

from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic, ForgottenTopic


def fetch_of(topic: Any, *partitions: int, forgotten: tuple[int, ...] = (), **options: Any) -> FetchRequest:
    parts = tuple(
        FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 20) for partition in partitions
    )
    return FetchRequest(
        max_wait_ms=options.pop("max_wait_ms", 0),
        min_bytes=1,
        topics=(FetchTopic(topic=topic.name, partitions=parts),) if parts else (),
        forgotten_topics_data=(ForgottenTopic(topic=topic.name, partitions=forgotten),) if forgotten else (),
        **options,
    )
