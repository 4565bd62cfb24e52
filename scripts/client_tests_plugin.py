"""Pytest plugin of client_tests.py: replaces the client's consumer, and marks known failures."""

import os
import sys
from types import ModuleType
from typing import Any
from urllib.parse import urlparse

import pytest

CLIENT, PROTOCOL = os.environ["QUORATE_CLIENT"], os.environ["QUORATE_PROTOCOL"]
SERVER = urlparse(os.environ["KAFKA_URI"])

LISTENERS = "listeners receive only partitions that move, and no call without any"
CONFIGS = "the brokers decide the session timeout and the heartbeat interval"
INTERNALS = "the test replaces or reads parts of aiokafka's classic coordinator"
EMPTY = "the first assignment of a member is empty while another one has to revoke partitions"

DIFFERENCES: dict[tuple[str, str], dict[str, str]] = {
    ("aiokafka", "consumer"): {
        "test_consumer_invalid_crc_in_records": "the test expects each response to be a class of aiokafka",
        "test_consumer_invalid_session_timeout": CONFIGS,
        "test_consumer_position": "partitions that stay keep their positions when the subscription changes",
        "test_consumer_propagates_coordinator_errors": INTERNALS,
        "test_consumer_propagates_heartbeat_errors": INTERNALS,
        "test_consumer_rebalance_on_new_topic": LISTENERS,
        "test_kafka_consumer_sets_coordinator_values": CONFIGS,
        "test_kip_345_disabled": LISTENERS,
        "test_kip_345_enabled": LISTENERS,
        "test_max_poll_interval_ms": EMPTY,
        "test_offset_behavior__resuming_behavior": EMPTY,
        "test_rebalance_listener_with_coroutines": LISTENERS,
    }
}
"""Tests that fail in a protocol, by client, each with the reason."""


def adapted(kind: Any, classic_only: tuple[str, ...]) -> Any:
    """Return a subclass that uses the protocol, without the configs that brokers decide in it."""

    class Consumer(kind):  # type: ignore[misc]
        def __init__(self, *topics: str, **configs: Any) -> None:
            if PROTOCOL == "consumer" and configs.get("group_id") is not None:
                configs = {name: value for name, value in configs.items() if name not in classic_only}
                configs["group_protocol"] = "consumer"
            super().__init__(*topics, **configs)

    return Consumer


def _use_in_kafka_python() -> None:
    import kafka
    import kafka.consumer

    from quorate.consumers import kafka_python as ours

    kafka.KafkaConsumer = kafka.consumer.KafkaConsumer = adapted(ours.KafkaConsumer, ours.CLASSIC_ONLY)

    class ExternalService:
        def __init__(self, host: str, port: int) -> None:
            self.host, self.port = host, port

        def close(self) -> None:
            pass

    # The sdist lacks this module, which starts a broker.
    service: Any = ModuleType("test.service")
    service.ExternalService = service.SpawnedService = ExternalService
    sys.modules["test.service"] = service


def _use_in_aiokafka() -> None:
    import aiokafka
    import aiokafka.consumer

    from quorate.consumers import aiokafka as ours

    consumer = adapted(ours.AIOKafkaConsumer, ours.CLASSIC_ONLY)
    aiokafka.AIOKafkaConsumer = aiokafka.consumer.AIOKafkaConsumer = consumer


if CLIENT == "kafka-python":
    _use_in_kafka_python()
else:
    _use_in_aiokafka()

    import asyncio

    @pytest.fixture(scope="class")
    def setup_test_class(request: Any) -> Any:
        """Give a test class of aiokafka a broker and a loop."""
        loop = asyncio.new_event_loop()
        request.cls.loop = loop
        request.cls.kafka_host, request.cls.kafka_port = SERVER.hostname, SERVER.port
        request.cls.hosts = [f"{SERVER.hostname}:{SERVER.port}"]
        request.cls.kafka_version = os.environ["KAFKA_VERSION"]
        yield
        loop.close()


def pytest_configure(config: Any) -> None:
    """Declare aiokafka's markers."""
    config.addinivalue_line("markers", "ssl: needs a broker with TLS")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Expect the known failures."""
    known = DIFFERENCES.get((CLIENT, PROTOCOL), {})
    for item in items:
        if item.get_closest_marker("ssl"):
            item.add_marker(pytest.mark.skip(reason="the broker has no listener with TLS"))
        if (reason := known.get(item.originalname if hasattr(item, "originalname") else item.name)) is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))
