"""Reaching a cluster through a client of kafka-python: what is given is checked first, and a failure says why.

Used for consumers and admin clients alike; what they do once they are connected is not known here.
"""

import logging
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final, TypeVar

if TYPE_CHECKING:
    from kafka.net.compat import KafkaNetClient

from quorate.codecs.errors import QuorateError

__all__ = ["LiveError", "check_connection", "client_log", "connect", "explain_error", "likely_reason", "where_text"]

T = TypeVar("T")

_GRACE_MS: Final = 500  # for the client to say itself why it gave up
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_HINTS: Final = (
    ("ECONNREFUSED", "nothing listens there"),
    ("DNS", "is the host name right?"),
    ("IllegalSaslState", "this listener does not take SASL; try security_protocol PLAINTEXT or SSL"),
    ("UnsupportedSaslMechanism", "the broker does not offer this sasl_mechanism"),
    ("CERTIFICATE_VERIFY_FAILED", "give the certificate of its authority as ssl_cafile"),
    ("Handshake failed", "does this listener speak TLS?"),
    ("Invalid frame length", "this listener may want TLS; try security_protocol SSL or SASL_SSL"),
    (
        "socket disconnected",
        "the broker closed the connection: does this listener take the security_protocol and credentials given?",
    ),
)
_OPTIONS: Final = "the options are those of kafka-python's KafkaConsumer"


class LiveError(QuorateError, RuntimeError):
    """The cluster cannot be read.

    The message says what was tried, what went wrong, and what to look at.
    """


def where_text(bootstrap_servers: str | Sequence[str], config: Mapping[str, Any]) -> str:
    """How errors name the cluster."""
    shown = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    return f"{shown} ({config.get('security_protocol', 'PLAINTEXT')})"


def check_connection(bootstrap_servers: str | Sequence[str], config: Mapping[str, Any]) -> None:
    """Raises `LiveError` if an address (`HOST:PORT`, the port is needed) or a security option cannot be."""
    protocol = config.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise LiveError(f"security_protocol {protocol!r} is not known; use one of {', '.join(_PROTOCOLS)}")
    _check_addresses([bootstrap_servers] if isinstance(bootstrap_servers, str) else bootstrap_servers)
    _check_security(protocol, config)


def _check_addresses(servers: Sequence[str]) -> None:
    addresses = [address.strip() for listed in servers for address in listed.split(",")]
    for address in addresses or [""]:
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):  # kafka-python takes 9092 then, as Kafka's own tools do not
            raise LiveError(f"bootstrap_servers {address!r}: has no port; an address is HOST:PORT")
        if "/" in address or not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
            raise LiveError(f"bootstrap_servers {address!r}: an address is HOST:PORT, without http:// or the like")
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
            raise LiveError(f"bootstrap_servers {address!r}: the port {port!r} is not a number from 1 to 65535")


def _check_security(protocol: str, config: Mapping[str, Any]) -> None:
    for option in _FILES:
        if config.get(option) and not Path(config[option]).is_file():
            raise LiveError(f"{option}: there is no file {config[option]}")
    mechanism = config.get("sasl_mechanism")
    if protocol.startswith("SASL") and mechanism is None:
        raise LiveError(f"security_protocol {protocol} needs a sasl_mechanism, such as {', '.join(_WITH_PASSWORD)}")
    if mechanism in _WITH_PASSWORD and protocol.startswith("SASL"):
        for option in ("sasl_plain_username", "sasl_plain_password"):
            if config.get(option) is None:
                raise LiveError(f"sasl_mechanism {mechanism} needs {option}, which is not given")


def _in_time(work: "Callable[[], T]", timeout_ms: int) -> T:
    """What `work` returns or raises, done in another thread; `TimeoutError` if it is still at it after the time, and left to itself."""
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # handed to the one who waits
            done.set_exception(error)

    thread = Thread(target=run, name="quorate-live-connect", daemon=True)
    thread.start()
    result = done.result(timeout_ms / 1000)
    thread.join()
    return result


