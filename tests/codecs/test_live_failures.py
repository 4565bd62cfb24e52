"""Failures to read from a cluster: no broker, other servers, certificates, credentials, options."""

import socket
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trustme
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, load_pem_private_key
from kafka.errors import KafkaTimeoutError, NodeNotReadyError, TopicAuthorizationFailedError

from quorate.codecs.live import LiveError, read_live
from quorate.codecs.live_connect import explain_error, likely_reason
from tests.broker.broker import Broker
from tests.broker.fixtures import need_broker

with_broker = pytest.mark.oracle
PLAIN_LOGIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
HANGS_S = 25
"""Less than kafka-python's timeouts of 30 s and more; much more than 1.5 s, for a busy machine."""


def failure(servers: str, **how: Any) -> str:
    started = time.monotonic()
    with pytest.raises(LiveError) as caught:
        list(read_live(servers, **{"connect_timeout_ms": 1_500, **how}))
    assert time.monotonic() - started < HANGS_S
    message = str(caught.value)
    assert "\n" not in message
    return message


def test_closed_port_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    message = failure(f"127.0.0.1:{port}")
    assert message.startswith(f"127.0.0.1:{port} (PLAINTEXT): could not connect to a broker within 1,500 ms: ")
    assert message.endswith("nothing listens on this port")


def test_silent_server_is_reported():
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert "Request timed out" in failure(f"127.0.0.1:{server.getsockname()[1]}")


