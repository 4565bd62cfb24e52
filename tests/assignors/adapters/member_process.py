"""A member of the consumer protocol in a process of its own; see `live.ConsumerProtocolProcess`.

The argument is JSON: `topics`, and configs of the consumer. Prints a line of JSON for each
rebalance and each poll with records. Ends when stdin does.
"""

import json
import sys
import threading
from contextlib import closing
from typing import Any

from kafka import ConsumerRebalanceListener

from quorate.consumers.kafka_python import KafkaConsumer


def names(partitions: Any) -> list[str]:
    return sorted(f"{at.topic}-{at.partition}" for at in partitions)


def report(event: str, **fields: Any) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


class Listener(ConsumerRebalanceListener):
    def __init__(self, consumer: KafkaConsumer) -> None:
        self.consumer = consumer

    def on_partitions_assigned(self, assigned: Any) -> None:
        report("assigned", partitions=names(assigned), all=names(self.consumer.assignment()))

    def on_partitions_revoked(self, revoked: Any) -> None:
        report("revoked", partitions=names(revoked), all=names(self.consumer.assignment() - set(revoked)))

    def on_partitions_lost(self, lost: Any) -> None:
        report("lost", partitions=names(lost), all=[])


def main() -> None:
    arguments = json.loads(sys.argv[1])
    topics = arguments.pop("topics")
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    with closing(KafkaConsumer(group_protocol="consumer", auto_offset_reset="earliest", **arguments)) as consumer:
        consumer.subscribe(topics, listener=Listener(consumer))
        while not ended.is_set():
            polled = consumer.poll(timeout_ms=100)
            if polled:
                of = {f"{at.topic}-{at.partition}": [one.offset for one in some] for at, some in polled.items()}
                report("records", of=of)


if __name__ == "__main__":
    main()
