"""Authentication and TLS: which requests are allowed, and the errors."""

import socket
import ssl
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from kafka import KafkaAdminClient

from quorate.cluster import EmbeddedCluster, Security, make_certificate
from quorate.cluster.scram import ScramCredentials
from quorate.cluster.security import Login, LoginFailed
from quorate.codecs.api.broker import MetadataRequest, SaslAuthenticateRequest, SaslHandshakeRequest
from quorate.codecs.api.broker.metadata import MetadataRequestTopic
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.helpers.wire import Wire

PASSWORD = "very secret"


@pytest.fixture
def guarded() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(security=Security(users={"alice": PASSWORD})) as made:
        made.call(lambda: made.core.create_topic("t", partitions=1, replicas=1))
        yield made


def test_requests_before_authentication_close_the_connection(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.send(MetadataRequest(topics=None), 12)
        assert wire.is_closed()
    assert "Metadata before authentication" in guarded.core.notes[-1]


@pytest.mark.parametrize("said", [b"\0alice\0wrong", b"\0bob\0very secret", b"alice", b"\0\xff\0x"])
def test_a_failed_login_gets_an_error_and_is_reported_without_secrets(guarded: EmbeddedCluster, said: bytes) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        assert wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        response = wire.request(SaslAuthenticateRequest(auth_bytes=said), 2)
        assert response.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert wire.is_closed()
    assert "rejected a login" in guarded.core.notes[-1]
    assert not any(secret in "".join(guarded.core.notes) for secret in ("wrong", PASSWORD))


def test_a_login_authenticates_only_its_own_connection(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert wire.request(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2).error_code == 0
        assert wire.request(MetadataRequest(topics=None), 12).topics[0].name == "t"


@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
def test_after_handshake_v0_sasl_tokens_have_no_headers(guarded: EmbeddedCluster, password: str) -> None:
    """As kafka-python up to 2.0 logs in."""
    with Wire(guarded.core.brokers[1].port) as wire:
        assert wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
        token = f"\0alice\0{password}".encode()
        wire.socket.sendall(len(token).to_bytes(4, "big") + token)
        if password == "wrong":
            assert wire.is_closed()
            assert "rejected a login" in guarded.core.notes[-1]
            return
        assert wire.frame() == b""
        assert wire.request(MetadataRequest(topics=None), 12).topics[0].name == "t"


def test_before_authentication_requests_are_limited_by_sasl_server_max_receive_size(guarded: EmbeddedCluster) -> None:
    """As in Kafka's SaslServerAuthenticator: a login has no 4 MB (issue 14)."""
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.socket.sendall((524_288 + 1).to_bytes(4, "big"))
        assert wire.is_closed()
    assert "exceeds the limit of 524288" in guarded.core.notes[-1]


def test_after_authentication_requests_are_limited_by_socket_request_max_bytes(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.request(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2)
        many = tuple(MetadataRequestTopic(name="t" * 249) for _ in range(4_000))
        assert len(wire.request(MetadataRequest(topics=many), 12).topics) > 0


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_name_longer_than_any_users_is_rejected_before_saslprep(
    monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """SASLprep takes 2.5 s of CPU for a megabyte, before authentication (issue 14)."""
    prepared: list[str] = []
    monkeypatch.setattr("scramp.core.saslprep", prepared.append)
    security = Security(users={"alice": PASSWORD})
    login = Login(security, ScramCredentials(security.users, security.mechanisms), mechanism)
    with pytest.raises(LoginFailed):
        login.step(b"n,,n=" + b"a" * 500_000 + b",r=abc")
    assert not prepared


def test_an_unknown_mechanism_is_rejected_with_the_enabled_ones(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        response = wire.request(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert response.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        assert wire.is_closed()


def test_a_handshake_without_authentication_is_rejected() -> None:
    with EmbeddedCluster() as open_to_all, Wire(open_to_all.core.brokers[1].port) as wire:
        assert wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_real_clients_authenticate_over_tls(tmp_path: Path, mechanism: str) -> None:
    context, authority = make_certificate(tmp_path)
    with EmbeddedCluster(security=Security(users={"alice": PASSWORD}, tls=context)) as cluster:
        cluster.call(lambda: cluster.core.create_topic("t", partitions=1, replicas=1))
        producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_SSL",
                "sasl.mechanisms": mechanism,
                "sasl.username": "alice",
                "sasl.password": PASSWORD,
                "ssl.ca.location": str(authority),
            }
        )
        producer.produce("t", b"value")
        assert producer.flush(300) == 0
        admin = KafkaAdminClient(
            bootstrap_servers=cluster.bootstrap_servers,
            security_protocol="SASL_SSL",
            sasl_mechanism=mechanism,
            sasl_plain_username="alice",
            sasl_plain_password=PASSWORD,
            ssl_cafile=str(authority),
        )
        assert "t" in admin.list_topics()
        admin.close()
        assert cluster.core.failures == []


@pytest.mark.parametrize(("host", "named"), [("kafka", True), ("::1", True), ("my_kafka", False), ("localhost", True)])
def test_the_certificate_names_the_advertised_host(tmp_path: Path, host: str, named: bool) -> None:
    server, authority = make_certificate(tmp_path, host)
    client = ssl.create_default_context(cafile=str(authority))
    for name, accepted in ((host, named), ("localhost", True), ("127.0.0.1", True)):
        ours, theirs = socket.socketpair()
        with ours, theirs, ThreadPoolExecutor(1) as pool:
            accepting = pool.submit(server.wrap_socket, theirs, server_side=True)
            if accepted:
                client.wrap_socket(ours, server_hostname=name).close()
                accepting.result().close()
            else:
                with pytest.raises(ssl.SSLCertVerificationError):
                    client.wrap_socket(ours, server_hostname=name)
                with pytest.raises(ssl.SSLError):
                    accepting.result()
