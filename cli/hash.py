"""`quorate hash`: metadata hashes (KIP-1101) of topics and groups, and why a stored one differs.

This module has options and output; `quorate.coordinator.history.hash_rows` compares hashes. Groups
are read as by `quorate groups`.
"""

import fnmatch
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.connection import (
    CONNECTION_OPTIONS,
    WithConnection,
    connection_config,
    connection_options,
    servers_option,
)
from quorate.cli.errors import UserError
from quorate.cli.groups import print_rows, read_groups, reading_options
from quorate.cli.subcommands import Commands

if TYPE_CHECKING:
    from quorate.coordinator.image import MetadataImage

HELP = """Compute metadata hashes (KIP-1101) of topics and groups, and compare them with stored ones.

Since Kafka 4.1, a group stores a hash of its topics: their ids, partitions and racks. If the stored hash differs from
that of the current topics, the output names the single change that explains it, if there is one. Topics are read from
a live cluster (-b) or from a description (--topology).

\b
quorate hash topic -b broker:9092 'order*'                         hashes of topics
quorate hash group -b broker:9092 --group web                      stored and computed hash of a group
quorate hash group kafka-logs --topology topics.yaml --check       exit status 1 if a hash differs
"""

_FORM = click.option(
    "--form",
    type=click.Choice(["xxh3", "murmur3"]),
    default="xxh3",
    show_default=True,
    help="Algorithm: xxh3 as in Kafka since 4.1, or murmur3 as in the text of the KIP.",
)


@click.group(cls=Commands, help=HELP)
def hash() -> None:  # noqa: A001 - the command's name
    """Define the group of commands."""


@hash.command("topic", cls=WithConnection)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@servers_option("Read topics from this cluster.")
@click.option("--topology", metavar="FILE", help="File of topics with their ids, partitions and racks.")
@_FORM
@click.option("--json", "as_json", is_flag=True, help="Print JSON, with all fields.")
@connection_options
@click.pass_context
def of_topics(ctx: click.Context, /, topics: tuple[str, ...], form: str, as_json: bool, **options: Any) -> None:
    """Show the hashes of topics.

    A TOPIC may be a glob, such as 'order*'. Without TOPIC, all topics are shown.
    """
    from quorate.codecs.printable import listed
    from quorate.coordinator.history.hash_rows import topic_hash_rows
    from quorate.coordinator.metadata_hash import HashAlgorithm

    if (options["bootstrap_servers"] is None) == (options["topology"] is None):
        raise click.UsageError("give either -b for a live cluster or --topology FILE", ctx)
    image = _image(options)
    names = [
        name for name in sorted(image.topics) if not topics or any(fnmatch.fnmatchcase(name, glob) for glob in topics)
    ]
    if not names:
        raise UserError(
            f"no topic matches {', '.join(topics)}" if topics else "no topics found",
            f"existing topics: {listed(sorted(image.topics))}"
            if image.topics
            else "the client may lack the permission to describe topics",
        )
    print_rows(
        ctx, None, topic_hash_rows(names, image, HashAlgorithm(form)), as_json, "topic id partitions metadata_hash"
    )


@hash.command("group", cls=WithConnection)
@reading_options
@_FORM
@click.option("--check", is_flag=True, help="Exit with status 1 if a stored hash differs from the computed one.")
@click.pass_context
def of_groups(ctx: click.Context, /, form: str, check: bool, **options: Any) -> None:
    """Compare the hashes that groups stored with those of their current topics."""
    from quorate.codecs.printable import counted, printable
    from quorate.coordinator.history.hash_rows import group_hash_rows
    from quorate.coordinator.metadata_hash import HashAlgorithm

    if options["bootstrap_servers"] is None and options["sources"] and options["topology"] is None:
        raise click.UsageError("a log does not describe topics: add --topology FILE, or read a live cluster (-b)", ctx)
    found = read_groups(ctx, options)
    rows = list(group_hash_rows(found, _image(options), HashAlgorithm(form)))
    as_json = options["as_json"]
    columns = "group type group_epoch stored computed verdict"
    count = counted(len(found.groups), "group")
    print_rows(ctx, found, rows, as_json, columns, nothing=f"no hash to show: {count}, all of the classic protocol")
    if not as_json:
        for row in rows:
            for difference in row["differences"]:
                click.echo(f"\n{printable(row['group'])}: {printable(difference['sentence'])}")
    if check and any(row["verdict"] == "differs" for row in rows):
        ctx.exit(1)


def _image(options: Mapping[str, Any]) -> "MetadataImage":
    """Return topics with their racks. Raises `UserError`."""
    if options["bootstrap_servers"] is not None:
        from quorate.watch.metadata import live_image, open_admin

        servers = options["bootstrap_servers"].split(",")
        config = connection_config({name: options[name] for name in CONNECTION_OPTIONS})
        with open_admin(servers, config, options["connect_timeout_ms"], "reading topics") as (admin, _):
            return live_image(admin)
    from quorate.assignors.what_if.description import read_topology
    from quorate.coordinator.history.hashes import image_of

    topology, _ = read_topology(options["topology"])
    nameless = [topic.name for topic in topology.topics if topic.id is None]
    if nameless:
        raise UserError(
            f"{options['topology']}: topic {nameless[0]} has no id, which is part of the hash",
            "id: AbCdEfGhIjKlMnOpQrStUw, as kafka-topics.sh --describe shows it",
        )
    return image_of(topology)
