"""Logins and TLS: who may ask for what, and what is said about those who may not."""

from collections.abc import Iterator
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
from tests.cluster.wire import Wire

PASSWORD = "very secret"


@pytest.fixture
def guarded() -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(security=Security(users={"alice": PASSWORD})) as made:
        made.call(lambda: made.core.create_topic("t", partitions=1, replicas=1))
        yield made


def test_nothing_is_answered_before_a_login(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.send(MetadataRequest(topics=None), 12)
        assert wire.is_closed()
    assert "Metadata before authentication" in guarded.core.notes[-1]


@pytest.mark.parametrize("said", [b"\0alice\0wrong", b"\0bob\0very secret", b"alice", b"\0\xff\0x"])
def test_a_wrong_login_is_told_and_closed_and_its_secrets_are_noted_nowhere(
    guarded: EmbeddedCluster, said: bytes
) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == 0
        answer = wire.ask(SaslAuthenticateRequest(auth_bytes=said), 2)
        assert answer.error_code == ErrorCode.SASL_AUTHENTICATION_FAILED
        assert wire.is_closed()
    assert "rejected a login" in guarded.core.notes[-1]
    assert not any(secret in "".join(guarded.core.notes) for secret in ("wrong", PASSWORD))


def test_a_right_login_opens_the_door_of_its_own_connection(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        assert wire.ask(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2).error_code == 0
        assert wire.ask(MetadataRequest(topics=None), 12).topics[0].name == "t"


@pytest.mark.parametrize("password", [PASSWORD, "wrong"])
def test_after_version_0_of_the_handshake_a_login_comes_without_headers(
    guarded: EmbeddedCluster, password: str
) -> None:
    """As kafka-python up to 2.0 logs in, to real brokers, too."""
    with Wire(guarded.core.brokers[1].port) as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 0).error_code == 0
        token = f"\0alice\0{password}".encode()
        wire.socket.sendall(len(token).to_bytes(4, "big") + token)
        if password == "wrong":
            assert wire.is_closed()
            assert "rejected a login" in guarded.core.notes[-1]
            return
        assert wire.frame() == b""
        assert wire.ask(MetadataRequest(topics=None), 12).topics[0].name == "t"


def test_before_a_login_a_request_is_no_larger_than_sasl_server_max_receive_size(guarded: EmbeddedCluster) -> None:
    """As Kafka's SaslServerAuthenticator reads them: nobody logs in with 4 MB (issue 14)."""
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.socket.sendall((524_288 + 1).to_bytes(4, "big"))
        assert wire.is_closed()
    assert "exceeds the limit of 524288" in guarded.core.notes[-1]


def test_after_a_login_a_request_may_be_as_large_as_any(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1)
        wire.ask(SaslAuthenticateRequest(auth_bytes=f"\0alice\0{PASSWORD}".encode()), 2)
        many = tuple(MetadataRequestTopic(name="t" * 249) for _ in range(4_000))
        assert len(wire.ask(MetadataRequest(topics=many), 12).topics) > 0


@pytest.mark.parametrize("mechanism", ["SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_name_longer_than_any_users_is_refused_without_being_prepared(
    monkeypatch: pytest.MonkeyPatch, mechanism: str
) -> None:
    """SASLprep takes 2.5 s of the CPU for a megabyte, before anybody has logged in (issue 14)."""
    prepared: list[str] = []
    monkeypatch.setattr("scramp.core.saslprep", prepared.append)
    security = Security(users={"alice": PASSWORD})
    login = Login(security, ScramCredentials(security.users, security.mechanisms), mechanism)
    with pytest.raises(LoginFailed):
        login.step(b"n,,n=" + b"a" * 500_000 + b",r=abc")
    assert not prepared


def test_an_unknown_mechanism_is_told_with_those_that_there_are(guarded: EmbeddedCluster) -> None:
    with Wire(guarded.core.brokers[1].port) as wire:
        answer = wire.ask(SaslHandshakeRequest(mechanism="GSSAPI"), 1)
        assert answer.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM
        assert answer.mechanisms == ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
        assert wire.is_closed()


def test_a_cluster_without_logins_says_so() -> None:
    with EmbeddedCluster() as open_to_all, Wire(open_to_all.core.brokers[1].port) as wire:
        assert wire.ask(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.ILLEGAL_SASL_STATE


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_real_clients_log_in_over_tls(tmp_path: Path, mechanism: str) -> None:
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
