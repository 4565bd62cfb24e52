"""What a check uses to talk to the cluster: requests by name, sent to the right broker.

A session belongs to one check. It names topics and groups with the prefix of the run, and records
each response in canonical form. While a recording is expected, the first response that differs
raises `DiffersError`.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from quorate.codecs import EncodeError, QuorateError
from quorate.codecs.api import api_of, encode_api
from quorate.codecs.api.declare import Api
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_codes_in
from quorate.codecs.message import Message
from quorate.integration.verify.canonical import Canonical, differences
from quorate.integration.verify.messages import batch_of, message_of
from quorate.integration.verify.target import NotSupportedError, VerifyTarget
from quorate.integration.verify.wire import RawConnection

_PATIENCE_S = 20
"""How long transient errors and late metadata may last."""
_TRANSIENT = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
    }
)
_JOINS = frozenset({"ConsumerGroupHeartbeat", "JoinGroup", "ShareGroupHeartbeat"})
CLOSED = "the broker closed the connection"
SILENT = "no response"


class DiffersError(QuorateError):
    """A response differs from the recording."""

    def __init__(self, step: "CheckStep", found: Sequence[tuple[str, Any, Any]]) -> None:
        path, expected, received = min(found, key=lambda each: "error_code" not in each[0])
        where = f" {path}" if path else ""
        super().__init__(f"{step.api} v{step.version}{where}: expected {expected!r}, received {received!r}")
        self.step = step
        self.differences = tuple(found)


@dataclass(frozen=True, slots=True)
class CheckStep:
    """A request of a check, with its response in canonical form."""

    api: str
    version: int
    response: Any


@dataclass(slots=True)
class CheckSession:
    """The requests of one check.

    `prefix`: of topics and groups. `expected`: the recorded steps; `None` while recording.
    """

    target: VerifyTarget
    prefix: str
    expected: Sequence[CheckStep] | None = None
    steps: list[CheckStep] = field(default_factory=list)
    _count: int = 0
    _canonical: Canonical = field(init=False)
    _connections: dict[tuple[str, str], RawConnection] = field(default_factory=dict)
    _members: dict[tuple[str, str, str], str | None] = field(default_factory=dict)
    _pending: dict[str, tuple[RawConnection, Message, int]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._canonical = Canonical(self.prefix)

    # ---- names

    def name(self, kind: str = "g") -> str:
        """Return a new name, of a group, a member or a topic."""
        self._count += 1
        return f"{self.prefix}{kind}{self._count}"

    def topic(self, partitions: int = 1, **configs: str) -> str:
        """Create a topic, and wait until all brokers know it. In configs, `__` stands for a dot."""
        name = self.name("t")
        named = [{"name": key.replace("__", "."), "value": value} for key, value in configs.items()]
        self.target.create_topic(name, partitions, named)
        return name

    # ---- requests

    def ask(
        self,
        api_name: str,
        version: int,
        *,
        client: str = "",
        at: str | None = None,
        until: Callable[[Any], bool] | None = None,
        transient: frozenset[ErrorCode] = _TRANSIENT,
        compared: bool = True,
        **fields: Any,
    ) -> Any:
        """Send a request, record the response, and return it.

        `version`: a broker without it gets the request in its newest version. `client`: requests
        with the same name share connections. `at`: a group whose coordinator gets the request.
        `until`: repeat the request until the response satisfies it, for changes that brokers see
        late. `transient`: errors after which it is repeated. `compared`: False for a response
        whose content is not the point of the check.

        Raises `NotSupportedError`, and `DiffersError`.
        """
        api = api_of(api_name)
        chosen = self.target.newest(api_name, version)
        request = self._message(api, fields, chosen)
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            response = self._exchange(api, request, chosen, client, at)
            settled = not isinstance(response, Message) or (
                not transient & set(error_codes_in(response)) and (until is None or until(response))
            )
            if settled or time.monotonic() > deadline:
                break
            time.sleep(0.05)
            self.target.forget_coordinators()
        if getattr(response, "error_code", None) == ErrorCode.UNSUPPORTED_VERSION:
            raise NotSupportedError(f"the broker has {api.name} v{chosen}, but responds UNSUPPORTED_VERSION")
        self._observe(request, response)
        if compared:
            self._record(api, chosen, response)
        return response

    def start(self, api_name: str, version: int, *, client: str, **fields: Any) -> None:
        """Send a request whose response comes later; `finish` with the same `client` returns it."""
        api = api_of(api_name)
        chosen = self.target.newest(api_name, version)
        request = self._message(api, fields, chosen)
        connection = self._connection(client, self.target.address_for(request))
        connection.send(request, chosen)
        self._pending[client] = (connection, request, chosen)

    def finish(self, client: str, *, compared: bool = True) -> Any:
        """Return and record the response to the request that `start` sent."""
        connection, request, version = self._pending.pop(client)
        response = self._receive(client, connection, type(request), version)
        self._observe(request, response)
        if compared:
            self._record(api_of(type(request)), version, response)
        return response

    def raw(self, api_key: int, version: int, body: bytes, *, flexible: bool = False) -> bytes | None:
        """Send any bytes to a broker; `None` if it closes the connection without a response.

        The response is recorded, without its correlation id.
        """
        connection = self.target.connect(self.target.bootstrap)
        try:
            connection.send_raw(api_key, version, body, flexible=flexible)
            frame = connection.frame()[4:]
        except ConnectionError:
            frame = None
        finally:
            connection.close()
        self._add(CheckStep(f"key {api_key}", version, CLOSED if frame is None else frame[:2].hex()))
        return frame

    def produce(self, topic: str, *values: bytes, transactional_id: str | None = None, **batch: Any) -> Any:
        """Append a batch to partition 0, and return the response. `batch`: see `batch_of`."""
        topics = [{"name": topic, "partition_data": [{"index": 0, "records": batch_of(*values, **batch)}]}]
        return self.ask("Produce", 9, acks=-1, timeout_ms=10_000, transactional_id=transactional_id, topic_data=topics)

    def close(self) -> None:
        """Remove members that joined, so that groups can be deleted; close connections."""
        self.expected = None
        for (api_name, group_id, member_id), instance_id in self._members.items():
            with suppress(QuorateError, OSError):
                leaving: dict[str, Any]
                if api_name == "JoinGroup":
                    leaving = {"member_id": member_id, "group_instance_id": instance_id}
                    self.ask("LeaveGroup", 4, compared=False, group_id=group_id, members=[leaving])
                else:
                    leaving = {"member_id": member_id, "member_epoch": -1, "instance_id": instance_id}
                    if api_name == "ShareGroupHeartbeat":
                        del leaving["instance_id"]
                    self.ask(api_name, 1, compared=False, group_id=group_id, **leaving)
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    # ---- inside

    def _message(self, api: Api, fields: Mapping[str, Any], version: int) -> Message:
        request: Message = message_of(api.request.cls, fields)
        try:
            encode_api(request, version)
        except EncodeError as error:
            raise NotSupportedError(f"{api.name} v{version} of the broker lacks a field: {error}") from None
        return request

    def _connection(self, client: str, address: tuple[str, int]) -> RawConnection:
        key = client, f"{address[0]}:{address[1]}"
        if key not in self._connections:
            self._connections[key] = self.target.connect(address)
        return self._connections[key]

    def _exchange(self, api: Api, request: Message, version: int, client: str, at: str | None) -> Any:
        address = self.target.address_for(request) if at is None else self.target.coordinator_of(at)
        connection = self._connection(client, address)
        try:
            connection.send(request, version)
        except ConnectionError:
            self._drop(connection)
            return CLOSED
        if api.name == "Produce" and getattr(request, "acks", None) == 0:
            return "no response to acks=0"
        return self._receive(client, connection, type(request), version)

    def _receive(self, client: str, connection: RawConnection, request: type[Message], version: int) -> Any:
        try:
            return connection.receive(request, version)
        except TimeoutError:
            self._drop(connection)
            return SILENT
        except ConnectionError:
            self._drop(connection)
            return CLOSED

    def _observe(self, request: Any, response: Any) -> None:
        """Remember members that joined, until the end of the check."""
        name = api_of(type(request)).name
        if name in _JOINS and getattr(response, "error_code", None) == 0:
            member_id = response.member_id or request.member_id
            instance_id = getattr(request, "group_instance_id", None) or getattr(request, "instance_id", None)
            self._members[name, request.group_id, member_id] = instance_id

    def _drop(self, connection: RawConnection) -> None:
        connection.close()
        for key in [key for key, known in self._connections.items() if known is connection]:
            del self._connections[key]

    def _record(self, api: Api, version: int, response: Any) -> None:
        shape = self._canonical.of(response, version) if isinstance(response, Message) else response
        self._add(CheckStep(api.name, version, shape))

    def _add(self, step: CheckStep) -> None:
        self.steps.append(step)
        if self.expected is None:
            return
        index = len(self.steps) - 1
        if index >= len(self.expected):
            raise DiffersError(step, [("", "no further request", step.response)])
        if found := differences(self.expected[index].response, step.response):
            raise DiffersError(step, found)
