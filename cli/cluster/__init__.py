"""`quorate cluster`: a Kafka cluster with racks, for people: it goes on until it is taken down.

The options are read here. `EmbeddedLab` and `KafkaCluster` of quorate.integration do the work; what
is shown is made in `show`. What there is say the labs' folders, and the labels of containers.
"""

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import click

from quorate.cli.cluster.brokers import COMMANDS
from quorate.cli.cluster.options import (
    NO_RACK,
    name_option,
    option_for,
    properties_option,
    read_properties,
    read_racks,
    version_option,
)
from quorate.cli.cluster.run import (
    attached,
    do,
    docker_labs,
    has_docker,
    no_such_lab,
    said_plainly,
    telling,
)
from quorate.cli.cluster.show import list_json, list_lines, next_lines, status_json, status_lines
from quorate.cli.errors import UserError, note
from quorate.cli.output import echo_lines
from quorate.cli.subcommands import Commands

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab
    from quorate.cli.cluster.start import Wanted

__all__ = ["cluster"]

HELP = """Run a lab: a Kafka cluster with racks, to try things on.

A lab goes on until it is taken down, in a process of its own, or with real brokers in containers. Clients on this machine reach it at 127.0.0.1, nobody else does.

\b
quorate cluster up                           three brokers in racks a, b, c
quorate cluster up --racks eu,us --version 4.0.2 --name old
quorate cluster up --runtime docker --name real
quorate cluster status                       who leads, who coordinates, where to connect
quorate cluster restart-broker 2 --rack c    move a broker to another rack
quorate cluster stop-broker 3                and start-, kill-, pause-, resume-broker
quorate cluster down                         remove it, with its data

Containers need Docker, and: pip install 'quorate[testcontainers]'
"""


@click.group(cls=Commands, help=HELP)
def cluster() -> None:
    """The group of commands."""


json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")


