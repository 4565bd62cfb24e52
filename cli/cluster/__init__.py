"""`quorate cluster`: a Kafka cluster with racks that runs until you remove it.

This module reads the options. `EmbeddedLab` and `KafkaCluster` of quorate.integration run the
cluster, `show` formats it. Existing labs are found by their folders and by labels of containers.
"""

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from quorate.cli.cluster.brokers import COMMANDS
from quorate.cli.cluster.labs import (
    attached,
    docker_labs,
    has_docker,
    no_such_lab,
    run_action,
    show_progress,
    user_errors,
)
from quorate.cli.cluster.options import (
    NO_RACK,
    name_option,
    option_for,
    properties_option,
    read_properties,
    read_racks,
    version_option,
)
from quorate.cli.cluster.show import list_json, list_lines, next_lines, status_json, status_lines
from quorate.cli.errors import UserError, note
from quorate.cli.output import echo_lines
from quorate.cli.subcommands import Commands

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab
    from quorate.cli.cluster.start import LabOptions

__all__ = ["cluster"]

HELP = """Run a lab: a Kafka cluster with racks, for experiments.

A lab runs until you remove it with `quorate cluster down`: embedded in a background process, or as real brokers in
containers. Only clients on this machine can connect, at 127.0.0.1.

\b
quorate cluster up                           three brokers in racks a, b, c
quorate cluster up --racks eu,us --version 4.0.2 --name old
quorate cluster up --runtime docker --name real
quorate cluster status                       leaders, group coordinators, addresses
quorate cluster restart-broker 2 --rack c    move a broker to another rack
quorate cluster stop-broker 3                and start-, kill-, pause-, resume-broker
quorate cluster down                         remove it, with its data

Containers need Docker, and: pip install 'quorate[testcontainers]'
"""


@click.group(cls=Commands, help=HELP)
def cluster() -> None:
    """Define the group of commands."""


json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@cluster.command()
@name_option
@click.option(
    "--runtime",
    type=click.Choice(["embedded", "docker"]),
    default="embedded",
    show_default=True,
    envvar="QUORATE_LAB_RUNTIME",
    show_envvar=True,
    help="Run in a background process without Java, or as real brokers in containers.",
)
@click.option("--brokers", type=click.IntRange(min=1), metavar="N", help="Number of brokers.  [default: one per rack]")
@click.option(
    "--racks",
    default="a,b,c",
    show_default=True,
    metavar="RACK,...",
    help=f"Racks to distribute the brokers over; {NO_RACK} stands for no rack.",
)
@version_option("Version of Kafka.  [default: 4.4.0; containers: 4.3.1]")
@click.option(
    "--image",
    metavar="IMAGE",
    help="Containers: image of Kafka, with {version} as placeholder.  [default: QUORATE_KAFKA_IMAGE, or apache/kafka]",
)
@click.option(
    "--controllers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Containers: number of separate controllers.  [default: 0; the first three brokers are controllers]",
)
@properties_option
@click.option("--sasl", is_flag=True, help="Require TLS and a password of clients (SASL_SSL, SCRAM-SHA-512).")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Port of broker 1 on 127.0.0.1; other brokers use the ports that follow.  [default: free ports]",
)
@click.option(
    "--heap-mb",
    type=click.IntRange(min=128),
    metavar="N",
    help="Containers: maximum Java heap of a broker in MB.  [default: 384]",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Embedded: start even if data of the lab is missing or damaged; damaged files are kept.",
)
@json_option
@click.pass_context
def up(
    ctx: click.Context,
    /,
    name: str,
    runtime: str,
    brokers: int | None,
    racks: str,
    version: str | None,
    image: str | None,
    controllers: int | None,
    properties: tuple[str, ...],
    sasl: bool,
    port: int | None,
    heap_mb: int | None,
    accept_data_loss: bool,
    as_json: bool,
) -> None:
    """Start a lab, or the stopped brokers of an existing one.

    A lab that is running is shown unchanged. Topics are created when a client first writes to them,
    with 6 partitions and 2 replicas; --property changes that.
    """
    from quorate.cli.cluster.start import LabOptions, start, start_embedded
    from quorate.integration.embedded_lab import embedded_lab_names, is_alive

    given = {
        parameter.name
        for parameter in ctx.command.params
        if parameter.name and ctx.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    }
    requested = LabOptions(
        brokers=brokers,
        racks=read_racks(racks),
        version=version,
        image=image,
        controllers=controllers,
        properties=read_properties(properties),
        sasl=sasl,
        port=port,
        heap_mb=heap_mb,
        given=frozenset(given),
    )
    requested.check()
    exists = name in embedded_lab_names()
    if runtime == "embedded":
        requested.check_embedded()
    elif accept_data_loss:
        raise UserError("--accept-data-loss is for embedded labs", "add --runtime embedded")
    elif exists:
        raise UserError(
            f"lab {name} already exists, and is embedded",
            "to replace it: quorate cluster down" + ("" if name == "lab" else f" --name {name}"),
            "to start another lab: --name NAME",
        )
    began = time.monotonic()
    if runtime == "embedded" and not (exists and is_alive(name)):
        with start_embedded(name, requested, exists, accept_data_loss=accept_data_loss) as lab:
            took_ms = (time.monotonic() - began) * 1000
            for text in lab.start_notes:
                note(text)
            lines = _shown(lab, as_json, news=f"up {'again ' if exists else ''}in {took_ms:.0f} ms")
        echo_lines(lines)
        return
    with user_errors(name, exists=False), show_progress() as report:
        if runtime == "embedded":
            with attached(name, report) as lab:
                lines = _again(lab, requested, began, as_json)
            echo_lines(lines)
            return
        from quorate.integration.containers.lab import lab_names

        if name not in lab_names():
            with start(name, requested, report) as lab:
                for text in lab.start_notes:
                    note(text)
                lines = _shown(lab, as_json, news=f"up in {time.monotonic() - began:.1f} s")
        else:
            with attached(name, report) as lab:
                lines = _again(lab, requested, began, as_json)
    echo_lines(lines)


