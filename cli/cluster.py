"""`quorate cluster`: a Kafka cluster with racks in containers, for people: it goes on until it is taken down.

The options are read here. `KafkaCluster` of quorate.integration does the work; what is shown is made in `cluster_show`. No file keeps anything: the containers'
labels say what there is.
"""

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.errors import UserError, note

if TYPE_CHECKING:
    from quorate.integration.containers import KafkaCluster

__all__ = ["cluster"]

F = TypeVar("F", bound=Callable[..., Any])

NO_RACK = "-"

HELP = """Run a lab: a Kafka cluster with racks in containers, to try things on.

A lab goes on until it is taken down. Clients on this machine reach it at 127.0.0.1, nobody else does.

\b
quorate cluster up                           three brokers in racks a, b, c
quorate cluster up --racks eu,us --version 4.0.2 --name old
quorate cluster status                       who leads, who coordinates, where to connect
quorate cluster restart-broker 2 --rack c    move a broker to another rack
quorate cluster stop-broker 3                and start-, kill-, pause-, resume-broker
quorate cluster down                         remove it, with its data

Needs Docker, and: pip install 'quorate[testcontainers]'
"""


class _InOrder(click.Group):
    """Lists commands as they stand below."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)


@click.group(cls=_InOrder, help=HELP)
def cluster() -> None:
    """The group of commands."""


def name_option(command: F) -> F:
    """Which lab is meant."""
    option: Callable[[F], F] = click.option(
        "--name",
        default="lab",
        show_default=True,
        metavar="NAME",
        envvar="QUORATE_LAB",
        show_envvar=True,
        help="The lab; there may be several.",
    )
    return option(command)


def version_option(what: str) -> Callable[[F], F]:
    """A version of Kafka."""
    return click.option("--version", metavar="X.Y.Z", help=what)


json_option = click.option("--json", "as_json", is_flag=True, help="As JSON.")
brokers_argument = click.argument("brokers", nargs=-1, required=True, type=int, metavar="BROKER...")
broker_argument = click.argument("broker", type=int)
rack_option = click.option("--rack", metavar="RACK", help=f"In this rack; {NO_RACK} is none.  [default: where it was]")


# ---- the cluster


@cluster.command()
@name_option
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
    help="Run Kafka from this image; {version} is replaced.  [default: QUORATE_KAFKA_IMAGE, or apache/kafka]",
)
@click.option(
    "--controllers",
    type=click.IntRange(min=0),
    metavar="N",
    help="So many controllers of their own.  [default: none, the first three brokers are]",
)
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="For every server.properties.")
@click.option("--sasl", is_flag=True, help="Clients need TLS and a password (SASL_SSL, SCRAM-SHA-512).")
@click.option(
    "--port",
    type=click.IntRange(1, 65535),
    metavar="N",
    help="Of 127.0.0.1 for broker 1; the others follow.  [default: free ports]",
)
@click.option(
    "--heap-mb", type=click.IntRange(min=128), metavar="N", help="Largest Java heap of a broker.  [default: 384]"
)
@json_option
@click.pass_context
def up(
    ctx: click.Context,
    /,
    name: str,
    brokers: int | None,
    racks: str,
    version: str | None,
    image: str | None,
    controllers: int | None,
    properties: tuple[str, ...],
    sasl: bool,
    port: int | None,
    heap_mb: int | None,
    as_json: bool,
) -> None:
    """Start a lab, or what is stopped of it.

    One that is up already is shown as it is. Topics come into being when they are written to: 6 partitions, 2 replicas; --property changes that.
    """
    from quorate.cli.cluster_run import attach, said_plainly, telling
    from quorate.cli.cluster_up import Wanted, differences, start

    given = {
        parameter.name
        for parameter in ctx.command.params
        if parameter.name and ctx.get_parameter_source(parameter.name) is click.core.ParameterSource.COMMANDLINE
    }
    wanted = Wanted(
        brokers=brokers,
        racks=_racks(racks),
        version=version,
        image=image,
        controllers=controllers,
        properties=_properties(properties),
        sasl=sasl,
        port=port,
        heap_mb=heap_mb,
        given=frozenset(given),
    )
    wanted.check()
    began = time.monotonic()
    with said_plainly(), telling() as tell:
        from quorate.integration.containers.lab import lab_names

        if name not in lab_names():
            lab = start(name, wanted, tell)
            news = f"up in {time.monotonic() - began:.1f} s"
        else:
            lab = attach(name, tell)
            found = differences(wanted, lab)
            if found:
                raise UserError(
                    f"{name} is there already, with {found}",
                    "to go on with it as it is, leave these options out; to replace it: quorate cluster down"
                    + ("" if name == "lab" else f" --name {name}"),
                    "--name starts another beside it",
                )
            news = "up already"
            if any(broker.state != "running" for broker in lab.brokers):
                lab.start_all()
                news = f"up again after {time.monotonic() - began:.1f} s"
    _show(lab, as_json, news=news)


@cluster.command()
@name_option
@json_option
def status(name: str, as_json: bool) -> None:
    """Show brokers, leaders, addresses."""
    from quorate.cli.cluster_run import attach, said_plainly

    with said_plainly():
        lab = attach(name)
    _show(lab, as_json)


@cluster.command("list")
@json_option
def list_(as_json: bool) -> None:
    """List all labs."""
    from quorate.cli.cluster_run import attach, said_plainly
    from quorate.cli.cluster_show import list_json, list_lines
    from quorate.integration.errors import ClusterError

    with said_plainly():
        from quorate.integration.containers.lab import lab_names

        labs: dict[str, KafkaCluster | None] = {}
        for name in lab_names():
            try:
                labs[name] = attach(name)
            except ClusterError:
                labs[name] = None  # remains of one, or of another version of quorate
        lines = [list_json(labs)] if as_json else list_lines(labs)
    for line in lines:
        click.echo(line)
    if not labs and not as_json:
        note("there is no lab; start one: quorate cluster up")


@cluster.command()
@name_option
@click.option("--all", "everything", is_flag=True, help="Every lab that `quorate cluster list` shows.")
def down(name: str, everything: bool) -> None:
    """Remove a lab, with its data."""
    from quorate.cli.cluster_run import said_plainly

    with said_plainly():
        from quorate.integration.containers.lab import lab_names, remove_lab

        there = lab_names()
        chosen = there if everything else [name]
        for one in chosen:
            if remove_lab(one):
                click.echo(f"{one}: removed, with its data")
            else:
                note(f"there is no lab named {one}" + (f", only {', '.join(there)}" if there else ""))
        if not chosen:
            note("there is no lab")


@cluster.command()
@name_option
@click.argument("version", metavar="X.Y.Z")
def upgrade(name: str, version: str) -> None:
    """Move to another version, broker by broker.

    On the same data; a lower version is a downgrade. Feature levels (metadata.version) stay as they are, so that the way back is open.
    """

    def move(lab: "KafkaCluster") -> str:
        lab.upgrade(version)
        return f"{name}: all brokers run {version}"

    _do(name, move)


@cluster.command()
@name_option
def certificate(name: str) -> None:
    """Print the certificate to trust (with --sasl).

    It is PEM, as --ssl-cafile of the other commands takes it.
    """
    from quorate.cli.cluster_run import attach, said_plainly

    with said_plainly():
        pem = attach(name).certificate
    if pem is None:
        raise UserError(f"{name} has no certificate: it was started without --sasl")
    click.echo(pem, nl=False)


# ---- brokers


@cluster.command()
@name_option
@broker_argument
@rack_option
@version_option("With this version of Kafka.  [default: the one it had]")
def restart_broker(name: str, broker: int, rack: str | None, version: str | None) -> None:
    """Restart a broker, in another rack if asked to.

    Its address and its data stay.
    """

    def restart(lab: "KafkaCluster") -> str:
        lab.restart_broker(broker, rack=_rack(rack), version=version)
        return _is_up(lab, broker)

    _do(name, restart)


@cluster.command()
@name_option
@brokers_argument
@rack_option
@version_option("With this version of Kafka.  [default: the one it had]")
def start_broker(name: str, brokers: tuple[int, ...], rack: str | None, version: str | None) -> None:
    """Start brokers that are stopped."""
    from quorate.cli.cluster_run import check_majority, check_stopped

    def start(lab: "KafkaCluster") -> str:
        check_stopped(lab, brokers)
        check_majority(lab, brokers)
        lab.start_brokers(*brokers, rack=_rack(rack), version=version)
        return "\n".join(_is_up(lab, broker) for broker in brokers)

    _do(name, start)


@cluster.command()
@name_option
@brokers_argument
def stop_broker(name: str, brokers: tuple[int, ...]) -> None:
    """Shut brokers down; leaders move first."""
    _each(name, brokers, "stop_broker", "stopped")


@cluster.command()
@name_option
@brokers_argument
def kill_broker(name: str, brokers: tuple[int, ...]) -> None:
    """End brokers at once, as a crash would."""
    _each(name, brokers, "kill_broker", "killed")


@cluster.command()
@name_option
@brokers_argument
def pause_broker(name: str, brokers: tuple[int, ...]) -> None:
    """Freeze brokers; nothing answers."""
    _each(name, brokers, "pause_broker", "paused")


@cluster.command()
@name_option
@brokers_argument
def resume_broker(name: str, brokers: tuple[int, ...]) -> None:
    """Let frozen brokers go on."""
    _each(name, brokers, "resume_broker", "going on")


@cluster.command()
@name_option
@broker_argument
@click.argument("others", nargs=-1, type=int, metavar="[OTHER]...")
def cut(name: str, broker: int, others: tuple[int, ...]) -> None:
    """Cut a broker off from others.

    All packets between it and them are dropped; without others, those between it and this machine.
    """

    def divide(lab: "KafkaCluster") -> str:
        lab.cut(broker, *others)
        from_whom = f"broker {', '.join(map(str, others))}" if others else "clients on this machine"
        return f"broker {broker} is cut off from {from_whom}; quorate cluster heal undoes it"

    _do(name, divide)


@cluster.command()
@name_option
def heal(name: str) -> None:
    """Undo every cut."""

    def join(lab: "KafkaCluster") -> str:
        lab.heal()
        return "no broker is cut off any more"

    _do(name, join)


@cluster.command()
@name_option
@broker_argument
@click.option("--lines", type=click.IntRange(min=1), metavar="N", help="Only the last N.")
def logs(name: str, broker: int, lines: int | None) -> None:
    """Print what a broker has logged since its latest start."""
    from quorate.cli.cluster_run import attach, said_plainly

    with said_plainly():
        logged = attach(name).logs(broker)
    for line in logged.splitlines()[-lines if lines else 0 :]:
        click.echo(line)


# ---- what they share


def _do(name: str, act: Callable[["KafkaCluster"], str]) -> None:
    """Do something to a cluster, and say what it has come to."""
    from quorate.cli.cluster_run import attach, said_plainly, telling

    began = time.monotonic()
    with said_plainly(), telling() as tell:
        said = act(attach(name, tell))
    took = time.monotonic() - began
    click.echo(f"{said} ({took:.1f} s)" if took >= 1 else said)


def _each(name: str, brokers: Sequence[int], method: str, became: str) -> None:
    from quorate.cli.cluster_run import do_to_each, majority_note

    def act(lab: "KafkaCluster") -> str:
        do_to_each(lab, brokers, method)
        missing = majority_note(lab)
        if missing:
            note(missing)
        return "\n".join(f"broker {broker} is {became}" for broker in brokers)

    _do(name, act)


def _is_up(lab: "KafkaCluster", number: int) -> str:
    (broker,) = [one for one in lab.brokers if one.id == number]
    where = f"in rack {broker.rack}" if broker.rack is not None else "without a rack"
    return f"broker {number} is up {where} at {broker.address}, Kafka {broker.version}"


def _show(lab: "KafkaCluster", as_json: bool, news: str = "") -> None:
    from quorate.cli.cluster_run import said_plainly
    from quorate.cli.cluster_show import next_lines, status_json, status_lines
    from quorate.integration.survey import survey

    with said_plainly():
        found = survey(lab)
        lines = [status_json(lab, found)] if as_json else status_lines(lab, found, news)
        if news and not as_json:
            lines += next_lines(lab)
        lab.close()
    for line in lines:
        click.echo(line)


def _racks(text: str) -> list[str | None]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UserError(f"--racks {text}: a name is missing", f"use {NO_RACK} for no rack: --racks a,b,{NO_RACK}")
    return [None if name == NO_RACK else name for name in names]


def _rack(text: str | None) -> str | None:
    """As `start_broker` takes it: "" is none, `None` leaves it as it was."""
    return "" if text == NO_RACK else text


def _properties(texts: Sequence[str]) -> dict[str, str]:
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--property {text}: is not KEY=VALUE", "for example --property log.retention.ms=60000")
        found[key.strip()] = value.strip()
    return found
