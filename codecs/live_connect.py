"""Connect to a cluster with a kafka-python client: check the options first, and explain failures.

Used for consumers and admin clients alike. What they do once connected is not known here.
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

T = TypeVar("T")

_GRACE_MS: Final = 500  # lets the client report its own error first
_PROTOCOLS: Final = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
_FILES: Final = ("ssl_cafile", "ssl_certfile", "ssl_keyfile", "ssl_crlfile")
_WITH_PASSWORD: Final = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_HINTS: Final = (
    ("ECONNREFUSED", "nothing listens on this port"),
    ("DNS", "is the host name right?"),
    ("IllegalSaslState", "this listener does not support SASL; try security_protocol PLAINTEXT or SSL"),
    ("UnsupportedSaslMechanism", "the broker does not offer this sasl_mechanism"),
    ("CERTIFICATE_VERIFY_FAILED", "set ssl_cafile to the certificate of the CA"),
    ("Handshake failed", "does this listener speak TLS?"),
    ("Invalid frame length", "this listener may require TLS; try security_protocol SSL or SASL_SSL"),
    (
        "socket disconnected",
        "the broker closed the connection: does this listener accept the security_protocol and credentials given?",
    ),
)
_OPTIONS: Final = "the options are those of kafka-python's KafkaConsumer"


class LiveError(QuorateError, RuntimeError):
    """The cluster cannot be read.

    The message says what was tried, what failed, and what to check.
    """


def where_text(bootstrap_servers: str | Sequence[str], config: Mapping[str, Any]) -> str:
    """Return the name of the cluster in error messages: the addresses and the security protocol."""
    shown = bootstrap_servers if isinstance(bootstrap_servers, str) else ",".join(bootstrap_servers)
    return f"{shown} ({config.get('security_protocol', 'PLAINTEXT')})"


def check_connection(bootstrap_servers: str | Sequence[str], config: Mapping[str, Any]) -> None:
    """Check addresses and security options.

    Raises `LiveError` if an address is not `HOST:PORT` or a security option is invalid.
    """
    protocol = config.get("security_protocol", "PLAINTEXT")
    if protocol not in _PROTOCOLS:
        raise LiveError(f"security_protocol {protocol!r} is not known; use one of {', '.join(_PROTOCOLS)}")
    listed: object = [bootstrap_servers] if isinstance(bootstrap_servers, str) else bootstrap_servers
    if not (isinstance(listed, Sequence) and all(isinstance(one, str) for one in listed)):
        raise LiveError(f"bootstrap_servers={bootstrap_servers!r}: give HOST:PORT, or a list of such addresses")
    _check_addresses(listed)
    _check_security(protocol, config)


def _check_addresses(servers: Sequence[str]) -> None:
    addresses = [address.strip() for listed in servers for address in listed.split(",")]
    for address in addresses or [""]:
        host, colon, port = address.rpartition(":")
        if not colon or address.endswith("]"):  # kafka-python defaults to 9092; Kafka's own tools require a port
            raise LiveError(f"bootstrap_servers {address!r}: has no port; an address is HOST:PORT")
        if "/" in address or not host or (":" in host and not (host.startswith("[") and host.endswith("]"))):
            raise LiveError(f"bootstrap_servers {address!r}: an address is HOST:PORT, without http:// or the like")
        if not (port.isascii() and port.isdigit() and 1 <= int(port[:6]) <= 65_535):
            raise LiveError(f"bootstrap_servers {address!r}: the port {port!r} is not a number from 1 to 65535")


def _check_security(protocol: str, config: Mapping[str, Any]) -> None:
    for option in _FILES:
        if config.get(option) and not Path(config[option]).is_file():
            raise LiveError(f"{option}: file {config[option]} does not exist")
    mechanism = config.get("sasl_mechanism")
    if protocol.startswith("SASL") and mechanism is None:
        raise LiveError(f"security_protocol {protocol} needs a sasl_mechanism, such as {', '.join(_WITH_PASSWORD)}")
    if mechanism in _WITH_PASSWORD and protocol.startswith("SASL"):
        for option in ("sasl_plain_username", "sasl_plain_password"):
            if config.get(option) is None:
                raise LiveError(f"sasl_mechanism {mechanism} needs {option}, which is not given")


def _with_timeout(work: "Callable[[], T]", timeout_ms: int) -> T:
    """Run `work` in another thread and return its result.

    Raises what it raises, or `TimeoutError` after the timeout; the thread is then abandoned.
    """
    done: Future[T] = Future()

    def run() -> None:
        try:
            done.set_result(work())
        except BaseException as error:  # noqa: BLE001  # raised in the calling thread
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
    reasons: "deque[str]",
    clients: "list[KafkaNetClient] | None" = None,
) -> T:
    """Return a consumer or an admin client (`make`) that is connected to the cluster.

    `reasons` is the deque of `client_log`. The network client is appended to `clients`. Raises
    `LiveError` with the most specific reason if no broker can be used within `timeout_ms`.
    """
    from kafka.errors import KafkaConfigurationError, KafkaError, KafkaTimeoutError
    from kafka.net.compat import KafkaNetClient

    created: list[KafkaNetClient] = [] if clients is None else clients
    where = where_text(bootstrap_servers, config)

    def client(**config: Any) -> KafkaNetClient:
        created.append(KafkaNetClient(**config))
        return created[-1]

    def open_client() -> T:
        return make(bootstrap_servers=bootstrap_servers, kafka_client=client, **config)

    def close() -> None:
        # A client whose constructor fails leaves its thread and sockets open.
        for one in created:
            one.close()

    tried = f"could not connect to a broker within {timeout_ms:,} ms"
    connected = False
    try:
        # The client's own timeout does not end a TLS handshake without a response (kafka-python
        # 3.0).
        result = _with_timeout(open_client, timeout_ms + _GRACE_MS)
        connected = True
    except TimeoutError as error:
        hint = "; a server accepted the connection but did not respond: is it a TLS listener of a broker?"
        raise LiveError(f"{where}: {tried}{hint}") from error
    except KafkaTimeoutError as error:
        raise LiveError(f"{where}: {tried}: {likely_reason(reasons)}") from error
    except KafkaConfigurationError as error:
        raise LiveError(f"{where}: {explain_error(error)}; {_OPTIONS}") from error
    except (KafkaError, ValueError, TypeError, AssertionError, OSError) as error:
        detail = f"{explain_error(error)}; an address is HOST:PORT, {_OPTIONS}"
        raise LiveError(f"{where}: cannot connect: {detail}") from error
    finally:
        if not connected:
            with suppress(TimeoutError):
                _with_timeout(close, _GRACE_MS)
    return result


@contextmanager
def client_log() -> "Iterator[deque[str]]":
    """Collect the errors that kafka-python logs while it is in use.

    Only its log says why a connection failed. The handler also keeps kafka-python's warnings off
    stderr in programs that have not configured logging; other programs get them as usual.
    """
    reasons: deque[str] = deque(maxlen=200)

    class Keep(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            arguments = record.args if isinstance(record.args, tuple) else ()
            reasons.extend(explain_error(argument) for argument in arguments if isinstance(argument, Exception))

    handler = Keep(logging.WARNING)
    logger = logging.getLogger("kafka")
    logger.addHandler(handler)
    try:
        yield reasons
    finally:
        logger.removeHandler(handler)


def explain_error(error: Exception) -> str:
    """Return the message of an exception without its class name, which kafka-python prepends.

    If the message is only the name of a topic or the id of a broker, Kafka's name of the error, or
    that of its class, is put before it.
    """
    name = type(error).__name__
    text = str(error).rpartition(f"{name}: ")[2].strip()
    if error.args and text and " " not in text:
        code = getattr(error, "message", None)
        return f"{code if isinstance(code, str) else name} ({text})"
    return text or name


def likely_reason(reasons: "deque[str]") -> str:
    """Return the most specific reason of repeated attempts, with a hint on how to fix it.

    A broker often just closes the connection.
    """
    failures = [reason for reason in reasons if not reason.startswith("Unable to bootstrap")]
    reason = max(reversed(failures), key=_specificity, default="no response")
    hints = [hint for sign, hint in _HINTS if sign in reason]
    return f"{reason}; {hints[0]}" if hints else reason


def _specificity(reason: str) -> int:
    """Rank a reason by how specific it is.

    The last attempt often just times out, and many brokers refuse without a message.
    """
    if reason.startswith("socket disconnected"):
        return 2
    if reason == "KafkaTimeoutError":  # without a message
        return 0
    return 1 if "timed out" in reason or reason.startswith("Timeout") else 3
