"""The commands of `quorate cluster` for single brokers: stop, start elsewhere, crash, freeze, cut off, look at the log."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click

from quorate.cli.cluster.options import NO_RACK, name_option, option_for, version_option
from quorate.cli.cluster.run import (
    attached,
    check_majority,
    check_paused,
    check_running,
    check_stopped,
    check_there,
    do,
    majority_note,
    said_plainly,
)
from quorate.cli.errors import note

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab

__all__ = ["COMMANDS"]

Check = Callable[["Lab", Sequence[int]], Sequence[int]]

brokers_argument = click.argument("brokers", nargs=-1, required=True, type=int, metavar="BROKER...")
broker_argument = click.argument("broker", type=int)
rack_option = click.option("--rack", metavar="RACK", help=f"In this rack; {NO_RACK} is none.  [default: where it was]")


@click.command()
@name_option
@broker_argument
@rack_option
@version_option("With this version of Kafka.  [default: the one it had]")
def restart_broker(name: str, broker: int, rack: str | None, version: str | None) -> None:
    """Restart a broker, in another rack if asked to.

    Its address and its data stay.
    """

    def restart(lab: "Lab") -> str:
        lab.restart_broker(broker, rack=_rack(rack), version=version)
        return _is_up(lab, broker)

    do(name, restart)


@click.command()
@name_option
@brokers_argument
@rack_option
@version_option("With this version of Kafka.  [default: the one it had]")
def start_broker(name: str, brokers: tuple[int, ...], rack: str | None, version: str | None) -> None:
    """Start brokers that are stopped."""

    def start(lab: "Lab") -> str:
        check_stopped(lab, brokers)
        check_majority(lab, brokers)
        lab.start_brokers(*brokers, rack=_rack(rack), version=version)
        return "\n".join(_is_up(lab, broker) for broker in brokers)

    do(name, start)


def _for_each(verb: str, about: str, became: str, check: Check = check_there) -> click.Command:
    """A command that does the same to several brokers at the same time.

    `check`: what says which of them are still to be done.
    """

    @click.command(f"{verb}-broker", help=about)
    @name_option
    @brokers_argument
    def command(name: str, brokers: tuple[int, ...]) -> None:
        def act(lab: "Lab") -> str:
            todo = check(lab, brokers)
            with ThreadPoolExecutor(max_workers=max(1, len(todo))) as pool:
                list(pool.map(getattr(lab, f"{verb}_broker"), todo))
            missing = majority_note(lab)
            if missing:
                note(missing)
            return "\n".join(f"broker {broker} is {became}" for broker in brokers)

        do(name, act)

    return command


@click.command()
@name_option
@broker_argument
@click.argument("others", nargs=-1, type=int, metavar="[OTHER]...")
def cut(name: str, broker: int, others: tuple[int, ...]) -> None:
    """Cut a broker off from others.

    All packets between it and them are dropped; without others, those between it and this machine.
    """

    def divide(lab: "Lab") -> str:
        lab.cut(broker, *others)
        from_whom = f"broker {', '.join(map(str, others))}" if others else "clients on this machine"
        return f"broker {broker} is cut off from {from_whom}; quorate cluster heal{option_for(lab)} undoes it"

    do(name, divide)


@click.command()
@name_option
def heal(name: str) -> None:
    """Undo every cut."""

    def join(lab: "Lab") -> str:
        lab.heal()
        return "no broker is cut off any more"

    do(name, join)


@click.command()
@name_option
@broker_argument
@click.option("--lines", type=click.IntRange(min=1), metavar="N", help="Only the last N.")
def logs(name: str, broker: int, lines: int | None) -> None:
    """Print what a broker has logged since its latest start."""
    with said_plainly(name), attached(name) as lab:
        logged = lab.logs(broker)
    for line in logged.splitlines()[-lines if lines else 0 :]:
        click.echo(line)


def _is_up(lab: "Lab", number: int) -> str:
    (broker,) = [one for one in lab.brokers if one.id == number]
    where = f"in rack {broker.rack}" if broker.rack is not None else "without a rack"
    return f"broker {number} is up {where} at {broker.address}, Kafka {broker.version}"


def _rack(text: str | None) -> str | None:
    """As `start_broker` takes it: "" is none, `None` leaves it as it was."""
    return "" if text == NO_RACK else text


COMMANDS: tuple[click.Command, ...] = (
    restart_broker,
    start_broker,
    _for_each("stop", "Shut brokers down; leaders move first.", "stopped"),
    _for_each("kill", "End brokers at once, as a crash would.", "killed"),
    _for_each("pause", "Freeze brokers; nothing answers.", "paused", check_running),
    _for_each("resume", "Let frozen brokers go on.", "going on", check_paused),
    cut,
    heal,
    logs,
)
"""In the order of the help text."""
