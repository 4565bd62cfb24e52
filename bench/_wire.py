"""A minimal client for benchmarks: requests over one connection, topics, and FindCoordinator."""

import socket
import time
from struct import Struct
from typing import Any

from confluent_kafka.admin import AdminClient, NewTopic

from quorate.codecs.api import api_of, decode_api, encode_api
from quorate.codecs.api.broker import FindCoordinatorRequest
from quorate.codecs.message import Message

_HEADER = Struct(">hhih")
_CLIENT = b"consumer-orders-1"


class Wire:
    """One connection, for one request at a time; supports flexible versions only."""

    def __init__(self, address: str) -> None:
        host, port = address.split(":")
        self.socket = socket.create_connection((host, int(port)))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def frame(self, request: Message, version: int) -> bytes:
        """Return the bytes of a request, with size and header."""
        head = _HEADER.pack(api_of(type(request)).key, version, 1, len(_CLIENT)) + _CLIENT + b"\0"
        body = encode_api(request, version)
        return (len(head) + len(body)).to_bytes(4, "big") + head + body

    def send(self, request: Message, version: int) -> None:
        self.socket.sendall(self.frame(request, version))

    def request(self, request: Message, version: int) -> Any:
        """Send a request and return the response."""
        self.send(request, version)
        return self.receive(type(request), version)

    def receive(self, request: type[Message], version: int) -> Any:
        """Return the next response, to a request of this class."""
        api = api_of(request)
        position = 8 + api.response_header_version(version)
        return decode_api(api.response.cls, self.receive_bytes(), version, position=position)

    def receive_bytes(self) -> bytes:
        """Return the bytes of the next response, with its size."""
        found = self.socket.recv(65_536)
        size = 4 + int.from_bytes(found[:4], "big")
        while len(found) < size:
            found += self.socket.recv(65_536)
        return found


def make_topic(address: str, topic: str, partitions: int) -> None:
    """Create a topic with one replica per partition."""
    admin = AdminClient({"bootstrap.servers": address})
    for future in admin.create_topics([NewTopic(topic, partitions, 1)]).values():
        future.result()


def find_coordinator(wire: Wire, group: str) -> None:
    """Repeat FindCoordinator until the broker is a group's coordinator."""
    while wire.request(FindCoordinatorRequest(coordinator_keys=(group,)), 4).coordinators[0].error_code:
        time.sleep(0.2)
