"""Commands of `quorate cluster` for brokers: start, stop, restart, kill, pause, cut off, logs."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import click

from quorate.cli.cluster.labs import (
    attached,
    check_exist,
    check_majority,
    check_paused,
    check_running,
    check_stopped,
    majority_note,
    run_action,
    user_errors,
)
from quorate.cli.cluster.options import NO_RACK, name_option, option_for, version_option
from quorate.cli.errors import note

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab

Check = Callable[["Lab", Sequence[int]], Sequence[int]]

brokers_argument = click.argument("brokers", nargs=-1, required=True, type=int, metavar="BROKER...")
broker_argument = click.argument("broker", type=int)
rack_option = click.option(
    "--rack", metavar="RACK", help=f"Rack of the broker; {NO_RACK} stands for no rack.  [default: unchanged]"
)


@click.command()
@name_option
@broker_argument
@rack_option
@version_option("Version of Kafka.  [default: unchanged]")
def restart_broker(name: str, broker: int, rack: str | None, version: str | None) -> None:
    """Restart a broker, optionally in another rack.

    It keeps its address and its data.
    """

    def restart(lab: "Lab") -> str:
        lab.restart_broker(broker, rack=_rack(rack), version=version)
        return _is_up(lab, broker)

    run_action(name, restart)


@click.command()
@name_option
@brokers_argument
@rack_option
@version_option("Version of Kafka.  [default: unchanged]")
def start_broker(name: str, brokers: tuple[int, ...], rack: str | None, version: str | None) -> None:
    """Start stopped brokers."""

    def start(lab: "Lab") -> str:
        check_stopped(lab, brokers)
        check_majority(lab, brokers)
        lab.start_brokers(*brokers, rack=_rack(rack), version=version)
        return "\n".join(_is_up(lab, broker) for broker in brokers)

    run_action(name, start)


def _for_each(verb: str, about: str, became: str, check: Check = check_exist) -> click.Command:
    """Return a command that acts on several brokers at the same time.

    `check` returns those of the brokers that need the action.
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

        run_action(name, act)

    return command


@click.command()
@name_option
@broker_argument
@click.argument("others", nargs=-1, type=int, metavar="[OTHER]...")
def cut(name: str, broker: int, others: tuple[int, ...]) -> None:
    """Cut a broker off from other brokers, or from clients.

    All packets between the brokers are dropped. Without OTHER, those between the broker and this
    machine are dropped.
    """

    def divide(lab: "Lab") -> str:
        lab.cut(broker, *others)
        peers = f"broker {', '.join(map(str, others))}" if others else "clients on this machine"
        return f"broker {broker} is cut off from {peers}; quorate cluster heal{option_for(lab)} undoes it"

    run_action(name, divide)


@click.command()
@name_option
def heal(name: str) -> None:
    """Undo all cuts."""

    def join(lab: "Lab") -> str:
        lab.heal()
        return "all brokers are connected again"

    run_action(name, join)


@click.command()
@name_option
@broker_argument
@click.option("--lines", type=click.IntRange(min=1), metavar="N", help="Print only the last N lines.")
def logs(name: str, broker: int, lines: int | None) -> None:
    """Print a broker's log since its latest start."""
    with user_errors(name), attached(name) as lab:
        logged = lab.logs(broker)
    for line in logged.splitlines()[-lines if lines else 0 :]:
        click.echo(line)


def _is_up(lab: "Lab", number: int) -> str:
    (broker,) = [one for one in lab.brokers if one.id == number]
    where = f"in rack {broker.rack}" if broker.rack is not None else "without a rack"
    return f"broker {number} is up {where} at {broker.address}, Kafka {broker.version}"


def _rack(text: str | None) -> str | None:
    """Convert to the form of `start_broker`: "" is no rack, `None` leaves it unchanged."""
    return "" if text == NO_RACK else text


COMMANDS: tuple[click.Command, ...] = (
    restart_broker,
    start_broker,
    _for_each("stop", "Shut brokers down cleanly, with their leaderships moved first.", "stopped"),
    _for_each("kill", "Kill brokers, as in a crash.", "killed"),
    _for_each("pause", "Freeze brokers, so that they stop responding.", "paused", check_running),
    _for_each("resume", "Resume paused brokers.", "resumed", check_paused),
    cut,
    heal,
    logs,
)
"""Commands in the order of the help text."""
