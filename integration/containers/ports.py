"""Ports of this host, chosen before a container starts: brokers advertise them, and keep them over restarts."""

import random
import socket
from contextlib import suppress

from quorate.integration.errors import ClusterError

__all__ = ["free_ports"]


def free_ports(count: int) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on, below those that the system hands out for outgoing connections, which would take them away again."""
    found: list[int] = []
    for port in random.sample(range(20_000, 32_000), 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise ClusterError("no free port of 127.0.0.1 between 20000 and 32000")
