"""Ports of this host, chosen before a container starts: brokers advertise them, and keep them over restarts."""

import random
import socket
from collections.abc import Collection
from contextlib import suppress

from quorate.cluster.errors import ClusterError

__all__ = ["accepts", "free_ports"]

_PATIENCE_S = 0.2


def free_ports(count: int, avoid: Collection[int] = ()) -> list[int]:
    """Ports of 127.0.0.1 that nothing listens on, below those that the system hands out for outgoing connections, which would take them away again.

    `avoid`: ports of brokers that are stopped at the moment.
    """
    found: list[int] = []
    for port in random.sample([port for port in range(20_000, 32_000) if port not in avoid], 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise ClusterError("no free port of 127.0.0.1 between 20000 and 32000")


def accepts(port: int) -> bool:
    """Whether something listens behind a port of 127.0.0.1 and keeps the connection.

    The engine's proxy accepts connections before the broker does, and then closes them. A Kafka
    client would log that as an error, and try ever more rarely.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(_PATIENCE_S)
            return connection.recv(1) != b""
    except TimeoutError:
        return True  # it waits for us to speak
    except OSError:
        return False
