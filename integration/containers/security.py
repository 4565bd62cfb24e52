"""Credentials for a listener with SASL_SSL and SCRAM-SHA-512: certificate, user, and configs."""

import base64
import secrets
from collections.abc import Iterable, Mapping
from typing import Any, Self

from quorate.cluster.errors import ClusterError
from quorate.cluster.temporary_folder import TemporaryFolder
from quorate.integration.containers.engine import Session, engine

_KEYSTORE = "/tmp/keystore.p12"
_LOGIN_MODULE = "org.apache.kafka.common.security.scram.ScramLoginModule"
# keytool is part of the Java in every Kafka image. The certificate is self-signed, and valid for
# all brokers.
_GENERATE_CERTIFICATE = """set -e
keytool -genkeypair -alias kafka -keyalg EC -groupname secp256r1 -validity 3650 -dname CN=quorate-test-cluster \
    -ext bc:c=ca:true -ext "SAN=ip:127.0.0.1,dns:localhost,$NAMES" \
    -keystore /tmp/made.p12 -storetype PKCS12 -storepass "$PASSWORD" >/dev/null 2>&1
keytool -exportcert -rfc -alias kafka -keystore /tmp/made.p12 -storepass "$PASSWORD" 2>/dev/null
base64 /tmp/made.p12
"""


class Credentials:
    """Certificate and user of a cluster. `facts`: all of it, for JSON."""

    def __init__(self, facts: Mapping[str, str]) -> None:
        self.facts = dict(facts)
        self.username = facts["username"]
        self.password = facts["password"]
        self.certificate = facts["certificate"]
        self._store_password = facts["store_password"]
        self._keystore = base64.b64decode(facts["keystore"])
        self._folder = TemporaryFolder()
        self.ca_file = self._folder.path / "ca.pem"
        self.ca_file.write_text(self.certificate, "utf-8")

    @classmethod
    def generate(cls, image: str, session: Session, names: Iterable[str]) -> Self:
        """Generate the credentials of a cluster. `names`: of the brokers. Raises `ClusterError`."""
        from docker.errors import ContainerError

        store_password = secrets.token_hex(16)
        try:
            generated: bytes = engine().containers.run(
                image,
                ["sh", "-c", _GENERATE_CERTIFICATE],
                entrypoint="",
                user="root",
                remove=True,
                labels=session.labels,
                environment={"NAMES": ",".join(f"dns:{name}" for name in names), "PASSWORD": store_password},
            )
        except ContainerError as error:
            raise ClusterError(f"keytool in {image} failed to generate a certificate: {error}") from None
        certificate, end, keystore = generated.decode().replace("\r", "").rpartition("-----END CERTIFICATE-----\n")
        if not certificate or not keystore:
            raise ClusterError(
                f"keytool in {image} generated no certificate: {generated.decode(errors='replace')[:200]!r}"
            )
        return cls(
            {
                "username": "quorate",
                "password": secrets.token_hex(16),
                "certificate": certificate + end,
                "keystore": "".join(keystore.split()),
                "store_password": store_password,
            }
        )

    @property
    def files(self) -> list[tuple[bytes, str, int]]:
        """Files for a broker's container: contents, path and mode."""
        return [(self._keystore, _KEYSTORE, 0o644)]

    @property
    def properties(self) -> dict[str, object]:
        """Properties of a broker whose listener CLIENT is SASL_SSL."""
        return {
            "ssl.keystore.location": _KEYSTORE,
            "ssl.keystore.type": "PKCS12",
            "ssl.keystore.password": self._store_password,
            "listener.name.client.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            "listener.name.client.scram-sha-512.sasl.jaas.config": f"{_LOGIN_MODULE} required;",
        }

    @property
    def format_options(self) -> str:
        """Options of kafka-storage.sh that add the user to the cluster's metadata."""
        return f"--add-scram SCRAM-SHA-512=[name={self.username},password={self.password}]"

    @property
    def client_config(self) -> dict[str, Any]:
        """Security configs for kafka-python's clients."""
        return {
            "security_protocol": "SASL_SSL",
            "sasl_mechanism": "SCRAM-SHA-512",
            "sasl_plain_username": self.username,
            "sasl_plain_password": self.password,
            "ssl_cafile": str(self.ca_file),
        }

    def close(self) -> None:
        """Remove the certificate's file."""
        self._folder.close()
