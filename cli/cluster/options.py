"""Options that commands of `quorate cluster` have in common."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.errors import UserError

if TYPE_CHECKING:
    from quorate.integration.containers import KafkaCluster
    from quorate.integration.embedded_lab import EmbeddedLab

    Lab = KafkaCluster | EmbeddedLab

__all__ = [
    "NO_RACK",
    "broker_properties",
    "check_brokers",
    "name_option",
    "option_for",
    "properties_option",
    "read_properties",
    "read_racks",
    "version_option",
]

F = TypeVar("F", bound=Callable[..., Any])

NO_RACK = "-"


def broker_properties(brokers: int, given: Mapping[str, str]) -> dict[str, str]:
    """What people expect of a cluster to try things on, and what they gave: a topic that is written to is there, and has partitions to look at."""
    return {
        "auto.create.topics.enable": "true",
        "num.partitions": "6",
        "default.replication.factor": str(min(2, brokers)),
        **given,
    }


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


def option_for(lab: "Lab") -> str:
    """What a command that is shown needs behind it to mean this lab."""
    return "" if lab.lab_name == "lab" else f" --name {lab.lab_name}"


def properties_option(command: F) -> F:
    """Settings of brokers."""
    option: Callable[[F], F] = click.option(
        "--property", "properties", multiple=True, metavar="KEY=VALUE", help="For every broker, by Kafka's names."
    )
    return option(command)


def read_properties(texts: Sequence[str]) -> dict[str, str]:
    """What `properties_option` was given. Raises `UserError`."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--property {text}: is not KEY=VALUE", "for example --property log.retention.ms=60000")
        found[key.strip()] = value.strip()
    return found


def check_brokers(count: int, *, racks: int, port: int | None) -> None:
    """Raises `UserError` for fewer brokers than `racks` that were named, and for ports that there are not."""
    if port and port + count > 65536:
        raise UserError(f"--port {port}: there are no {count} ports from there on", "choose a lower one")
    if count < racks:
        raise UserError(f"--brokers {count} are too few for {racks} racks", "name fewer racks")


def read_racks(text: str) -> list[str | None]:
    """Racks as they are given with --racks. Raises `UserError`."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UserError(f"--racks {text}: a name is missing", f"use {NO_RACK} for no rack: --racks a,b,{NO_RACK}")
    return [None if name == NO_RACK else name for name in names]
