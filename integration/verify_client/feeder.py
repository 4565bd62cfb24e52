"""`Feeder`: writes records to a topic, for the consumers of a scenario."""

import threading
from types import TracebackType
from typing import Self

from quorate.cluster.embedded import EmbeddedCluster
from quorate.codecs.api.broker import ProduceRequest
from quorate.codecs.api.broker.produce import PartitionProduceData, TopicProduceData
from quorate.codecs.errors import QuorateError
from quorate.integration.verify.messages import batch_of
from quorate.integration.verify.wire import RawConnection
from quorate.integration.verify_client.exchanges import OWN_CLIENT_ID

_EVERY_S = 0.1
_VERSION = 9
_FIRST = 10
"""Records of the first batch in each partition."""


class Feeder:
    """Appends a record to each partition ten times a second, in a thread; a context manager.

    Records that a broker rejects or that are lost are not written again: each has a new number.
    """

    def __init__(self, cluster: EmbeddedCluster, topic: str) -> None:
        self._cluster = cluster
        self._topic = topic
        self._ended = threading.Event()
        self._connections: dict[int, RawConnection] = {}
        self._thread = threading.Thread(target=self._run, name="quorate-feeder", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def stop(self) -> bool:
        """Write no more records. Return whether the feeder had been started."""
        self._ended.set()
        if not self._thread.ident:
            return False
        self._thread.join()
        return True

    def _run(self) -> None:
        number, count = 0, _FIRST
        while not self._ended.is_set():
            values = [str(number + index).encode() for index in range(count)]
            number, count = number + count, 1
            for partition in list(self._cluster.core.topics[self._topic].partitions):
                self._append(partition.index, partition.leader, values)
            self._ended.wait(_EVERY_S)
        for connection in self._connections.values():
            connection.close()

    def _append(self, partition: int, leader: int, values: list[bytes]) -> None:
        part = PartitionProduceData(index=partition, records=batch_of(*values))
        request = ProduceRequest(
            acks=-1, timeout_ms=1_000, topic_data=(TopicProduceData(name=self._topic, partition_data=(part,)),)
        )
        try:
            if leader not in self._connections:
                port = self._cluster.core.brokers[leader].port
                self._connections[leader] = RawConnection("127.0.0.1", port, client_id=OWN_CLIENT_ID, timeout_s=2)
            self._connections[leader].request(request, _VERSION)
        except (OSError, KeyError, QuorateError):  # the broker has stopped, or the scenario has cut the connection
            connection = self._connections.pop(leader, None)
            if connection is not None:
                connection.close()
