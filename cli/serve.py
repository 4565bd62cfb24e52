"""`quorate serve`: the embedded cluster as a development Kafka, for clients in any language, until it is told to end.

Only options, what is printed, and signals are here; the brokers are `EmbeddedCluster`'s, what is
said over HTTP is that of `quorate.integration.metrics`.
"""

import errno
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
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
from quorate.cli.output import echo_lines, next_steps, table_lines

if TYPE_CHECKING:
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.security import SecurityProtocol

__all__ = ["serve"]

EVERYWHERE = ("0.0.0.0", "::")
GRACE_MS = 5_000

HELP = """Run a Kafka for development, in this process, without Java.

Brokers with racks that clients in any language connect to, until Ctrl-C or SIGTERM ends them; then answers that are there are still sent.
Listens on 127.0.0.1 only, and keeps everything in memory, unless told otherwise.

\b
quorate serve                                    one broker at 127.0.0.1:9092
quorate serve --racks a,b,c --data ./kafka       three, in racks; topics and offsets stay in ./kafka
quorate serve --kafka-version 4.0.2 --port 0     an older release, on free ports
quorate serve --metrics-port 9404                with /metrics, /health and /ready
"""


@click.command(help=HELP)
@click.option("--brokers", type=click.IntRange(min=1), metavar="N", help="How many.  [default: one per rack]")
@click.option(
    "--racks", default=NO_RACK, metavar="RACK,...", help=f"Racks that brokers are put in by turns; {NO_RACK} is none."
)
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=9092,
    show_default=True,
    metavar="N",
    help="Of broker 1; the others follow. 0: free ones.",
)
@click.option("--host", default="127.0.0.1", show_default=True, metavar="ADDRESS", help="Where to listen.")
@click.option("--advertise", metavar="HOST", help="What clients are told to connect to, if not where brokers listen.")
@click.option(
    "--data",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep everything there, in Kafka's own files; the next call goes on with it.  [default: in memory]",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Start although data in DIR is missing or damaged; what is damaged is kept in DIR/damaged-….",
)
@click.option("--kafka-version", metavar="X.Y.Z", help="The release to be.  [default: 4.3.1]")
@properties_option
@click.option(
    "--security",
    type=click.Choice(["PLAINTEXT", "SASL_PLAINTEXT", "SSL", "SASL_SSL"]),
    default="PLAINTEXT",
    show_default=True,
    help="What clients need: TLS (SSL), a password (SASL, SCRAM-SHA-512), both.",
)
@click.option(
    "--password",
    envvar="QUORATE_SERVE_PASSWORD",
    show_envvar=True,
    metavar="TEXT",
    help="Of the user quorate.  [default: one is made up]",
)
@click.option(
    "--metrics-port",
    type=click.IntRange(0, 65535),
    metavar="N",
    help="Serve /metrics, /health and /ready there. 0: a free one.",
)
@click.option("--verbose", is_flag=True, help="Say on stderr what brokers notice, such as connections they close.")
@click.option("--json", "as_json", is_flag=True, help="Print where things are as one line of JSON.")
def serve(
    brokers: int | None,
    racks: str,
    port: int,
    host: str,
    advertise: str | None,
    data: Path | None,
    accept_data_loss: bool,
    kafka_version: str | None,
    properties: tuple[str, ...],
    security: "SecurityProtocol",
    password: str | None,
    metrics_port: int | None,
    verbose: bool,
    as_json: bool,
) -> None:
    """Start, say where, wait for the end."""
    named = read_racks(racks)
    count = len(named) if brokers is None else brokers
    check_brokers(count, racks=len(named), port=port)
    if host in EVERYWHERE and advertise is None:
        raise UserError(
            f"--host {host}: clients cannot connect to that",
            "name what they can connect to: --advertise HOST",
        )
    if password is not None and not security.startswith("SASL"):
        raise UserError(f"--password: clients need none with --security {security}", "use SASL_SSL or SASL_PLAINTEXT")
    if accept_data_loss and data is None:
        raise UserError("--accept-data-loss works only with a data directory", "name it: --data DIR")
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.interface import TEST_PROPERTIES
    from quorate.cluster.turns import collect_rarely

    began = time.monotonic()
    with ExitStack() as stack:
        ended = stack.enter_context(_signals())
        kafka = EmbeddedCluster(
            brokers=count,
            racks=named,
            version=kafka_version,
            properties={**TEST_PROPERTIES, **broker_properties(count, read_properties(properties))},
            data=data,
            accept_data_loss=accept_data_loss,
            ports=[port + number for number in range(count)] if port else None,
            host=host,
            advertised_host=advertise,
            security=security,
            password=password,
            metered=metrics_port is not None,
            on_note=note if verbose else None,
        )
        with _remedies():
            stack.enter_context(kafka)
        stack.callback(kafka.close, grace_ms=GRACE_MS)
        kafka.wait_ready()
        if not verbose:  # else it was said when it was noticed
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
        raise UserError(f"{count} requests failed by a fault of quorate's own; the first:", *first.splitlines())


@contextmanager
def _signals() -> Iterator[threading.Event]:
    """An event that SIGTERM and Ctrl-C set. The second one ends the process as usual."""
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
    """Say what to do about an address that brokers cannot have, by the names of the options."""
    from quorate.cluster.errors import ClusterError

    try:
        yield
    except ClusterError as error:
        if "cannot listen" not in error.message:
            raise
        port, host = (
            "other ports: --port N; free ones: --port 0",
            "--host is where to listen; what clients are told may be another: --advertise",
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
        why = "it is taken" if error.errno == errno.EADDRINUSE else error.strerror
        raise UserError(
            f"--metrics-port {port} of {host}: {why}", "choose another, or a free one: --metrics-port 0"
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
            "brokers": [{"id": one.id, "rack": one.rack, "address": one.address} for one in kafka.brokers],
            "client_config": kafka.client_config,
            "http": http,
        }
    )


def _lines(
    kafka: "EmbeddedCluster", http: str | None, data: Path | None, security: str, took_ms: float
) -> Iterator[str]:
    brokers = kafka.brokers
    number = f"{len(brokers)} broker{'s' if len(brokers) > 1 else ''}"
    yield click.style(f"Kafka {brokers[0].version}, embedded: {number}, ready in {took_ms:.0f} ms", bold=True)
    yield ""
    yield from table_lines(
        [("broker", "rack", "address"), *((str(one.id), one.rack or "-", one.address) for one in brokers)], right=(0,)
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
            said += f", {config['sasl_mechanism']}, user {config['sasl_plain_username']}, password {config['sasl_plain_password']}"
        if "ssl_cafile" in config:
            options += f" --ssl-cafile {config['ssl_cafile']}"
            said += f"; to trust: {config['ssl_cafile']}"
        yield f"security: {said}"
    if http is not None:
        yield f"metrics: {http}/metrics, also /health and /ready"
    yield f"data: {data}" if data is not None else "data: in memory, gone when this ends; --data DIR keeps it"
    yield ""
    login = (f"export QUORATE_SASL_USERNAME={config.get('sasl_plain_username')} QUORATE_SASL_PASSWORD=…", "")
    yield from next_steps(
        [
            *([login] if "sasl_mechanism" in config else []),
            (f"quorate decode -b {brokers[0].address}{options} --follow", "what the group coordinators write"),
            (f"quorate groups list -b {brokers[0].address}{options}", "groups, with their states"),
        ]
    )
    yield f'In Python: KafkaConsumer("orders", bootstrap_servers="{brokers[0].address}", group_id="g")'
    yield "Ctrl-C ends it."
