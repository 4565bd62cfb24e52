"""Options that several commands of `quorate cluster` share."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from quorate.cli.errors import UserError

if TYPE_CHECKING:
    from quorate.integration.containers import KafkaCluster
    from quorate.integration.embedded_lab import EmbeddedLab

    Lab = KafkaCluster | EmbeddedLab

F = TypeVar("F", bound=Callable[..., Any])

NO_RACK = "-"


def broker_properties(brokers: int, given: Mapping[str, str]) -> dict[str, str]:
    """Return the brokers' configs: defaults suitable for experiments, overridden by `given`.

    Topics are created on first use, with several partitions.
    """
    return {
        "auto.create.topics.enable": "true",
        "num.partitions": "6",
        "default.replication.factor": str(min(2, brokers)),
        **given,
    }


def name_option(command: F) -> F:
    """Add `--name`, the lab to act on."""
    option: Callable[[F], F] = click.option(
        "--name",
        default="lab",
        show_default=True,
        metavar="NAME",
        envvar="QUORATE_LAB",
        show_envvar=True,
        help="Name of the lab; several can exist.",
    )
    return option(command)


def version_option(what: str) -> Callable[[F], F]:
    """Return `--version`, a version of Kafka."""
    return click.option("--version", metavar="X.Y.Z", help=what)


def option_for(lab: "Lab") -> str:
    """Return the `--name` option to append to a suggested command."""
    return "" if lab.lab_name == "lab" else f" --name {lab.lab_name}"


def properties_option(command: F) -> F:
    """Add `--property`, a config of all brokers."""
    option: Callable[[F], F] = click.option(
        "--property",
        "properties",
        multiple=True,
        metavar="KEY=VALUE",
        help="Kafka config of every broker; may be repeated.",
    )
    return option(command)


def read_properties(texts: Sequence[str]) -> dict[str, str]:
    """Parse the values of `properties_option`. Raises `UserError`."""
    found = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise UserError(f"--property {text}: is not KEY=VALUE", "for example --property log.retention.ms=60000")
        found[key.strip()] = value.strip()
    return found


def check_brokers(count: int, *, racks: int, port: int | None) -> None:
    """Raise `UserError` for too many brokers, fewer than `racks`, and for ports above 65535."""
    from quorate.cluster.interface import MOST_BROKERS

    if count > MOST_BROKERS:
        raise UserError(f"--brokers {count}: a cluster has at most {MOST_BROKERS:,}")
    if port and port + count > 65536:
        raise UserError(f"--port {port}: fewer than {count} ports from there up to 65535", "choose a lower port")
    if count < racks:
        raise UserError(f"--brokers {count}: too few for {racks} racks", "name fewer racks")


def read_racks(text: str) -> list[str | None]:
    """Parse the value of --racks. Raises `UserError`."""
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise UserError(f"--racks {text}: a name is missing", f"use {NO_RACK} for no rack: --racks a,b,{NO_RACK}")
    return [None if name == NO_RACK else name for name in names]
