"""What the commands of `quorate cluster` share: errors in the house's form, progress on stderr, checks before brokers are touched."""

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

from quorate.cli.cluster.options import option_for
from quorate.cli.errors import UserError, note

if TYPE_CHECKING:
    from quorate.cli.cluster.options import Lab

__all__ = [
    "attached",
    "check_majority",
    "check_paused",
    "check_running",
    "check_stopped",
    "check_there",
    "do",
    "docker_labs",
    "has_docker",
    "majority_note",
    "no_such_lab",
    "said_plainly",
    "telling",
]

STOP_TIMEOUT_MS = 30_000
"""People don't wait longer for a broker to shut down."""

STOP_TIMEOUT_WITHOUT_MAJORITY_MS = 10_000
"""A broker that is told to shut down asks the active controller; where there is none, it would wait
for one.
"""


def docker_labs() -> list[str]:
    """The labs in containers; none where there is no engine to ask, which is said where people have what it takes to use one."""
    from quorate.cluster.errors import ClusterError

    try:
        from quorate.integration.containers.lab import lab_names

        return lab_names()
    except ClusterError as error:
        if has_docker():
            note(f"labs in containers are not shown: {error.message}")
        return []


@contextmanager
def attached(name: str, tell: Callable[[str], None] = lambda _: None) -> Iterator["Lab"]:
    """The lab of this name, let go of behind the block. Raises `ClusterError` if there is none."""
    from quorate.integration.embedded_lab import EmbeddedLab, embedded_lab_names

    if name in embedded_lab_names():
        with EmbeddedLab.attach(name, on_progress=tell) as embedded:
            yield embedded
        return
    from quorate.integration.containers import KafkaCluster

    with KafkaCluster.attach(name, on_progress=tell) as lab:
        lab.stop_timeout_ms = STOP_TIMEOUT_MS
        yield lab


@contextmanager
def said_plainly(name: str | None = None, *, there: bool = True) -> Iterator[None]:
    """Turn what may go wrong with engine and clients into a `UserError`.

    `ClusterError` passes, which is shown as it is.

    `name` is the lab that it is about; an embedded one takes no engine. `there`: it should be there
    already, so that without Docker's package, which started none of the labs in containers, it is
    the lab that is missing.
    """
    from quorate.cluster.errors import ClusterError
    from quorate.integration.embedded_lab import embedded_lab_names

    if name in embedded_lab_names():
        from kafka.errors import KafkaError

        try:
            yield
        except KafkaError as error:
            raise UserError(f"the brokers do not do it: {_first_line(error)}") from None
        return
    from quorate.integration.containers.engine import engine

    try:
        engine()  # first, because without Docker's package its exceptions cannot be imported either
    except ClusterError:
        if there and name is not None and not has_docker():
            raise UserError(
                no_such_lab(name, embedded_lab_names()), f"start it: quorate cluster up --name {name}"
            ) from None
        raise
    from docker.errors import DockerException
    from kafka.errors import KafkaError
    from requests.exceptions import RequestException

    try:
        yield
    except (DockerException, RequestException) as error:
        raise UserError(f"the container engine refuses: {_first_line(error)}") from None
    except KafkaError as error:
        raise UserError(f"the brokers do not do it: {_first_line(error)}") from None


def no_such_lab(name: str, others: Sequence[str]) -> str:
    """What is said of a lab that is not there."""
    return f"there is no lab named {name}" + (f", only {', '.join(others)}" if others else "")


def has_docker() -> bool:
    """Whether there is what it takes to ask a container engine; without it, no lab in containers was ever started from here."""
    return find_spec("docker") is not None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextmanager
def telling() -> Iterator[Callable[[str], None]]:
    """A function that says on stderr what is being done: in one line that moves on a terminal, in lines elsewhere."""
    if sys.stderr.isatty():
        from rich.console import Console

        began = time.monotonic()
        with Console(stderr=True).status("…") as line:
            yield lambda what: line.update(f"{what} … [dim]{time.monotonic() - began:.0f} s[/dim]")
        return
    last = ""

    def tell(what: str) -> None:
        nonlocal last
        if what != last:
            click.echo(what, err=True)
            last = what

    yield tell


