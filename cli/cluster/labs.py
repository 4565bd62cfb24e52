"""Shared by the commands of `quorate cluster`: attaching to a lab, errors, progress, checks."""

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

STOP_TIMEOUT_MS = 30_000
"""Time for a broker to shut down."""

STOP_TIMEOUT_WITHOUT_MAJORITY_MS = 10_000
"""The same without a majority of controllers: a clean shutdown needs the active controller, and the
broker would wait for one.
"""


def docker_labs() -> list[str]:
    """Return the names of the labs in containers; none if the container engine is unreachable.

    Prints a note in that case, unless Docker's package is not installed.
    """
    from quorate.cluster.errors import ClusterError

    try:
        from quorate.integration.containers.lab import lab_names

        return lab_names()
    except ClusterError as error:
        if has_docker():
            note(f"labs in containers are not shown: {error.message}")
        return []


@contextmanager
def attached(name: str, report: Callable[[str], None] = lambda _: None) -> Iterator["Lab"]:
    """Attach to a lab, and detach after the block. Raises `ClusterError` if it does not exist."""
    from quorate.integration.embedded_lab import EmbeddedLab, embedded_lab_names

    if name in embedded_lab_names():
        with EmbeddedLab.attach(name, on_progress=report) as embedded:
            yield embedded
        return
    from quorate.integration.containers import KafkaCluster

    with KafkaCluster.attach(name, on_progress=report) as lab:
        lab.stop_timeout_ms = STOP_TIMEOUT_MS
        yield lab


@contextmanager
def user_errors(name: str, *, exists: bool = True) -> Iterator[None]:
    """Turn errors of the container engine and of Kafka clients into `UserError`.

    `ClusterError` passes unchanged. `name` is the lab; an embedded one needs no engine. `exists`:
    the lab should exist already. Labs in containers need Docker's package, so without it the error
    is that the lab does not exist.
    """
    from quorate.cluster.errors import ClusterError
    from quorate.integration.embedded_lab import embedded_lab_names

    if name in embedded_lab_names():
        from kafka.errors import KafkaError

        try:
            yield
        except KafkaError as error:
            raise UserError(f"the brokers reported an error: {_first_line(error)}") from None
        return
    from quorate.integration.containers.engine import engine

    try:
        engine()  # first: without Docker's package its exceptions cannot be imported either
    except ClusterError:
        if exists and not has_docker():
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
        raise UserError(f"the container engine reported an error: {_first_line(error)}") from None
    except KafkaError as error:
        raise UserError(f"the brokers reported an error: {_first_line(error)}") from None


def no_such_lab(name: str, others: Sequence[str]) -> str:
    """Return the message for a missing lab, with the names of the others."""
    return f"lab {name} does not exist" + (f"; existing labs: {', '.join(others)}" if others else "")


def has_docker() -> bool:
    """Return whether Docker's package is installed, which labs in containers need."""
    return find_spec("docker") is not None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), "") or type(error).__name__


@contextmanager
def show_progress() -> Iterator[Callable[[str], None]]:
    """Yield a function that shows progress on stderr: a spinner on a terminal, otherwise lines."""
    if sys.stderr.isatty():
        from rich.console import Console

        began = time.monotonic()
        with Console(stderr=True).status("…") as line:
            yield lambda what: line.update(f"{what} … [dim]{time.monotonic() - began:.0f} s[/dim]")
        return
    last = ""

    def report(what: str) -> None:
        nonlocal last
        if what != last:
            click.echo(what, err=True)
            last = what

    yield report


def run_action(name: str, act: Callable[["Lab"], str]) -> None:
    """Run `act` on a lab and print the text that it returns."""
    began = time.monotonic()
    with user_errors(name), show_progress() as report, attached(name, report) as lab:
        said = act(lab)
    took = time.monotonic() - began
    click.echo(f"{said} ({took:.1f} s)" if took >= 1 else said)


def check_running(lab: "Lab", brokers: Sequence[int]) -> list[int]:
    """Return those of the brokers that are not paused.

    Raises `UserError` for a broker that is stopped or does not exist.
    """
    states = _states(lab, brokers)
    for broker in brokers:
        if states[broker] == "stopped":
            raise UserError(f"broker {broker} is stopped, so it cannot be paused")
    return [broker for broker in brokers if states[broker] != "paused"]


def check_paused(lab: "Lab", brokers: Sequence[int]) -> Sequence[int]:
    """Return the brokers. Raises `UserError` for one that is not paused or does not exist."""
    states = _states(lab, brokers)
    for broker in brokers:
        if states[broker] != "paused":
            start = f"quorate cluster start-broker {broker}{option_for(lab)}"
            raise UserError(
                f"broker {broker} is {states[broker]}, not paused", *([start] if states[broker] == "stopped" else [])
            )
    return brokers


def check_exist(lab: "Lab", brokers: Sequence[int]) -> Sequence[int]:
    """Return the brokers. Raises `UserError` for one that does not exist.

    Shortens the stop timeout if stopping them leaves no majority of controllers.
    """
    _states(lab, brokers)
    if not _majority({number: runs and number not in brokers for number, runs in _voters(lab).items()}):
        lab.stop_timeout_ms = STOP_TIMEOUT_WITHOUT_MAJORITY_MS
    return brokers


def _states(lab: "Lab", brokers: Sequence[int]) -> dict[int, str]:
    states = {broker.id: broker.state for broker in lab.brokers}
    for broker in brokers:
        if broker not in states:
            raise UserError(f"broker {broker} does not exist; brokers of this lab: {', '.join(map(str, states))}")
    return states


def check_stopped(lab: "Lab", brokers: Sequence[int]) -> None:
    """Raise `UserError` for brokers that are not stopped or do not exist."""
    states = _states(lab, brokers)
    for broker in brokers:
        if states[broker] == "paused":
            raise UserError(f"broker {broker} is paused", f"quorate cluster resume-broker {broker}{option_for(lab)}")
        if states[broker] == "running":
            raise UserError(
                f"broker {broker} is running",
                f"to restart it: quorate cluster restart-broker {broker}{option_for(lab)}",
            )


def check_majority(lab: "Lab", brokers: Sequence[int]) -> None:
    """Raise `UserError` if the brokers could not start for lack of a majority of controllers."""
    voters = _voters(lab)
    stopped = [number for number in voters if not voters[number] and number not in brokers]
    if stopped and not _majority({number: number not in stopped for number in voters}):
        more = " ".join(map(str, (*brokers, *stopped)))
        raise UserError(
            f"brokers cannot start without a majority of controllers; stopped: {', '.join(map(str, stopped))}",
            f"start them together: quorate cluster start-broker {more}{option_for(lab)}",
        )


def majority_note(lab: "Lab") -> str:
    """Return a note if no majority of controllers is running, else an empty text."""
    voters = _voters(lab)
    if _majority(voters) or all(broker.state == "stopped" for broker in lab.brokers):
        return ""
    return (
        f"note: only {sum(voters.values())} of {len(voters)} controllers running, no majority: "
        "no leader can be elected, no broker can join"
    )


def _majority(voters: dict[int, bool]) -> bool:
    """Return whether more than half of the controllers run; separate controllers are assumed to."""
    return sum(voters.values()) * 2 > len(voters) or not voters


def _voters(lab: "Lab") -> dict[int, bool]:
    """Return controllers among the brokers → whether they run.

    No command acts on separate controllers.
    """
    states = {broker.id: broker.state for broker in lab.brokers}
    return {number: states[number] == "running" for number in lab.plan.voters if number in states}