def _again(lab: "Lab", requested: "LabOptions", began: float, as_json: bool) -> list[str]:
    """Start the stopped brokers of an existing lab, and return the lines to print.

    Raises `UserError` if the lab differs from the options on the command line.
    """
    from quorate.cli.cluster.start import differences

    name = lab.lab_name
    found = differences(requested, lab)
    if found:
        raise UserError(
            f"lab {name} already exists, with {found}",
            f"to keep it, omit these options; to replace it: quorate cluster down{option_for(lab)}",
            "to start another lab: --name NAME",
        )
    news = "already up"
    if any(broker.state != "running" for broker in lab.brokers):
        lab.start_all()
        news = f"up again after {time.monotonic() - began:.1f} s"
    return _shown(lab, as_json, news=news)


@cluster.command()
@name_option
@json_option
def status(name: str, as_json: bool) -> None:
    """Show brokers, leaders and addresses."""
    with user_errors(name), attached(name) as lab:
        lines = _shown(lab, as_json)
    echo_lines(lines)


@cluster.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List all labs."""
    from quorate.cluster.errors import ClusterError
    from quorate.integration.embedded_lab import embedded_lab_names, is_alive

    labs: dict[str, Lab | None] = {}
    ended = [name for name in embedded_lab_names() if not is_alive(name)]
    with ExitStack() as stack:
        for name in sorted({*embedded_lab_names(), *docker_labs()}):
            stack.enter_context(user_errors(name))
            try:
                labs[name] = stack.enter_context(attached(name))
            except ClusterError:
                labs[name] = None  # incomplete, or of another version of quorate
        shown = [list_json(labs)] if as_json else list_lines(labs, ended)
    echo_lines(shown)
    if not labs and not as_json:
        note("no lab exists; start one: quorate cluster up")


@cluster.command()
@name_option
@click.option("--all", "everything", is_flag=True, help="Remove every lab that `quorate cluster list` shows.")
def down(name: str, everything: bool) -> None:
    """Remove a lab and its data."""
    from quorate.integration.embedded_lab import EmbeddedLab, embedded_lab_names

    chosen = sorted({*embedded_lab_names(), *docker_labs()}) if everything else [name]
    for one in chosen:
        if one not in embedded_lab_names() and not has_docker():
            note(no_such_lab(one, embedded_lab_names()))
            continue
        with user_errors(one):
            if EmbeddedLab.remove(one):
                click.echo(f"{one}: removed, with its data")
                continue
            from quorate.integration.containers.lab import lab_names, remove_lab

            if remove_lab(one):
                click.echo(f"{one}: removed, with its data")
            else:
                note(no_such_lab(one, sorted({*embedded_lab_names(), *lab_names()})))
    if not chosen:
        note("no lab exists")


@cluster.command()
@name_option
@click.argument("version", metavar="X.Y.Z")
def upgrade(name: str, version: str) -> None:
    """Move to another version of Kafka, broker by broker.

    The data is kept. Feature levels (metadata.version) do not change, so that a downgrade is
    possible, down to the version that the lab was started with.
    """
    from quorate.cluster.errors import ClusterError

    def move(lab: "Lab") -> str:
        before = lab.version
        try:
            lab.upgrade(version)
        except ClusterError as error:
            if before == version or all(broker.version != version for broker in lab.brokers):
                raise
            raise ClusterError(
                error.message,
                *error.remedy,
                f"{version} may be unable to read the data, if the lab was started with a later version; "
                f"to go back: quorate cluster upgrade {before}{option_for(lab)}",
            ) from None
        return f"{name}: all brokers run {version}"

    run_action(name, move)


@cluster.command()
@name_option
def certificate(name: str) -> None:
    """Print the CA certificate of a lab started with --sasl.

    The format is PEM, for --ssl-cafile of the other commands.
    """
    with user_errors(name), attached(name) as lab:
        pem = lab.certificate
    if pem is None:
        raise UserError(f"lab {name} has no certificate: it was started without --sasl")
    click.echo(pem, nl=False)


def _shown(lab: "Lab", as_json: bool, news: str = "") -> list[str]:
    from quorate.integration.survey import survey

    found = survey(lab)
    if as_json:
        return [status_json(lab, found)]
    return status_lines(lab, found, news) + (next_lines(lab) if news else [])


for _one in COMMANDS:
    cluster.add_command(_one)
