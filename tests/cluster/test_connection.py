"""One connection without a socket: what is written when, for requests that come one by one, many at once, or in pieces."""

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
    """Keeps what is written, each time apart.

    `limit_bytes`: behind so many the client is taken to read nothing.
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
    def answered(self) -> list[int]:
        """Correlation ids of the answers, in their order."""
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


def test_requests_that_come_together_are_answered_together_and_in_order(
    broker: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("quorate.cluster.connection.perf_counter", lambda: 0.0)  # they are served in time for one turn
    connection, sent = connect(broker)
    connection.data_received(b"".join(map(metadata, range(50))))
    assert (sent.answered, len(sent.writes)) == (list(range(50)), 1)
    connection.data_received(metadata(50))
    assert (sent.answered, len(sent.writes)) == (list(range(51)), 2)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 30, 97])
def test_requests_in_pieces_are_answered_once_they_are_whole(broker: Broker, size: int) -> None:
    connection, sent = connect(broker)
    data = b"".join(map(metadata, range(10)))
    length = len(metadata(0))
    for place in range(0, len(data), size):
        connection.data_received(data[place : place + size])
        assert sent.answered == list(range(min(place + size, len(data)) // length))


def test_what_was_answered_before_bytes_that_are_no_request_is_still_sent(broker: Broker) -> None:
    connection, sent = connect(broker)
    connection.data_received(metadata(1) + metadata(2) + NO_REQUEST + metadata(3))
    assert (sent.answered, sent.closed) == ([1, 2], True)


def test_answers_do_not_wait_for_a_request_behind_them_that_waits(broker: Broker, clock: ManualClock) -> None:
    connection, sent = connect(broker)
    broker.cluster.faults.add(Delay(10), api="ListOffsets")
    connection.data_received(metadata(1) + metadata(2) + frame(ListOffsetsRequest(), 7, 3) + metadata(4) + metadata(5))
    assert sent.answered == [1, 2]
    clock.advance(10)
    assert sent.answered == [1, 2, 3, 4, 5]


def test_a_client_that_reads_nothing_has_its_requests_wait(broker: Broker) -> None:
    for number in range(100):
        broker.cluster.create_topic(f"{number:0>200}", partitions=1, replicas=1)
    connection, sent = connect(broker, limit_bytes=1_000)
    asked = MetadataRequest(topics=None)
    connection.data_received(b"".join(frame(asked, 12, number) for number in range(20)))
    assert sum(map(len, sent.writes)) < 100_000
    assert 0 < len(sent.answered) < 20
    sent.limit_bytes = None
    connection.resume_writing()
    assert sent.answered == list(range(20))


def test_a_request_that_is_repeated_word_for_word_is_read_once(broker: Broker) -> None:
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
    assert sent.answered == [0, 1, 2, 3, 4, (1 << 32) - 5]


def test_a_fault_befalls_a_repeated_request_as_it_does_the_first(broker: Broker, clock: ManualClock) -> None:
    connection, sent = connect(broker)
    connection.data_received(metadata(1))
    delayed = broker.cluster.faults.add(Delay(10), api="Metadata", times=1)
    connection.data_received(metadata(2))
    assert (sent.answered, delayed.happened) == ([1], 1)
    clock.advance(10)
    assert sent.answered == [1, 2]


def test_steps_of_a_login_without_headers_are_answered_behind_what_came_before_them() -> None:
    made = EmbeddedCluster(security=Security(users={"u": "p"}), seed=1)
    made.core.brokers[1].serving = True
    connection, sent = connect(made.core.brokers[1])
    token = b"\0u\0p"
    handshake = frame(SaslHandshakeRequest(mechanism="PLAIN"), 0, 1)
    connection.data_received(handshake + len(token).to_bytes(4, "big") + token + metadata(2))
    data = b"".join(sent.writes)
    first = 4 + int.from_bytes(data[:4], "big")
    assert data[4:8] == (1).to_bytes(4, "big")
    assert data[first : first + 4] == bytes(4)  # nothing more to say: logged in
    assert data[first + 8 : first + 12] == (2).to_bytes(4, "big")
    made.core.close()
