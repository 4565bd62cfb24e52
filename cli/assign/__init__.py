"""`quorate assign`: what assignors would assign to a group's members, without changing the group.

This module reads the options. The other modules of the package read the group, apply changes, run
assignors and format the result; they are imported when they are needed.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.connection import (
    WithConnection,
    connection_config,
    connection_options,
    refuse_connection_options,
    servers_option,
)
from quorate.cli.errors import UserError, check_writable, note
from quorate.cli.output import columns, echo_lines, json_text, terminal_width
from quorate.cli.text_input import STDIN

if TYPE_CHECKING:
    from quorate.cli.assign.comparison import Comparison

__all__ = ["assign"]

EXAMPLES = Path(__file__).parent / "examples"
"""Example groups that come with quorate. `quorate assign examples` lists them, and `quorate assign
examples/NAME` runs one.
"""

ROWS = 20
ROWS_OF_PAGE = 200

HELP = """Compare what assignors would assign to each member, how much of it is local, and what would move.

Nothing is changed: no group is joined, nothing is committed. The group is described by a FILE in YAML or JSON
(- is standard input), read from a live cluster (-b), or read from a copy of __consumer_offsets (--log). The current
assignment is shown next to those of the assignors.

\b
quorate assign group.yaml                                     the usual assignors, side by side
quorate assign group.yaml --without worker-3 --add spare:b    who takes over?
quorate assign -b broker:9092 --group web --explain           why is a partition remote?
quorate assign --log kafka-logs --group web --topology t.yaml a group from a broker's disk
quorate assign group.yaml --assignor lag-aware --html page.html
quorate assign group.yaml --assignor mine:Mine                a plug-in for brokers: class Mine in ./mine.py
quorate assign examples                                       list the example groups
"""


@click.command(cls=WithConnection, help=HELP)
@click.argument("file", required=False)
@servers_option("Read the group from this cluster.")
@click.option(
    "--log", "log", metavar="PATH", help="Read the group from a segment, a partition's folder or a log directory."
)
@click.option("--group", "group_id", metavar="NAME", help="Group to read, with -b or --log.")
@click.option("--until", metavar="TIME", help="With --log: the group as of this time (format as in `quorate decode`).")
@click.option("--topology", metavar="FILE", help="With --log: file of topics with their partitions, racks and ids.")
@click.option(
    "--assignor",
    "assignors",
    multiple=True,
    metavar="NAME[:OPTION=VALUE,...]",
    help="Run this assignor, also an installed plug-in or MODULE:CLASS; may be repeated.  "
    "[default: those that suit the group's protocol]",
)
@click.option(
    "--side",
    type=click.Choice(["client", "server"]),
    help="Run the client's or the server's assignor where both have the name (range).",
)
@click.option("--without", multiple=True, metavar="MEMBER", help="Assign without this member.")
@click.option("--add", multiple=True, metavar="MEMBER[:RACK[:TOPIC,...]]", help="Assign with this additional member.")
@click.option("--rack", "racks", multiple=True, metavar="MEMBER=RACK", help="Assign with this member in that rack.")
@click.option(
    "--add-partitions",
    "partitions",
    multiple=True,
    metavar="TOPIC=N",
    help="Assign with N more partitions of this topic.",
)
@click.option(
    "--kafka-version",
    metavar="X.Y.Z",
    help="Assign as this release of Kafka does.  [default: the newest]",
)
@click.option("--explain", "why", is_flag=True, help="Explain why partitions are remote.")
@click.option("--json", "as_json", is_flag=True, help="Print all figures as JSON, with the description of the group.")
@click.option("--html", "page", metavar="FILE", help="Also write an HTML page with a picture of the assignments.")
@click.option(
    "--limit",
    type=click.IntRange(min=0),
    metavar="N",
    help=f"Show at most N members; 0 shows all.  [default: {ROWS}; {ROWS_OF_PAGE} in pages]",
)
@click.option(
    "--width", type=click.IntRange(min=40), metavar="N", help="Columns to use.  [default: width of the terminal]"
)
@connection_options
@click.pass_context
def assign(
    ctx: click.Context,
    /,
    file: str | None,
    bootstrap_servers: str | None,
    log: str | None,
    group_id: str | None,
    until: str | None,
    topology: str | None,
    assignors: tuple[str, ...],
    side: Any,
    without: tuple[str, ...],
    add: tuple[str, ...],
    racks: tuple[str, ...],
    partitions: tuple[str, ...],
    kafka_version: str | None,
    why: bool,
    as_json: bool,
    page: str | None,
    limit: int | None,
    width: int | None,
    connect_timeout_ms: int,
    **connection: Any,
) -> None:
    """Read the group, apply the changes, run the assignors and print the comparison."""
    _check_sources(ctx, file, bootstrap_servers, log, group_id, until, topology)
    if file in ("examples", "examples/") and not Path(file).exists():
        _list_examples()
        return
    if page is not None:
        check_writable("--html", Path(page))
    from quorate.assignors.what_if import outcome_now, outcomes
    from quorate.cli.assign.options import WhatIf, choices
    from quorate.codecs.releases import KafkaVersion

    try:
        version = KafkaVersion.NEWEST if kafka_version is None else KafkaVersion.parse(kafka_version)
    except ValueError as error:
        raise UserError(f"--kafka-version: {error}") from None
    if version > KafkaVersion.NEWEST:
        note(f"note: Kafka {version} is newer than quorate supports; assignments are those of {KafkaVersion.NEWEST}")
    if bootstrap_servers is not None:
        from quorate.integration.live_groups import live_situation

        assert group_id is not None
        before = live_situation(
            bootstrap_servers.split(","), group_id, connection_config(connection), connect_timeout_ms
        )
    elif log is not None:
        from quorate.cli.assign.read import read_capture

        assert group_id is not None
        before = read_capture(log, group_id, until, topology)
    else:
        from quorate.assignors.what_if.description import read_description

        assert file is not None
        before = read_description(_example(file), STDIN if file == "-" else file)
    changes = WhatIf(without=without, add=add, racks=racks, partitions=partitions)
    after = changes.applied(before)
    chosen = choices(assignors, side, before)
    now = outcome_now(before)
    found = outcomes(chosen, after, version)

    from quorate.cli.assign.comparison import Comparison

    comparison = Comparison(
        before=before, after=after, changes=changes.in_words, outcomes=found if now is None else [now, *found]
    )
    for one in before.notes:
        note(f"note: {one}")
    if page is not None:
        _write_page(page, comparison, ROWS_OF_PAGE if limit is None else limit or None)
    if as_json:
        _print_json(comparison, why)
    else:
        _print_table(comparison, why, ROWS if limit is None else limit or None, width or terminal_width())


def _check_sources(
    ctx: click.Context,
    file: str | None,
    bootstrap_servers: str | None,
    log: str | None,
    group_id: str | None,
    until: str | None,
    topology: str | None,
) -> None:
    given = [name for name, value in (("FILE", file), ("-b", bootstrap_servers), ("--log", log)) if value is not None]
    if not given:
        raise click.UsageError(
            "no group given: name a FILE that describes it, -b for a live cluster, or --log for a copy of its log", ctx
        )
    if len(given) > 1:
        raise click.UsageError(f"{' and '.join(given)} exclude each other", ctx)
    if file is None and group_id is None:
        raise click.UsageError(f"{given[0]} needs --group", ctx)
    for name, value, needs in (
        ("--group", group_id, "-b or --log"),
        ("--until", until, "--log"),
        ("--topology", topology, "--log"),
    ):
        if value is not None and given[0] not in needs:
            raise click.UsageError(f"{name} works only with {needs}", ctx)
    if bootstrap_servers is None:
        refuse_connection_options(ctx)


def _example(file: str) -> str:
    """Return the path of a packaged example, or `file` if it exists or names no example.

    Raises `UserError` for an unknown example.
    """
    if file.startswith("examples/") and not Path(file).exists():
        name = file.removeprefix("examples/")
        for path in sorted(EXAMPLES.glob("*.yaml")):
            if name in (path.name, path.stem):
                return str(path)
        names = ", ".join(f"examples/{path.stem}" for path in sorted(EXAMPLES.glob("*.yaml")))
        raise UserError(f"{file}: no such file or example", f"examples that come with quorate: {names}")
    return file


def _list_examples() -> None:
    rows = [
        (f"quorate assign examples/{path.stem}", path.read_text(encoding="utf-8").partition("\n")[0].lstrip("# "))
        for path in sorted(EXAMPLES.glob("*.yaml"))
    ]
    echo_lines(columns(rows))


def _print_json(comparison: "Comparison", why: bool) -> None:
    from quorate.cli.assign.comparison import as_plain

    click.echo(json_text(as_plain(comparison, remote=why)))


def _print_table(comparison: "Comparison", why: bool, limit: int | None, width: int | None) -> None:
    from quorate.cli.assign.table import reason_lines, table_lines

    echo_lines(table_lines(comparison, limit=limit, width=width))
    if why:
        click.echo()
        echo_lines(reason_lines(comparison, limit=limit, width=width))


def _write_page(path: str, comparison: "Comparison", limit: int | None) -> None:
    from quorate.cli.assign.html import page

    try:
        Path(path).write_text(page(comparison, limit=limit), encoding="utf-8")
    except OSError as error:
        raise UserError(f"--html {path}: cannot be written: {error.strerror or error}") from None
    note(f"wrote {path}")