def do(name: str, act: Callable[["Lab"], str]) -> None:
    """Do something to a lab, and say what it has come to."""
    began = time.monotonic()
    with said_plainly(name), telling() as tell, attached(name, tell) as lab:
        said = act(lab)
    took = time.monotonic() - began
    click.echo(f"{said} ({took:.1f} s)" if took >= 1 else said)


def check_running(lab: "Lab", brokers: Sequence[int]) -> list[int]:
    """The brokers that are not paused already.

    Raises `UserError` for one that is stopped, or is not there.
    """
    states = _states(lab, brokers)
    for broker in brokers:
        if states[broker] == "stopped":
            raise UserError(f"broker {broker} is stopped, so it cannot be paused")
    return [broker for broker in brokers if states[broker] != "paused"]


def check_paused(lab: "Lab", brokers: Sequence[int]) -> Sequence[int]:
    """The brokers. Raises `UserError` for one that is not paused, or is not there."""
    states = _states(lab, brokers)
    for broker in brokers:
        if states[broker] != "paused":
            start = f"quorate cluster start-broker {broker}{option_for(lab)}"
            raise UserError(
                f"broker {broker} is {states[broker]}, not paused", *([start] if states[broker] == "stopped" else [])
            )
    return brokers


def check_there(lab: "Lab", brokers: Sequence[int]) -> Sequence[int]:
    """The brokers.

    Raises `UserError` for one that is not there. Where stopping them leaves no majority of
    controllers, they get less time for it.
    """
    _states(lab, brokers)
    if not _majority({number: runs and number not in brokers for number, runs in _voters(lab).items()}):
        lab.stop_timeout_ms = STOP_TIMEOUT_WITHOUT_MAJORITY_MS
    return brokers


def _states(lab: "Lab", brokers: Sequence[int]) -> dict[int, str]:
    states = {broker.id: broker.state for broker in lab.brokers}
    for broker in brokers:
        if broker not in states:
            raise UserError(f"there is no broker {broker}, only {', '.join(map(str, states))}")
    return states


def check_stopped(lab: "Lab", brokers: Sequence[int]) -> None:
    """Raises `UserError` for brokers that are not there, or are there and run."""
    states = _states(lab, brokers)
    for broker in brokers:
        if states[broker] == "paused":
            raise UserError(f"broker {broker} is paused", f"quorate cluster resume-broker {broker}{option_for(lab)}")
        if states[broker] == "running":
            raise UserError(
                f"broker {broker} is running",
                f"to start it anew: quorate cluster restart-broker {broker}{option_for(lab)}",
            )


def check_majority(lab: "Lab", brokers: Sequence[int]) -> None:
    """Raises `UserError` where brokers would wait in vain for a majority of controllers."""
    voters = _voters(lab)
    stopped = [number for number in voters if not voters[number] and number not in brokers]
    if stopped and not _majority({number: number not in stopped for number in voters}):
        more = " ".join(map(str, (*brokers, *stopped)))
        raise UserError(
            f"brokers {', '.join(map(str, stopped))} are controllers, and without a majority of these no broker gets ready",
            f"start them together: quorate cluster start-broker {more}{option_for(lab)}",
        )


def majority_note(lab: "Lab") -> str:
    """What to say where no majority of controllers is left; nothing where there is one."""
    voters = _voters(lab)
    if _majority(voters) or all(broker.state == "stopped" for broker in lab.brokers):
        return ""
    return f"note: {sum(voters.values())} of {len(voters)} controllers run, which is no majority: no leader can be elected, no broker can join"


def _majority(voters: dict[int, bool]) -> bool:
    """Whether more than half of the controllers run; of controllers that are no brokers, it is taken for granted."""
    return sum(voters.values()) * 2 > len(voters) or not voters


def _voters(lab: "Lab") -> dict[int, bool]:
    """Controllers among the brokers → whether they run.

    Controllers of their own are left alone by all commands.
    """
    states = {broker.id: broker.state for broker in lab.brokers}
    return {number: states[number] == "running" for number in lab.plan.voters if number in states}
