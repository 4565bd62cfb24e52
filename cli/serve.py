"""`quorate serve`: the embedded cluster as a Kafka for development, for clients in any language.

This module handles options, output and signals. `EmbeddedCluster` runs the brokers,
`quorate.integration.metrics` serves HTTP.
"""

import errno
import json
import re
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.cluster.options import (
    NO_RACK,
    broker_properties,
    check_brokers,
    properties_option,
    read_properties,
    read_racks,
)
from quorate.cli.errors import UserError, note
from quorate.cli.module_path import search_current_folder
from quorate.cli.output import echo_lines, next_steps, table_lines

if TYPE_CHECKING:
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.security import SecurityProtocol

ALL_ADDRESSES = ("0.0.0.0", "::")
GRACE_MS = 5_000

HELP = """Run a Kafka cluster for development in this process, without Java.

Clients in any language can connect. The cluster runs until Ctrl-C or SIGTERM; pending responses are still sent. By
default it listens on 127.0.0.1 only, and keeps its data in memory.

\b
quorate serve                                    one broker at 127.0.0.1:9092
quorate serve --racks a,b,c --data ./kafka       three brokers in racks; topics and offsets are kept in ./kafka
quorate serve --kafka-version 4.0.2 --port 0     an older release, on free ports
quorate serve --metrics-port 9404                with /metrics, /health and /ready
quorate serve --property group.consumer.assignors=mine:Mine,uniform
                                                 with an assignor of your own: class Mine in ./mine.py

Each option has an environment variable, such as QUORATE_SERVE_RACKS=a,b,c. In a container: docker/serve of quorate's
repository.
"""


@click.command(help=HELP, context_settings={"auto_envvar_prefix": "QUORATE_SERVE"})
@click.option("--brokers", type=click.IntRange(min=1), metavar="N", help="Number of brokers.  [default: one per rack]")
@click.option(
    "--racks",
    default=NO_RACK,
    metavar="RACK,...",
    help=f"Racks to distribute the brokers over; {NO_RACK} stands for no rack.  [default: no racks]",
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="N",
    help="Port of broker 1; other brokers use the ports that follow. 0 chooses free ports.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Address to listen on.")