@cluster.command()
@name_option
@click.option(
    "--runtime",
    type=click.Choice(["embedded", "docker"]),
    default="embedded",
    show_default=True,
    envvar="QUORATE_LAB_RUNTIME",
    show_envvar=True,
    help="In a process without Java, or real brokers in containers.",
)
@click.option("--brokers", type=click.IntRange(min=1), metavar="N", help="How many.  [default: one per rack]")
@click.option(
    "--racks",
    default="a,b,c",
    show_default=True,
    metavar="RACK,...",
    help=f"Racks that brokers are put in by turns; {NO_RACK} is none.",
)
@version_option("Version of Kafka.  [default: 4.3.1]")
@click.option(
    "--image",
    metavar="IMAGE",
    help="Of containers: run Kafka from this image; {version} is replaced.  [default: QUORATE_KAFKA_IMAGE, or apache/kafka]",
)
@click.option(
    "--controllers",
    type=click.IntRange(min=0),
    metavar="N",
    help="Of containers: so many controllers of their own.  [default: none, the first three brokers are]",
)
@properties_option
@click.option("--sasl", is_flag=True, help="Clients need TLS and a password (SASL_SSL, SCRAM-SHA-512).")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Of 127.0.0.1 for broker 1; the others follow.  [default: free ports]",
)
@click.option(
    "--heap-mb",
    type=click.IntRange(min=128),
    metavar="N",
    help="Of containers: largest Java heap of a broker.  [default: 384]",
)
@click.option(
    "--accept-data-loss",
    is_flag=True,
    help="Embedded: start again although data of the lab is missing or damaged; what is damaged is kept.",
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
    """Start a lab, or what is stopped of it.

    One that is up already is shown as it is. Topics come into being when they are written to: 6
    partitions, 2 replicas; --property changes that.
    """
    from quorate.cli.cluster.start import Wanted, start, start_embedded
    from quorate.integration.embedded_lab import embedded_lab_names, is_alive

    given = {
        parameter.name
        for parameter in ctx.command.params
        if parameter.name and ctx.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    }
    wanted = Wanted(
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
    wanted.check()
    there = name in embedded_lab_names()
    if runtime == "embedded":
        wanted.check_embedded()
    elif accept_data_loss:
        raise UserError("--accept-data-loss is for labs that are embedded", "add --runtime embedded")
    elif there:
        raise UserError(
            f"{name} is there already, and embedded",
            "to replace it: quorate cluster down" + ("" if name == "lab" else f" --name {name}"),
            "--name starts another beside it",
        )
    began = time.monotonic()
    if runtime == "embedded" and not (there and is_alive(name)):
        with start_embedded(name, wanted, there, accept_data_loss=accept_data_loss) as lab:
            took_ms = (time.monotonic() - began) * 1000
            for text in lab.start_notes:
                note(text)
            lines = _shown(lab, as_json, news=f"up {'again ' if there else ''}in {took_ms:.0f} ms")
        echo_lines(lines)
        return
    with said_plainly(name, there=False), telling() as tell:
        if runtime == "embedded":
            with attached(name, tell) as lab:
                lines = _again(lab, wanted, began, as_json)
            echo_lines(lines)
            return
        from quorate.integration.containers.lab import lab_names

        if name not in lab_names():
            with start(name, wanted, tell) as lab:
                lines = _shown(lab, as_json, news=f"up in {time.monotonic() - began:.1f} s")
        else:
            with attached(name, tell) as lab:
                lines = _again(lab, wanted, began, as_json)
    echo_lines(lines)


def _again(lab: "Lab", wanted: "Wanted", began: float, as_json: bool) -> list[str]:
    """A lab that is there: what is stopped of it is started.

    Raises `UserError` if it is not what is asked for.
    """
    from quorate.cli.cluster.start import differences

    name = lab.lab_name
    found = differences(wanted, lab)
    if found:
        raise UserError(
            f"{name} is there already, with {found}",
            f"to go on with it as it is, leave these options out; to replace it: quorate cluster down{option_for(lab)}",
            "--name starts another beside it",
        )
    news = "up already"
    if any(broker.state != "running" for broker in lab.brokers):
        lab.start_all()
        news = f"up again after {time.monotonic() - began:.1f} s"
    return _shown(lab, as_json, news=news)


@cluster.command()
@name_option
@json_option
def status(name: str, as_json: bool) -> None:
    """Show brokers, leaders, addresses."""
    with said_plainly(name), attached(name) as lab:
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
            stack.enter_context(said_plainly(name))
            try:
                labs[name] = stack.enter_context(attached(name))
            except ClusterError:
                labs[name] = None  # remains of one, or of another version of quorate
        shown = [list_json(labs)] if as_json else list_lines(labs, ended)
    echo_lines(shown)
    if not labs and not as_json:
        note("there is no lab; start one: quorate cluster up")


@cluster.command()
@name_option
@click.option("--all", "everything", is_flag=True, help="Every lab that `quorate cluster list` shows.")
def down(name: str, everything: bool) -> None:
    """Remove a lab, with its data."""
    from quorate.integration.embedded_lab import EmbeddedLab, embedded_lab_names

    chosen = sorted({*embedded_lab_names(), *docker_labs()}) if everything else [name]
    for one in chosen:
        if one not in embedded_lab_names() and not has_docker():
            note(no_such_lab(one, embedded_lab_names()))
            continue
        with said_plainly(one):
            if EmbeddedLab.remove(one):
                click.echo(f"{one}: removed, with its data")
                continue
            from quorate.integration.containers.lab import lab_names, remove_lab

            if remove_lab(one):
                click.echo(f"{one}: removed, with its data")
            else:
                note(no_such_lab(one, sorted({*embedded_lab_names(), *lab_names()})))
    if not chosen:
        note("there is no lab")


@cluster.command()
@name_option
@click.argument("version", metavar="X.Y.Z")
def upgrade(name: str, version: str) -> None:
    """Move to another version, broker by broker.

    On the same data. Feature levels (metadata.version) stay as they are, so that the way back is
    open, as far as the version that the lab was started with.
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
                f"if {version} cannot read the data, as those of a lab that was started with a later version: quorate cluster upgrade {before}{option_for(lab)} goes back",
            ) from None
        return f"{name}: all brokers run {version}"

    do(name, move)


@cluster.command()
@name_option
def certificate(name: str) -> None:
    """Print the certificate to trust (with --sasl).

    It is PEM, as --ssl-cafile of the other commands takes it.
    """
    with said_plainly(name), attached(name) as lab:
        pem = lab.certificate
    if pem is None:
        raise UserError(f"{name} has no certificate: it was started without --sasl")
    click.echo(pem, nl=False)


def _shown(lab: "Lab", as_json: bool, news: str = "") -> list[str]:
    from quorate.integration.survey import survey

    found = survey(lab)
    if as_json:
        return [status_json(lab, found)]
    return status_lines(lab, found, news) + (next_lines(lab) if news else [])


for _one in COMMANDS:
    cluster.add_command(_one)
