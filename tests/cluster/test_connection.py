"""A connection without a socket, for requests that arrive one by one, together or in pieces."""

import asyncio
from collections.abc import Iterator
from struct import pack

import pytest

from quorate.cluster import Delay, EmbeddedCluster, ManualClock, Security
from quorate.cluster.broker import Broker
from quorate.cluster.connection import Connection
from quorate.codecs.api import HeartbeatRequest, api_of, encode_api
from quorate.codecs.api.broker import ListOffsetsRequest, MetadataRequest, SaslHandshakeRequest
from quorate.codecs.message import Message


class Written(asyncio.Transport):
    """Keeps each write.

    `limit_bytes`: after so many bytes the client is taken to read nothing.
    """

    def __init__(self, connection: Connection, limit_bytes: int | None = None) -> None:
        super().__init__()
        self.connection = connection
        self.limit_bytes = limit_bytes
        self.writes: list[bytes] = []
        self.closed = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        assert not self.closed
        self.writes.append(bytes(data))
        if self.limit_bytes is not None and sum(map(len, self.writes)) > self.limit_bytes:
            self.connection.pause_writing()

    def close(self) -> None:
        self.closed = True

    abort = close

    @property
    def correlation_ids(self) -> list[int]:
        """Return the correlation ids of the responses, in order."""
        found, data = [], b"".join(self.writes)
        while data:
            size = int.from_bytes(data[:4], "big")
            assert len(data) >= 4 + size
            found.append(int.from_bytes(data[4:8], "big"))
            data = data[4 + size :]
        return found


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def broker(clock: ManualClock) -> Iterator[Broker]:
    made = EmbeddedCluster(clock=clock, seed=1)
    made.core.brokers[1].serving = True
    made.core.register(made.core.brokers[1])
    yield made.core.brokers[1]
    assert made.core.failures == []
    made.core.close()


def connect(broker: Broker, limit_bytes: int | None = None) -> tuple[Connection, Written]:
    connection = Connection(broker)
    transport = Written(connection, limit_bytes)
    connection.connection_made(transport)
    return connection, transport


def frame(request: Message, version: int, number: int, client: bytes = b"c") -> bytes:
    api = api_of(type(request))
    head = pack(">hhih", api.key, version, number, len(client)) + client
    head += b"\0" if api.request_header_version(version) == 2 else b""
    body = encode_api(request, version)
    return (len(head) + len(body)).to_bytes(4, "big") + head + body


def metadata(number: int) -> bytes:
    return frame(MetadataRequest(topics=()), 12, number)


NO_REQUEST = b"\0\0\0\x0a" + pack(">hhih", 999, 0, 1, -1)


def test_responses_to_requests_that_arrive_together_are_sent_together_in_order(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.cluster.connection.perf_counter", lambda: 0.0)  # all are served in one turn
    connection, sent = connect(broker)
    connection.data_received(b"".join(map(metadata, range(50))))
    assert (sent.correlation_ids, len(sent.writes)) == (list(range(50)), 1)
    connection.data_received(metadata(50))
    assert (sent.correlation_ids, len(sent.writes)) == (list(range(51)), 2)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 30, 97])
def test_requests_in_pieces_get_a_response_once_they_are_complete(broker: Broker, size: int) -> None:
    connection, sent = connect(broker)
    data = b"".join(map(metadata, range(10)))
    length = len(metadata(0))
    for place in range(0, len(data), size):
        connection.data_received(data[place : place + size])
        assert sent.correlation_ids == list(range(min(place + size, len(data)) // length))


def test_responses_before_an_invalid_request_are_still_sent(broker: Broker) -> None:
    connection, sent = connect(broker)
    connection.data_received(metadata(1) + metadata(2) + NO_REQUEST + metadata(3))
    assert (sent.correlation_ids, sent.closed) == ([1, 2], True)


def test_responses_do_not_wait_for_a_later_waiting_request(broker: Broker, clock: ManualClock) -> None:
    connection, sent = connect(broker)
    broker.cluster.faults.add(Delay(10), api="ListOffsets")
    connection.data_received(metadata(1) + metadata(2) + frame(ListOffsetsRequest(), 7, 3) + metadata(4) + metadata(5))
    assert sent.correlation_ids == [1, 2]
    clock.advance(10)
    assert sent.correlation_ids == [1, 2, 3, 4, 5]


def test_requests_of_a_client_that_does_not_read_wait(broker: Broker) -> None:
    for number in range(100):
        broker.cluster.create_topic(f"{number:0>200}", partitions=1, replicas=1)
    connection, sent = connect(broker, limit_bytes=1_000)
    requested = MetadataRequest(topics=None)
    connection.data_received(b"".join(frame(requested, 12, number) for number in range(20)))
    assert sum(map(len, sent.writes)) < 100_000
    assert 0 < len(sent.correlation_ids) < 20
    sent.limit_bytes = None
    connection.resume_writing()
    assert sent.correlation_ids == list(range(20))


def test_an_identical_request_is_decoded_once(broker: Broker) -> None:
    broker.cluster.faults.recording = True
    connection, sent = connect(broker)
    beat, other = HeartbeatRequest(group_id="g", member_id="m"), HeartbeatRequest(group_id="g", member_id="n")
    for number, request in enumerate((beat, beat, other, beat)):
        connection.data_received(frame(request, 4, number))
    connection.data_received(frame(beat, 3, 4))
    connection.data_received(frame(beat, 3, -5, client=b"d"))
    seen = list(broker.cluster.faults.seen)
    assert [one.request for one in seen] == [beat, beat, other, beat, beat, beat]
    assert [(one.version, one.client_id) for one in seen[3:]] == [(4, "c"), (3, "c"), (3, "d")]
    assert seen[0].request is seen[1].request
    assert sent.correlation_ids == [0, 1, 2, 3, 4, (1 << 32) - 5]


def test_a_fault_applies_to_an_identical_request(broker: Broker, clock: ManualClock) -> None:
    connection, sent = connect(broker)
    connection.data_received(metadata(1))
    delayed = broker.cluster.faults.add(Delay(10), api="Metadata", times=1)
    connection.data_received(metadata(2))
    assert (sent.correlation_ids, delayed.happened) == ([1], 1)
    clock.advance(10)
    assert sent.correlation_ids == [1, 2]


def test_sasl_tokens_without_headers_get_responses_in_order() -> None:
    made = EmbeddedCluster(security=Security(users={"u": "p"}), seed=1)
    made.core.brokers[1].serving = True
    connection, sent = connect(made.core.brokers[1])
    token = b"\0u\0p"
    handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1)
    connection.data_received(handshake + len(token).to_bytes(4, "big") + token + metadata(2))
    data = b"".join(sent.writes)
    first = 4 + int.from_bytes(data[:4], "big")
    assert data[4:8] == (1).to_bytes(4, "big")
    assert data[first : first + 4] == bytes(4)  # an empty token: authenticated
    assert data[first + 8 : first + 12] == (2).to_bytes(4, "big")
    made.core.close()
