"""How a node handles errors of the container engine; no engine is needed."""

from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError

from quorate.integration import ClusterError
from quorate.integration.containers.node import Node

pytestmark = pytest.mark.without_containers

FREEZE = "Cannot pause container a021: OCI runtime pause failed: unable to freeze: unknown"


LOG = """\
2026-11-27T15:24:38.001 [kafka-1-raft] INFO KafkaRaftClient - a follower now
2026-11-27T15:24:38.338 [broker-1-to-controller] WARN NetworkClient - connecting to broker-3 failed
java.net.SocketException: Invalid argument
\tat java.base/sun.nio.ch.Net.connect0(Native Method)
Caused by: java.io.IOException: closed
2026-11-27T15:24:39.000 [kafka-1-event] ERROR QuorumController - stopped
"""
EXCERPT = """\
2026-11-27T15:24:38.338 [broker-1-to-controller] WARN NetworkClient - connecting to broker-3 failed
java.net.SocketException: Invalid argument
Caused by: java.io.IOException: closed
2026-11-27T15:24:39.000 [kafka-1-event] ERROR QuorumController - stopped"""


def node_that_refuses(*reasons: str) -> tuple[Node, list[str]]:
    """Return a node whose pause fails for these reasons first, and the pending reasons."""
    left = list(reasons)

    def pause() -> None:
        if left:
            raise APIError("500 Server Error", explanation=left.pop(0))

    given: Any = {"session": SimpleNamespace(name="test"), "network": None, "ports": {}, "environment": {}}
    node = Node(number=1, name="broker-1", heap_mb=1, version="4.3.1", rack=None, **given)
    node._container = SimpleNamespace(pause=pause)  # type: ignore[assignment]
    return node, left


def test_a_pause_is_repeated_where_a_busy_machine_does_not_freeze_at_once() -> None:
    node, left = node_that_refuses(FREEZE, FREEZE)
    node.pause()
    assert not left


def test_a_pause_that_the_engine_refuses_is_not_repeated() -> None:
    node, left = node_that_refuses("container a021 is not running", FREEZE)
    with pytest.raises(ClusterError, match="broker-1 cannot be paused: the container engine refuses: container a021"):
        node.pause()
    assert left == [FREEZE]


def test_an_excerpt_of_the_log_has_each_exception_after_the_line_with_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    node, _ = node_that_refuses()
    monkeypatch.setattr(node, "log", lambda: LOG)
    assert node.log_excerpt() == EXCERPT
    assert node.log_excerpt(1) == EXCERPT.splitlines()[-1]