def test_silent_server_is_reported_with_tls():
    """kafka-python has no timeout for a TLS handshake."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        started = time.monotonic()
        message = failure(f"127.0.0.1:{server.getsockname()[1]}", security_protocol="SSL")
    assert time.monotonic() - started < HANGS_S
    assert "could not connect to a broker within 1,500 ms" in message
    assert "is it a TLS listener" in message


def test_unknown_host_is_reported():
    assert failure("nowhere.invalid:9092").endswith("is the host name right?")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"topic": "orders"}, "'orders' is not a coordinator topic; use one of __consumer_offsets"),
        ({"group_id": "g"}, "group_id: cannot be set"),
        ({"security_protocol": "TLS"}, "security_protocol 'TLS' is not known; use one of PLAINTEXT, SSL"),
        ({"fetch_max_byte": 1}, "Unrecognized configs: {'fetch_max_byte'}; the options are those of kafka-python"),
        ({"connect_timeout_ms": "5"}, "connect_timeout_ms='5': give a whole number of milliseconds"),
        ({"connect_timeout_ms": -1}, "connect_timeout_ms=-1: give a whole number of milliseconds"),
        ({"connect_timeout_ms": 10**20}, "connect_timeout_ms=100000000000000000000: give"),
        ({"stall_timeout_ms": 1.5}, "stall_timeout_ms=1.5: give a whole number of milliseconds"),
        ({"on_notice": "x"}, "on_notice='x': give a function"),
        ({"isolation_level": "serializable"}, "isolation level 'serializable' is not known; use read_uncommitted"),
    ],
)
def test_invalid_options_are_rejected(arguments, message):
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert message in failure(f"127.0.0.1:{server.getsockname()[1]}", **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"partitions": 3}, "partitions=3: give a list of partition numbers"),
        ({"partitions": "3"}, "partitions='3': give a list of partition numbers"),
        ({"partitions": [0, None]}, "partitions=[0, None]: give a list of partition numbers"),
        ({"partitions": [-1]}, "partitions=[-1]: give a list of partition numbers"),
        ({"since_ms": "1h"}, "since_ms='1h': give milliseconds since 1970"),
        ({"since_ms": -1}, "since_ms=-1: give milliseconds since 1970"),
        ({"since_ms": float("nan")}, "since_ms=nan: give milliseconds since 1970"),
        ({"start_offsets": [5]}, "start_offsets=[5]: give a mapping of partitions to offsets"),
        ({"start_offsets": {0: "5"}}, "start_offsets={0: '5'}: give a mapping of partitions to offsets"),
    ],
)
def test_what_to_read_is_checked_before_the_connection(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(LiveError) as caught:
        read_live("127.0.0.1:1", **arguments)
    assert str(caught.value) == message


def test_numbers_of_other_types_choose_what_to_read() -> None:
    read_live("127.0.0.1:1", partitions=np.arange(3), since_ms=1_700_000_000_000.5, start_offsets={0: 5}).close()


@pytest.mark.parametrize(
    ("servers", "message"),
    [
        (9092, "bootstrap_servers=9092: give HOST:PORT, or a list"),
        (["localhost:9092", None], "bootstrap_servers=['localhost:9092', None]: give HOST:PORT, or a list"),
        ("", "'': has no port; an address is HOST:PORT"),
        ([], "'': has no port; an address is HOST:PORT"),
        ("localhost", "'localhost': has no port"),
        ("a:b:c", "'a:b:c': an address is HOST:PORT"),
        ("localhost:1,http://localhost:9092", "'http://localhost:9092': an address is HOST:PORT, without http://"),
        (["localhost:0"], "the port '0' is not a number from 1 to 65535"),
        ("localhost:65536", "the port '65536' is not a number"),
        ("localhost:", "the port '' is not a number"),
        ("[::1]", "has no port"),
    ],
)
def test_invalid_addresses_are_rejected_at_the_call(servers, message):
    with pytest.raises(LiveError) as caught:
        read_live(servers)
    assert message in str(caught.value)


def test_addresses_of_all_forms_are_accepted():
    read_live(["127.0.0.1:9092, [::1]:9092", "broker-1.example:65535"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"security_protocol": "SSL", "ssl_cafile": "no/such.pem"}, "ssl_cafile: file no/such.pem does not exist"),
        ({"security_protocol": "SSL", "ssl_keyfile": "no/such.key"}, "ssl_keyfile: file no/such.key does not exist"),
        ({"security_protocol": "SASL_PLAINTEXT"}, "SASL_PLAINTEXT needs a sasl_mechanism"),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"},
            "sasl_mechanism PLAIN needs sasl_plain_username, which is not given",
        ),
        (
            {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "sasl_plain_username": "u"},
            "sasl_mechanism SCRAM-SHA-256 needs sasl_plain_password, which is not given",
        ),
    ],
)
def test_incomplete_security_options_are_rejected_at_the_call(options, message):
    with pytest.raises(LiveError) as caught:
        read_live("localhost:9092", **options)
    assert message in str(caught.value)


def test_failure_is_reported_once_and_not_in_the_clients_log(capfd):
    """kafka-python logs a warning per attempt, which is printed if logging is not configured."""
    failure("nowhere.invalid:9092")
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (NodeNotReadyError(1), "NodeNotReadyError (1)"),
        (TopicAuthorizationFailedError("orders"), "TOPIC_AUTHORIZATION_FAILED (orders)"),
        (KafkaTimeoutError("not within a second"), "not within a second"),
        (KafkaTimeoutError(), "KafkaTimeoutError"),
    ],
)
def test_an_error_without_a_sentence_is_named(error, text):
    assert explain_error(error) == text


@with_broker
def test_tls_to_a_plaintext_listener_is_reported(broker):
    message = failure(broker.bootstrap_servers, security_protocol="SSL")
    assert "Handshake failed" in message
    assert message.endswith("does this listener speak TLS?")


@with_broker
def test_sasl_to_a_listener_without_sasl_is_reported(broker):
    message = failure(broker.bootstrap_servers, **sasl("a", "b"))
    assert "this listener does not support SASL" in message


@pytest.mark.parametrize(
    "late", ["KafkaTimeoutError", "SASL Authentication timed out", "Timeout during ApiVersions check"]
)
def test_timeout_of_the_last_attempt_does_not_hide_earlier_errors(late):
    """On a busy machine the last attempt can time out in any step."""
    errors = deque(["IllegalSaslStateError", late, "Unable to bootstrap from 127.0.0.1:9092"])
    assert "this listener does not support SASL" in likely_reason(errors)
    assert likely_reason(deque([late])) == late


def sasl(username: str, password: str, mechanism: str = "PLAIN") -> dict[str, Any]:
    return {
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": mechanism,
        "sasl_plain_username": username,
        "sasl_plain_password": password,
    }


@pytest.fixture(scope="module")
def certificates(tmp_path_factory) -> tuple[Path, Path]:
    """Return a certificate for 127.0.0.1 with its key, and that of the CA, in PEM format."""
    folder = tmp_path_factory.mktemp("tls")
    authority = trustme.CA()
    issued = authority.issue_cert("127.0.0.1", "localhost")
    key = load_pem_private_key(issued.private_key_pem.bytes(), None)
    store, certificate = folder / "broker.pem", folder / "ca.pem"
    in_pkcs8 = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())  # the only form that Kafka reads
    store.write_bytes(in_pkcs8 + b"".join(one.bytes() for one in issued.cert_chain_pems))
    authority.cert_pem.write_to_path(str(certificate))
    return store, certificate


@pytest.fixture(scope="module")
def secure(certificates) -> Iterator[Broker]:
    """Start a new broker with a listener for logins, and one for TLS with anonymous users."""
    need_broker()
    users = 'username="admin" password="a" user_admin="a" user_nobody="n"'
    tls = "listener.name.second.ssl"
    settings = {
        "listener.name.client.sasl.enabled.mechanisms": "PLAIN",
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.client.plain.sasl.jaas.config": f"{PLAIN_LOGIN} required {users};",
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:admin;User:ANONYMOUS",
        **{f"{tls}.{store}.type": "PEM" for store in ("keystore", "truststore")},
        f"{tls}.keystore.location": certificates[0],
        f"{tls}.truststore.location": certificates[1],
    }
    with Broker(settings, listener="SASL_PLAINTEXT", second="SSL") as running:
        yield running


@with_broker
def test_wrong_credentials_and_missing_permissions_are_reported(secure):
    servers = secure.bootstrap_servers
    with pytest.raises(LiveError, match="__consumer_offsets does not exist; brokers create it"):
        next(read_live(servers, **sasl("admin", "a")))
    assert "not allowed to describe __consumer_offsets" in failure(servers, **sasl("nobody", "n"))
    message = failure(servers, **sasl("admin", "wrong"))
    assert "Invalid username or password" in message or "does this listener accept" in message
    message = failure(servers, **sasl("admin", "a", "SCRAM-SHA-256"))
    assert "does not offer this sasl_mechanism" in message or "does this listener accept" in message
    assert "does this listener accept the security_protocol and credentials given?" in failure(servers)


@with_broker
def test_tls_requires_the_brokers_certificate(secure, certificates):
    servers = secure.second_servers
    with pytest.raises(LiveError, match="__consumer_offsets does not exist"):
        next(read_live(servers, security_protocol="SSL", ssl_cafile=str(certificates[1])))
    message = failure(servers, security_protocol="SSL")
    assert "CERTIFICATE_VERIFY_FAILED" in message
    assert message.endswith("set ssl_cafile to the certificate of the CA")
    message = failure(servers)
    assert "this listener may require TLS" in message or "does this listener accept" in message
