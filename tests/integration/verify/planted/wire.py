"""Requests to brokers for clients with planted faults: addresses, coordinators, throttling.

The programs of this folder keep all rules of `quorate verify-client`, unless a fault is named.
"""

import os
import signal
import sys
import time
from contextlib import suppress
from typing import Any

from quorate.codecs.api import api_of
from quorate.codecs.api.broker import ApiVersionsRequest, FindCoordinatorRequest, MetadataRequest
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify.wire import RawConnection

BACKOFF_S = 0.1
FAULTS = frozenset(sys.argv[2:])
TOPIC, GROUP, CLIENT = (os.environ[f"QUORATE_{name}"] for name in ("TOPIC", "GROUP", "CLIENT_ID"))
TRANSACTIONAL_ID, RACK = os.environ["QUORATE_TRANSACTIONAL_ID"], os.environ["QUORATE_RACK"]
CALLBACK_S = int(os.environ["QUORATE_CALLBACK_MS"]) / 1000
MOVED = (ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE)


class Once:
    """Faults that happen once."""

    def __init__(self) -> None:
        self._done: set[str] = set()

    def __call__(self, fault: str) -> bool:
        """Return whether a fault is named, for the first time."""
        if fault not in FAULTS or fault in self._done:
            return False
        self._done.add(fault)
        return True


once = Once()


class Stop:
    """True from SIGTERM on."""

    def __init__(self) -> None:
        self.stopped = False
        signal.signal(signal.SIGTERM, self._stop)

    def _stop(self, *_: object) -> None:
        self.stopped = True

    def __bool__(self) -> bool:
        return self.stopped


class Wire:
    """Connections to all brokers, one for each broker and purpose."""

    def __init__(self) -> None:
        first = os.environ["QUORATE_BOOTSTRAP"].split(",")
        self.addresses = {-1 - number: each for number, each in enumerate(first)}
        self.leaders: dict[int, int] = {}
        self.topic_id: Any = None
        self.coordinator: int | None = None
        self._open: dict[tuple[int, str], RawConnection] = {}
        self._blocked: dict[int, float] = {}

    def connection(self, broker: int, purpose: str = "") -> RawConnection:
        """Return a connection. Raises `OSError`."""
        key = (broker, purpose)
        if key not in self._open:
            host, port = self.addresses[broker].rsplit(":", 1)
            made = RawConnection(host, int(port), client_id=CLIENT, timeout_s=5)
            if "no-api-versions" not in FAULTS:
                try:
                    request = ApiVersionsRequest(client_software_name="planted", client_software_version="1")
                    made.request(request, 3)
                except OSError:
                    made.close()
                    raise
            self._open[key] = made
        return self._open[key]

    def drop(self, broker: int, purpose: str = "") -> None:
        """Close a connection that has failed."""
        connection = self._open.pop((broker, purpose), None)
        if connection is not None:
            connection.close()

    def ask(self, broker: int, request: Any, version: int, purpose: str = "") -> Any:
        """Send a request, and return the response, or `None` if it was lost."""
        while broker in self._blocked and time.monotonic() < self._blocked[broker] and "ignore-throttle" not in FAULTS:
            time.sleep(0.02)
        try:
            response = self.connection(broker, purpose).request(request, version)
        except OSError:
            self.drop(broker, purpose)
            if "hot-connections" in FAULTS:
                self.open_again(broker)
            else:
                time.sleep(BACKOFF_S)
            return None
        if getattr(response, "throttle_time_ms", 0):
            self._blocked[broker] = time.monotonic() + response.throttle_time_ms / 1000
        return response

    def open_again(self, broker: int) -> None:
        """Open a connection sixty times at once."""
        with suppress(OSError):
            for _ in range(60):
                self.connection(broker, "again")
                self.drop(broker, "again")

    def any_broker(self, request: Any, version: int) -> Any:
        """Send a request to brokers until one responds."""
        for _ in range(100):
            for broker in sorted(self.addresses, reverse=True):
                response = self.ask(broker, request, version, "any")
                if response is not None:
                    return response
        raise SystemExit("no broker responds")

    def refresh(self) -> None:
        """Request the brokers, and the leaders of the topic."""
        found = self.any_broker(MetadataRequest(topics=(MetadataRequestTopic(name=TOPIC),)), 12)
        self.addresses.update({each.node_id: f"{each.host}:{each.port}" for each in found.brokers})
        for topic in found.topics:
            self.topic_id = topic.topic_id
            self.leaders = {part.partition_index: part.leader_id for part in topic.partitions}

    def find(self, key: str, key_type: int = 0) -> int:
        """Look a coordinator up, until it is found."""
        while self.coordinator is None:
            found = self.any_broker(FindCoordinatorRequest(coordinator_keys=(key,), key_type=key_type), 4)
            if found.coordinators[0].error_code:
                time.sleep(BACKOFF_S)
            else:
                self.coordinator = found.coordinators[0].node_id
        return self.coordinator

    def to_coordinator(self, request: Any, version: int) -> Any:
        """Send a request to the group's coordinator; looks it up again after NOT_COORDINATOR."""
        response = self.ask(self.find(GROUP), request, version, "group")
        if response is None:
            self.coordinator = None
        elif codes(response) & set(MOVED):
            if "old-coordinator" in FAULTS and self.stubborn < 6:
                self.stubborn += 1
            else:
                self.coordinator = None
                self.stubborn = 0
        return response

    stubborn = 0

    def unsupported(self) -> None:
        """Send a request in a version that no broker has."""
        connection = self.connection(self.find(GROUP), "unsupported")
        with suppress(OSError):
            connection.send_raw(api_of("OffsetCommit").key, 99, b"", flexible=False)
            connection.is_closed()
        self.drop(self.find(GROUP), "unsupported")


def codes(response: Any) -> set[int]:
    """Return the error codes of a response of a group, without NONE."""
    found = {getattr(response, "error_code", 0)}
    for topic in getattr(response, "topics", ()):
        found |= {part.error_code for part in topic.partitions}
    return found - {0}
