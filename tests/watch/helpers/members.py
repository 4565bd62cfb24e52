"""One member of a group, of the classic or the consumer protocol."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from confluent_kafka import Consumer, KafkaException

from quorate.cluster.interface import Cluster


@contextmanager
def member(
    cluster: Cluster,
    topic: str,
    group_id: str,
    protocol: str,
    *,
    on_revoke: Callable[..., object] | None = None,
    **config: object,
) -> Iterator[Consumer]:
    """A consumer that polls in a thread of its own, until the block ends."""
    one = Consumer(
        {
            "bootstrap.servers": ",".join(cluster.bootstrap_servers)
            if not isinstance(cluster.bootstrap_servers, str)
            else cluster.bootstrap_servers,
            "group.id": group_id,
            "group.protocol": protocol,
            "auto.offset.reset": "earliest",
            **config,
        }
    )
    one.subscribe([topic], **({} if on_revoke is None else {"on_revoke": on_revoke}))
    stop = threading.Event()

    def poll() -> None:
        while not stop.is_set():
            try:
                one.poll(0.1)
            except KafkaException:
                continue

    thread = threading.Thread(target=poll, daemon=True)
    thread.start()
    try:
        yield one
    finally:
        stop.set()
        thread.join(10)
        one.close()
