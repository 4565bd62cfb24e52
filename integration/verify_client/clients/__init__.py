"""Ready commands for `quorate verify-client`: programs that consume or produce with Python clients.

Each module is a program: `python -m quorate.integration.verify_client.clients.aiokafka consume`.
They run until SIGTERM, and commit often.
"""

import sys
from collections.abc import Mapping, Sequence
from importlib.util import find_spec

__all__ = ["CLIENTS", "client_command", "missing_package"]

_PACKAGE = "quorate.integration.verify_client.clients"

CLIENTS: Mapping[str, tuple[str, str]] = {
    "kafka-python": ("kafka_python", "consume"),
    "kafka-python-producer": ("kafka_python", "produce"),
    "kafka-python-transactions": ("kafka_python", "transact"),
    "aiokafka": ("aiokafka", "consume"),
    "aiokafka-producer": ("aiokafka", "produce"),
    "aiokafka-transactions": ("aiokafka", "transact"),
    "confluent-kafka": ("confluent_kafka", "consume"),
    "confluent-kafka-classic": ("confluent_kafka", "consume-classic"),
    "confluent-kafka-producer": ("confluent_kafka", "produce"),
    "confluent-kafka-transactions": ("confluent_kafka", "transact"),
    "quorate": ("kafka_python", "consume-consumer"),
    "quorate-aiokafka": ("aiokafka", "consume-consumer"),
}
"""Name → module and what it does. `quorate` and `quorate-aiokafka` are those of
`quorate.consumers`, with the consumer protocol.
"""


_PACKAGES = {"confluent_kafka": "confluent-kafka", "aiokafka": "quorate[aiokafka]"}
"""Module → what pip installs for it, beyond quorate itself."""


def missing_package(name: str) -> str | None:
    """Return what pip has to install for a ready client; `None` if nothing is missing."""
    module, _ = CLIENTS[name]
    return _PACKAGES[module] if module in _PACKAGES and find_spec(module) is None else None


def client_command(name: str) -> Sequence[str]:
    """Return the command that runs a ready client."""
    module, action = CLIENTS[name]
    return [sys.executable, "-P", "-m", f"{_PACKAGE}.{module}", action]
