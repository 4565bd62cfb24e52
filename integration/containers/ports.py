"""Ports of this host. They are chosen before containers start, because brokers advertise them."""

import random
import socket
from collections.abc import Collection
from contextlib import suppress

from quorate.cluster.errors import ClusterError

_OPEN_S = 0.2


def free_ports(count: int, avoid: Collection[int] = ()) -> list[int]:
    """Return free ports of 127.0.0.1, below the range of ephemeral ports.

    `avoid`: ports of stopped brokers. Raises `ClusterError` if too few are free.
    """
    found: list[int] = []
    for port in random.sample([port for port in range(20_000, 32_000) if port not in avoid], 1000):
        with suppress(OSError), socket.create_server(("127.0.0.1", port)):
            found.append(port)
        if len(found) == count:
            return found
    raise ClusterError("no free port of 127.0.0.1 between 20000 and 32000")


def accepts(port: int) -> bool:
    """Return whether a port of 127.0.0.1 accepts a connection and keeps it open.

    The engine's proxy accepts connections before the broker listens, and then closes them. A Kafka
    client would log that as an error and back off.
    """
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(_OPEN_S)
            return connection.recv(1) != b""
    except TimeoutError:
        return True  # it waits for a request
    except OSError:
        return False
