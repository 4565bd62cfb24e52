"""A minimal client for benchmarks: requests over one connection, topics, and FindCoordinator."""

import socket
import time

from confluent_kafka.admin import AdminClient, NewTopic

from quorate.codecs.api.broker import FindCoordinatorRequest
from quorate.integration.verify.wire import RawConnection

CLIENT = "consumer-orders-1"
"""The id of the client."""


class Wire(RawConnection):
    """One connection to a server."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        super().__init__(host, int(port), client_id=CLIENT, timeout_s=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


def make_topic(address: str, topic: str, partitions: int) -> None:
    """Create a topic with one replica per partition."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result()


def find_coordinator(wire: Wire, group: str) -> None:
    """Repeat FindCoordinator until the broker is a group's coordinator."""
    while wire.request(FindCoordinatorRequest(coordinator_keys=(group,)), 4).coordinators[0].error_code:
        time.sleep(0.2)
