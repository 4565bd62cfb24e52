"""What clients read from C, past the clocks that a simulation replaces; and what they count."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_COUNTER = "_PRODUCER_CLIENT_ID_SEQUENCE"
"""The number of aiokafka's producers so far, which is in the ids of those without one."""


def _found(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)


def reset_clients() -> None:
    """Let counters of clients begin again, so that a schedule does not depend on earlier ones."""
    producer = _found("aiokafka.producer.producer", "AIOKafkaProducer")
    if hasattr(producer, _COUNTER):
        setattr(producer, _COUNTER, 0)


@contextmanager
def patched_clients() -> Iterator[None]:
    """Give records of aiokafka's producers the time of `time.time`.

    Its extension module reads the time of the machine for records without a timestamp.
    """
    producer = _found("aiokafka.producer.producer", "AIOKafkaProducer")
    builder = _found("aiokafka.producer.message_accumulator", "BatchBuilder")
    if builder is None:
        yield
        return
    own, counted = builder.append, getattr(producer, _COUNTER, None)

    def append(self: Any, *, timestamp: Any, **record: Any) -> Any:
        return own(self, timestamp=int(time.time() * 1000) if timestamp is None else timestamp, **record)

    builder.append = append
    try:
        yield
    finally:
        builder.append = own
        if counted is not None:
            setattr(producer, _COUNTER, counted)