@click.option(
    "--advertise",
    metavar="HOST[:PORT]",
    help="Host to advertise to clients, and the port of broker 1 if it is published as another one; "
    "other brokers use the ports that follow.  [default: the address of --host]",
)
@click.option(
    "--data",
    type=click.Path(file_okay=False),
    metavar="DIR",
    help="Keep data in this directory, in Kafka's file formats; a later start reuses it.  [default: in memory]",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Start even if data in DIR is missing or damaged; damaged files are kept in DIR/damaged-….",
)
@click.option("--kafka-version", metavar="X.Y.Z", help="Release of Kafka to emulate.  [default: 4.4.0]")
@properties_option
@click.option(
    "--security",
    type=click.Choice(["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]),
    default="PLAINTEXT",
    show_default=True,
    help="Security protocol: TLS (SSL), a password (SASL, SCRAM-SHA-512), or both.",
)
@click.option(
    "--password",
    metavar="TEXT",
    show_envvar=True,
    help="Password of the user quorate.  [default: generated]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Serve /metrics, /health and /ready on this port. 0 chooses a free port.",
)
@click.option("--verbose", is_flag=True, help="Log notes of the brokers to stderr, such as closed connections.")
@click.option(
    "--json",
    "as_json",
    envvar="QUORATE_SERVE_JSON",
    is_flag=True,
    help="Print addresses and client configs as one line of JSON.",
)
def serve(
    brokers: int | None,
    racks: str,
    port: int,
    host: str,
    advertise: str | None,
    data: str | None,
    accept_data_loss: bool,
    kafka_version: str | None,
    properties: tuple[str, ...],
    security: "SecurityProtocol",
    password: str | None,
    metrics_port: int | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Start the cluster, print its addresses, and wait for a signal."""
    for option, text in (("--host", host), ("--advertise", advertise), ("--data", data)):
        if text == "":  # sockets would listen on all addresses, and files be in the current directory
            raise UserError(f"{option} is empty", f"give a value, or omit {option}")
    named = read_racks(racks)
    count = len(named) if brokers is None else brokers
    check_brokers(count, racks=len(named), port=port)
    advertised_host, advertised_port = _read_address(advertise, count)
    if host in ALL_ADDRESSES and advertise is None:
        raise UserError(
            f"--host {host}: clients cannot connect to this address",
            "name a host that they can connect to: --advertise HOST",
        )
    if password is not None and not security.startswith("SASL"):
        raise UserError(f"--password has no effect with --security {security}", "use SASL_SSL or SASL_PLAINTEXT")
    if accept_data_loss and data is None:
        raise UserError("--accept-data-loss needs a data directory", "name it: --data DIR")
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.interface import TEST_PROPERTIES
    from quorate.cluster.turns import collect_rarely

    given = read_properties(properties)
    if ":" in given.get("group.consumer.assignors", ""):  # MODULE:CLASS
        search_current_folder()
    began = time.monotonic()
    with ExitStack() as stack:
        ended = stack.enter_context(_signals())
        kafka = EmbeddedCluster(
            brokers=count,
            racks=named,
            version=kafka_version,
            properties={**TEST_PROPERTIES, **broker_properties(count, given)},
            data=data,
            accept_data_loss=accept_data_loss,
            ports=[port + number for number in range(count)] if port else None,
            host=host,
            advertised_host=advertised_host,
            advertised_ports=[advertised_port + number for number in range(count)] if advertised_port else None,
            security=security,
            password=password,
            metered=metrics_port is not None,
            on_note=note if verbose else None,
        )
        with _remedies():
            stack.enter_context(kafka)
        stack.callback(kafka.close, grace_ms=GRACE_MS)
        kafka.wait_ready()
        if not verbose:  # otherwise they have been printed already
            for text in kafka.start_notes:
                note(text)
        http = None
        if metrics_port is not None:
            from quorate.cluster.broker import endpoint

            http = f"http://{endpoint(host, stack.enter_context(_http(kafka, host, metrics_port)))}"
        took_ms = (time.monotonic() - began) * 1000
        echo_lines([_json(kafka, http)] if as_json else _lines(kafka, http, data, security, took_ms))
        sys.stdout.flush()
        collect_rarely()
        ended.wait()
        note("stopping")
    if kafka.failures:
        count, first = kafka.core.failure_count, kafka.failures[0]
        raise UserError(f"{count} requests failed because of a bug in quorate; the first:", *first.splitlines())


def _read_address(text: str | None, brokers: int) -> tuple[str | None, int | None]:
    """Parse the value of --advertise: a host, and the port of broker 1. Raises `UserError`."""
    if text is None:
        return None, None
    found = re.fullmatch(r"(?:\[([^]]+)\]|([^:]+)):([0-9]+)", text)
    if found is None:
        host = text[1:-1] if text.startswith("[") and text.endswith("]") else text
        if ":" in host and not _is_ipv6(host):
            raise UserError(f"--advertise {text}: is not HOST or HOST:PORT", "for example: --advertise localhost:19092")
        return host, None
    port = int(found[3])
    if not 0 < port <= 65536 - brokers:
        raise UserError(
            f"--advertise {text}: the ports of {brokers} brokers have to be from 1 to 65535",
            "for example: --advertise localhost:19092",
        )
    return found[1] or found[2], port


def _is_ipv6(text: str) -> bool:
    try:
        return ip_address(text).version == 6
    except ValueError:
        return False


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """Yield an event that SIGTERM and Ctrl-C set. A second signal ends the process."""
    ended = threading.Event()
    before: dict[int, Any] = {}

    def end(number: int, _: object) -> None:
        ended.set()
        signal.signal(number, before[number])

    for number in (signal.SIGTERM, signal.SIGINT):
        before[number] = signal.signal(number, end)
    try:
        yield ended
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


@contextmanager
def _remedies() -> Iterator[None]:
    """Replace the remedy of a "cannot listen" error by one that names the options."""
    from quorate.cluster.errors import ClusterError

    try:
        yield
    except ClusterError as error:
        if "cannot listen on" not in error.message:
            raise
        port, host = (
            "choose other ports: --port N; or free ports: --port 0",
            "--host is the address to listen on; use --advertise for the host that clients connect to",
        )
        raise UserError(error.message, port if "choose another" in error.message else host) from None


@contextmanager
def _http(kafka: "EmbeddedCluster", host: str, port: int) -> Iterator[int]:
    try:
        from quorate.integration.metrics import serving_http
    except ModuleNotFoundError as error:
        raise UserError(
            f"--metrics-port needs the package {error.name}", "install it: pip install 'quorate[metrics]'"
        ) from None
    server = serving_http(kafka, host, port)
    try:
        found = server.__enter__()
    except OSError as error:
        why = "port in use" if error.errno == errno.EADDRINUSE else error.strerror
        raise UserError(
            f"--metrics-port {port} of {host}: {why}", "choose another port, or a free one: --metrics-port 0"
        ) from None
    try:
        yield found
    finally:
        server.__exit__(None, None, None)


def _json(kafka: "EmbeddedCluster", http: str | None) -> str:
    return json.dumps(
        {
            "bootstrap_servers": kafka.bootstrap_servers,
            "version": kafka.brokers[0].version,
            "brokers": [{"id": broker.id, "rack": broker.rack, "address": broker.address} for broker in kafka.brokers],
            "client_config": kafka.client_config,
            "http": http,
        }
    )


def _lines(
    kafka: "EmbeddedCluster", http: str | None, data: str | None, security: str, took_ms: float
) -> Iterator[str]:
    brokers = kafka.brokers
    number = f"{len(brokers)} broker{'s' if len(brokers) > 1 else ''}"
    yield click.style(f"Kafka {brokers[0].version}, embedded: {number}, ready in {took_ms:.0f} ms", bold=True)
    yield ""
    yield from table_lines(
        [("broker", "rack", "address"), *((str(broker.id), broker.rack or "-", broker.address) for broker in brokers)],
        right=(0,),
    )
    yield ""
    yield f"bootstrap servers: {kafka.bootstrap_servers}"
    config = kafka.client_config
    options = ""
    if security != "PLAINTEXT":
        options = f" --security-protocol {security}"
        said = security
        if "sasl_mechanism" in config:
            options += f" --sasl-mechanism {config['sasl_mechanism']}"
            said += f", {config['sasl_mechanism']}, user {config['sasl_plain_username']}"
            said += f", password {config['sasl_plain_password']}"
        if "ssl_cafile" in config:
            options += f" --ssl-cafile {config['ssl_cafile']}"
            said += f"; CA certificate: {config['ssl_cafile']}"
        yield f"security: {said}"
    if http is not None:
        yield f"metrics: {http}/metrics, also /health and /ready"
    yield f"data: {data}" if data is not None else "data: in memory, lost at the end; --data DIR keeps it"
    yield ""
    login = (f"export QUORATE_SASL_USERNAME={config.get('sasl_plain_username')} QUORATE_SASL_PASSWORD=…", "")
    yield from next_steps(
        [
            *([login] if "sasl_mechanism" in config else []),
            (f"quorate decode -b {brokers[0].address}{options} --follow", "what the group coordinators write"),
            (f"quorate groups list -b {brokers[0].address}{options}", "groups and their states"),
        ]
    )
    yield f'In Python: KafkaConsumer("orders", bootstrap_servers="{brokers[0].address}", group_id="g")'
    yield "Press Ctrl-C to stop."
