"""Convert Kafka's client configs (`kafka.security.protocol`, …) to those of kafka-python."""

import re
from collections.abc import Mapping
from typing import Any, Final

from quorate.codecs.live_connect import LiveError, check_connection
from quorate.pipeline.schema import OptionError

_JAAS: Final = re.compile(r'\b(username|password)\s*=\s*"((?:[^"\\]|\\.)*)"')
_NEVER: Final = {
    "group.id": "reading joins no group, so that nothing is committed",
    "auto.offset.reset": "use startingOffsets",
    "enable.auto.commit": "reading commits nothing",
    "key.deserializer": "keys are decoded to columns",
    "value.deserializer": "values are decoded to columns",
}
_NAMES: Final = {
    "bootstrap.servers": "bootstrap_servers",
    "security.protocol": "security_protocol",
    "sasl.mechanism": "sasl_mechanism",
    "sasl.kerberos.service.name": "sasl_kerberos_service_name",
    "ssl.truststore.location": "ssl_cafile",
    "ssl.keystore.location": "ssl_certfile",
    "ssl.key.password": "ssl_password",
    "ssl.cipher.suites": "ssl_ciphers",
    "client.id": "client_id",
    "client.rack": "client_rack",
    "request.timeout.ms": "request_timeout_ms",
    "reconnect.backoff.ms": "reconnect_backoff_ms",
    "reconnect.backoff.max.ms": "reconnect_backoff_max_ms",
    "retry.backoff.ms": "retry_backoff_ms",
    "metadata.max.age.ms": "metadata_max_age_ms",
    "fetch.max.bytes": "fetch_max_bytes",
    "fetch.max.wait.ms": "fetch_max_wait_ms",
    "max.partition.fetch.bytes": "max_partition_fetch_bytes",
    "receive.buffer.bytes": "receive_buffer_bytes",
}
_NUMBERS: Final = ("_ms", "_bytes")
_STORES: Final = ("ssl.truststore.type", "ssl.keystore.type")
_OURS: Final = ("sasl.jaas.config", "ssl.endpoint.identification.algorithm", *_STORES)


def client_config(kafka: Mapping[str, str]) -> dict[str, Any]:
    """Return the arguments of kafka-python's consumer.

    Raises `OptionError` for unknown options, invalid values, and stores that are not PEM.
    """
    config: dict[str, Any] = {}
    for name, value in kafka.items():
        if name in _NEVER:
            raise OptionError(f"option kafka.{name} cannot be set: {_NEVER[name]}")
        if name in _OURS:
            continue
        if name not in _NAMES:
            known = ", ".join(sorted([*_NAMES, *_OURS]))
            raise OptionError(f"option kafka.{name} is not known; after kafka., use one of {known}")
        config[_NAMES[name]] = _value(name, _NAMES[name], value)
    config |= _credentials(kafka)
    _check_stores(kafka)
    if config.get("ssl_certfile"):
        config["ssl_keyfile"] = config["ssl_certfile"]  # Kafka's PEM stores contain key and certificates
    if kafka.get("ssl.endpoint.identification.algorithm", "https").strip() == "":
        config["ssl_check_hostname"] = False
    try:
        check_connection(config["bootstrap_servers"], config)
    except LiveError as error:
        raise OptionError(f"{error} (options kafka.security.protocol, kafka.sasl.* and kafka.ssl.*)") from None
    return config


def _value(name: str, client_name: str, value: str) -> str | int:
    if not client_name.endswith(_NUMBERS):
        return value.strip()
    if not value.strip().isdecimal():
        raise OptionError(f"option kafka.{name}: {value!r} is not a number")
    return int(value)


def _credentials(kafka: Mapping[str, str]) -> dict[str, str]:
    jaas = kafka.get("sasl.jaas.config")
    if jaas is None:
        return {}
    found = {name: re.sub(r"\\(.)", r"\1", value) for name, value in _JAAS.findall(jaas)}
    if len(found) < 2:
        raise OptionError(
            "option kafka.sasl.jaas.config: has no username and password; expected "
            '`org.apache.kafka.common.security.plain.PlainLoginModule required username="…" password="…";`'
        )
    return {"sasl_plain_username": found["username"], "sasl_plain_password": found["password"]}


def _check_stores(kafka: Mapping[str, str]) -> None:
    for kind in _STORES:
        location = kind.replace("type", "location")
        store = kafka.get(kind, "PEM" if kafka.get(location, "").endswith((".pem", ".crt", ".key")) else "JKS")
        if location in kafka and store.upper() != "PEM":
            raise OptionError(
                f"option kafka.{location}: a store of type {store} cannot be read without Java; "
                f"export it as PEM (keytool, openssl pkcs12) and set kafka.{kind} to PEM"
            )
