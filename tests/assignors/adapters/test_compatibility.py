"""An adapter rejects a client that lacks a name it uses, and checks all private names it uses."""

import ast
import inspect
import subprocess
import sys

import pytest

from quorate.assignors.adapters import (
    aiokafka,
    aiokafka_consumer,
    aiokafka_requests,
    aiokafka_requirements,
    kafka_python,
    kafka_python_consumer,
    kafka_python_requirements,
    shared,
)
from quorate.assignors.adapters.compatibility import Requirements, UnsupportedClientError, check

CLIENTS = {
    "kafka-python": (kafka_python_requirements, kafka_python_consumer, kafka_python, shared),
    "aiokafka": (aiokafka_requirements, aiokafka_consumer, aiokafka, aiokafka_requests, shared),
}
METHODS = [
    (client, need.kind, name)
    for client, modules in CLIENTS.items()
    for need in modules[0].REQUIREMENTS
    for name in {**need.replaces, **need.calls}
]


class Base:
    def __init__(self):
        self._inherited = 1


class Client(Base):
    def __init__(self):
        super().__init__()
        self._state = self.name = 2

    @property
    def leader(self):
        return None

    def poll(self, timeout_ms=None): ...

    def seek(self, at, offset=0): ...


@pytest.mark.parametrize(
    ("needs", "fault"),
    [
        (Requirements(kind=Client, replaces={"pull": "timeout_ms"}), "Client has no method pull"),
        (Requirements(kind=Client, calls={"leader": ""}), "Client has no method leader"),
        (
            Requirements(kind=Client, replaces={"poll": "limit_ms"}),
            r"Client.poll takes \(timeout_ms\), not \(limit_ms\)",
        ),
        (Requirements(kind=Client, replaces={"poll": ""}), r"Client.poll takes \(timeout_ms\), not \(\)"),
        (Requirements(kind=Client, calls={"seek": ""}), r"Client.seek takes \(at, offset\), not \(\)"),
        (Requirements(kind=Client, attributes=("_state", "_status")), "Client has no _status"),
    ],
)
def test_missing_or_changed_names_are_reported(needs, fault):
    with pytest.raises(
        UnsupportedClientError, match=f"does not support aiokafka [0-9.]+: {fault}; it was written for 0.14"
    ):
        check("aiokafka", "0.14", [needs])


def test_a_client_may_have_more_than_is_needed():
    calls = {"seek": "at", "poll": ""}
    attributes = ("_state", "_inherited", "name", "leader")
    check(
        "aiokafka",
        "0.14",
        [
            Requirements(kind=Client, replaces={"poll": "timeout_ms"}, attributes=attributes),
            Requirements(kind=Client, calls=calls),
        ],
    )


@pytest.mark.parametrize(("client", "kind", "name"), METHODS, ids=lambda one: getattr(one, "__name__", one))
def test_a_renamed_method_is_noticed(client, kind, name, monkeypatch):
    (owner,) = [cls for cls in kind.__mro__ if name in vars(cls)][:1]
    rest = [cls for cls in kind.__mro__ if name in vars(cls)][1:]
    for cls in (owner, *rest):
        monkeypatch.delattr(cls, name)
    with pytest.raises(UnsupportedClientError, match=f"{kind.__name__} has no method {name}"):
        check(client, CLIENTS[client][0].SUPPORTED, CLIENTS[client][0].REQUIREMENTS)


@pytest.mark.parametrize("client", CLIENTS)
def test_every_private_name_that_is_used_is_checked(client):
    checked = {
        name for need in CLIENTS[client][0].REQUIREMENTS for name in (*need.replaces, *need.calls, *need.attributes)
    }
    ours = {
        name
        for module in CLIENTS[client]
        for one in vars(module).values()
        if inspect.isclass(one) and one.__module__ == module.__name__
        for name in names_of(one)
    }
    used = {
        node.attr
        for module in CLIENTS[client]
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__")
    }
    assert used - ours - checked == set()
    assert used & checked


def names_of(cls):
    """Names that a class of ours has or makes."""
    made = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(sys.modules[cls.__module__])))
        if isinstance(node, ast.Attribute)
        and isinstance(node.ctx, ast.Store)
        and getattr(node.value, "id", "") == "self"
    }
    return made | set(vars(cls))


@pytest.mark.parametrize(
    ("client", "setup", "message"),
    [
        (
            "kafka_python",
            "from kafka.coordinator.consumer import ConsumerCoordinator as C; "
            "C._assign = C._perform_assignment; del C._perform_assignment",
            "does not support kafka-python 3.",
        ),
        (
            "aiokafka",
            "from aiokafka.consumer.group_coordinator import GroupCoordinator as C; del C._send_req",
            "does not support aiokafka 0.",
        ),
        (
            "aiokafka",
            "import aiokafka.protocol.group as g; del g.HeartbeatRequest_v1",
            "cannot import name 'HeartbeatRequest_v1'",
        ),
        (
            "kafka_python",
            "import sys, kafka; sys.modules['kafka.protocol.consumer.metadata'] = None",
            "does not support kafka-python 3.",
        ),
    ],
)
def test_importing_the_adapter_of_an_unsupported_client_fails(client, setup, message):
    code = f"{setup}\nfrom quorate.assignors.adapters import {client}"
    ended = subprocess.run(
        [sys.executable, "-P", "-W", "ignore", "-c", code], capture_output=True, text=True, timeout=300
    )
    last = ended.stderr.strip().splitlines()[-1]
    assert message in last
    assert "; it was written for" in last
