"""Options that commands of `quorate cluster` have in common."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from quorate.integration.containers import KafkaCluster

__all__ = ["NO_RACK", "name_option", "option_for", "version_option"]

F = TypeVar("F", bound=Callable[..., Any])

NO_RACK = "-"


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


def option_for(lab: "KafkaCluster") -> str:
    """What a command that is shown needs behind it to mean this lab."""
    return "" if lab.lab_name == "lab" else f" --name {lab.lab_name}"
