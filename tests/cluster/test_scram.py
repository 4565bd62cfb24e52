"""SCRAM credentials altered by clients (KIP-554): who can log in after that, and what is stored.

Errors are compared with a real broker in test_pair.
"""

from collections.abc import Callable
from pathlib import Path

import pytest
from confluent_kafka.admin import (
    AdminClient,
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialDeletion,
    UserScramCredentialUpsertion,
)
from scramp import ScramClient

from quorate.cluster import EmbeddedCluster, Security
from quorate.codecs.api.broker import (
    AlterUserScramCredentialsRequest,
    DescribeUserScramCredentialsRequest,
    SaslAuthenticateRequest,
    SaslHandshakeRequest,
)
from quorate.codecs.api.broker.alter_user_scram_credentials import ScramCredentialDeletion
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.helpers.wire import Wire

ALICE = Security(users={"alice": "first"})
SHA_256, SHA_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"


def lets_in(cluster: EmbeddedCluster, user: str, password: str, mechanism: str) -> bool:
    """Return whether a SCRAM client that knows the password can authenticate."""
    with Wire(cluster.core.brokers[1].port) as wire:
        assert wire.request(SaslHandshakeRequest(mechanism=mechanism), 1).error_code == ErrorCode.NONE

        def said(data: str) -> str | None:
            response = wire.request(SaslAuthenticateRequest(auth_bytes=data.encode()), 2)
            assert response.error_code in (ErrorCode.NONE, ErrorCode.SASL_AUTHENTICATION_FAILED)
            return response.auth_bytes.decode() if response.error_code == ErrorCode.NONE else None

        if mechanism == "PLAIN":
            return said(f"\0{user}\0{password}") is not None
        client = ScramClient([mechanism], user, password)
        first = said(client.get_client_first())
        if first is None:
            return False
        client.set_server_first(first)
        final = said(client.get_client_final())
        if final is None:
            return False
        client.set_server_final(final)  # verifies the server's signature
        return True


@pytest.fixture
def change() -> Callable[..., None]:
    """Alter credentials by librdkafka's admin client, as alice."""

    def alter(cluster: EmbeddedCluster, *changes: object, password: str = "first") -> None:
        admin = AdminClient(
            {
                "bootstrap.servers": cluster.bootstrap_servers,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanisms": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": password,
            }
        )
        for done in admin.alter_user_scram_credentials(list(changes), request_timeout=20).values():
            done.result(300)
        reported = admin.describe_user_scram_credentials(request_timeout=20).result(300)
        assert {one: len(found.scram_credential_infos) for one, found in reported.items()} == {
            user: len(known) for user, known in cluster.call(cluster.core.credentials.iterations).items()
        }

    return alter


def upsertion(user: str, password: str, mechanism: ScramMechanism = ScramMechanism.SCRAM_SHA_256) -> object:
    return UserScramCredentialUpsertion(user, ScramCredentialInfo(mechanism, 5000), password.encode())


def test_altered_credentials_replace_those_from_the_start(change: Callable[..., None]) -> None:
    with EmbeddedCluster(security=ALICE) as cluster:
        assert cluster.core.credentials.iterations() == {"alice": {1: 4096, 2: 4096}}
        assert lets_in(cluster, "alice", "first", SHA_256)
        assert not lets_in(cluster, "alice", "second", SHA_256)
        assert not lets_in(cluster, "bob", "new", SHA_512)
        change(cluster, upsertion("alice", "second"), upsertion("bob", "new", ScramMechanism.SCRAM_SHA_512))
        assert cluster.core.credentials.iterations() == {"alice": {1: 5000, 2: 4096}, "bob": {2: 5000}}
        assert lets_in(cluster, "alice", "second", SHA_256)
        assert not lets_in(cluster, "alice", "first", SHA_256)
        assert lets_in(cluster, "alice", "first", SHA_512)
        assert lets_in(cluster, "alice", "first", "PLAIN")  # not affected, as in Kafka
        assert lets_in(cluster, "bob", "new", SHA_512)
        assert not lets_in(cluster, "bob", "new", SHA_256)
        change(
            cluster,
            UserScramCredentialDeletion("alice", ScramMechanism.SCRAM_SHA_256),
            UserScramCredentialDeletion("bob", ScramMechanism.SCRAM_SHA_512),
        )
        assert not lets_in(cluster, "alice", "second", SHA_256)
        assert not lets_in(cluster, "bob", "new", SHA_512)
        assert lets_in(cluster, "alice", "first", SHA_512)
        assert cluster.core.failures == []


def test_altered_credentials_are_stored_without_passwords(tmp_path: Path, change: Callable[..., None]) -> None:
    with EmbeddedCluster(security=ALICE, data=tmp_path) as cluster:
        change(cluster, upsertion("alice", "second"), upsertion("bob", "secret of bob"), upsertion("carol", "gone"))
        change(cluster, UserScramCredentialDeletion("carol", ScramMechanism.SCRAM_SHA_256))
        cluster.call(lambda: cluster.core.credentials.withdraw("alice", 2))
    (segment,) = (tmp_path / "controller" / "__cluster_metadata-0").glob("*.log")
    kept = segment.read_bytes()
    assert b"bob" in kept
    assert not any(password in kept for password in (b"first", b"second", b"secret of bob"))
    again = Security(users={"alice": "third"})
    with EmbeddedCluster(security=again, data=tmp_path) as cluster:
        assert cluster.core.credentials.iterations() == {"alice": {1: 5000, 2: 4096}, "bob": {1: 5000}}
        assert lets_in(cluster, "alice", "second", SHA_256)
        assert lets_in(cluster, "alice", "third", SHA_512)
        assert lets_in(cluster, "bob", "secret of bob", SHA_256)
        assert not lets_in(cluster, "carol", "gone", SHA_256)


def test_a_user_of_one_mechanism_has_no_credential_for_the_other() -> None:
    with (
        EmbeddedCluster(security=Security(users={"alice": "first"}, mechanisms=("PLAIN", SHA_512))) as cluster,
        Wire(cluster.core.brokers[1].port) as wire,
    ):
        assert wire.request(SaslHandshakeRequest(mechanism="PLAIN"), 1).error_code == ErrorCode.NONE
        assert wire.request(SaslAuthenticateRequest(auth_bytes=b"\0alice\0first"), 2).error_code == ErrorCode.NONE
        (reported,) = wire.request(DescribeUserScramCredentialsRequest(users=None), 0).results
        assert [
            (credential_info.mechanism, credential_info.iterations) for credential_info in reported.credential_infos
        ] == [(2, 4096)]
        gone = AlterUserScramCredentialsRequest(deletions=(ScramCredentialDeletion(name="alice", mechanism=1),))
        assert wire.request(gone, 0).results[0].error_code == ErrorCode.RESOURCE_NOT_FOUND