def connect(
    make: Callable[..., T],
    bootstrap_servers: str | Sequence[str],
    config: Mapping[str, Any],
    timeout_ms: int,
    said: "deque[str]",
    clients: "list[KafkaNetClient] | None" = None,
) -> T:
    """A consumer or an admin client (`make`) that has reached the cluster.

    `said` is what `client_log` keeps.

    `clients` gets the network client inside. Raises `LiveError` if no broker can be used in
    `timeout_ms`, with the reason that tells most.
    """
    from kafka.errors import KafkaConfigurationError, KafkaError, KafkaTimeoutError
    from kafka.net.compat import KafkaNetClient

    made: list[KafkaNetClient] = [] if clients is None else clients
    where = where_text(bootstrap_servers, config)

    def client(**config: Any) -> KafkaNetClient:
        made.append(KafkaNetClient(**config))
        return made[-1]

    def reach() -> T:
        return make(bootstrap_servers=bootstrap_servers, kafka_client=client, **config)

    def close() -> None:
        # A client whose making fails leaves its thread and sockets behind.
        for one in made:
            one.close()

    tried = f"no broker could be used within {timeout_ms:,} ms"
    connected = False
    try:
        # The client's own timeout does not end a TLS handshake that gets no answer (kafka-python
        # 3.0).
        reached = _in_time(reach, timeout_ms + _GRACE_MS)
        connected = True
    except TimeoutError as error:
        hint = "; something listens there that does not answer: is it a TLS listener of a broker?"
        raise LiveError(f"{where}: {tried}{hint}") from error
    except KafkaTimeoutError as error:
        raise LiveError(f"{where}: {tried}: {likely_reason(said)}") from error
    except KafkaConfigurationError as error:
        raise LiveError(f"{where}: {explain_error(error)}; {_OPTIONS}") from error
    except (KafkaError, ValueError, TypeError, AssertionError, OSError) as error:
        detail = f"{explain_error(error)}; an address is HOST:PORT, {_OPTIONS}"
        raise LiveError(f"{where}: cannot connect: {detail}") from error
    finally:
        if not connected:
            with suppress(TimeoutError):
                _in_time(close, _GRACE_MS)
    return reached


@contextmanager
def client_log() -> "Iterator[deque[str]]":
    """What kafka-python logs while it is in use: only there it says why a connection failed.

    Having a handler also keeps its warnings off stderr in programs that have not set logging up;
    others get them as always.
    """
    said: deque[str] = deque(maxlen=200)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            said.extend(explain_error(argument) for argument in arguments if isinstance(argument, Exception))

    handler = Keep(logging.WARNING)
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def explain_error(error: Exception) -> str:
    """The message of an exception without the name of its class, which kafka-python puts in front, sometimes twice.

    Of a broker's error it is often only the name of a topic: Kafka's name of the error is put
    before that.
    """
    name = type(error).__name__
    text = str(error).rpartition(f"{name}: ")[2].strip()
    code = getattr(error, "message", None)
    if error.args and isinstance(code, str) and text and " " not in text:
        return f"{code} ({text})"
    return text or name


def likely_reason(said: "deque[str]") -> str:
    """The reason that tells most of those that repeated attempts gave, with what may help: a broker often just closes the connection."""
    reasons = [reason for reason in said if not reason.startswith("Unable to bootstrap")]
    reason = max(reversed(reasons), key=_weight, default="no answer")
    hints = [hint for sign, hint in _HINTS if sign in reason]
    return f"{reason}; {hints[0]}" if hints else reason


def _weight(reason: str) -> int:
    """How much a reason tells: the last attempt often just runs out of time, and many brokers say nothing when they refuse."""
    if reason.startswith("socket disconnected"):
        return 2
    if reason == "KafkaTimeoutError":  # without a text
        return 0
    return 1 if "timed out" in reason or reason.startswith("Timeout") else 3
