"""`quorate groups`: groups in `__consumer_offsets`, from files or a live cluster, now or earlier.

No group is joined, and only `remove-member` changes one. This module reads the options; other
modules of the package read, change and format groups, and are imported when they are needed.
"""

import functools
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from time import sleep as wait
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from quorate.cli.connection import (
    CONNECTION_OPTIONS,
    LONGEST_MS,
    WithConnection,
    check_one_source,
    connection_config,
    connection_options,
    refuse_connection_options,
    servers_option,
)
from quorate.cli.errors import UserError, note, user_error
from quorate.cli.output import echo_lines
from quorate.cli.subcommands import Commands, FiniteRange, with_options

if TYPE_CHECKING:
    from quorate.codecs.releases import KafkaVersion
    from quorate.coordinator.history.replay import EventsOf, ReplayedGroups

__all__ = ["groups", "print_rows", "read_groups", "reading_options"]

F = TypeVar("F", bound=Callable[..., Any])

json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, with all fields.")

LIVE = f"{__name__}.live"
"""Key in the context of a command for the reader of a live cluster, so that --watch reuses it."""

HELP = """Show groups, now or at an earlier time: the output of kafka-consumer-groups.sh, racks, epochs and history.

For share groups also the state of their partitions, from __share_group_state: start offsets, records in flight.

A SOURCE is a segment file, the folder of a partition, or a broker's log directory, as for `quorate decode`. With -b
records are read from a live cluster. No group is joined, and nothing is committed or written; only remove-member
changes a group.

\b
quorate groups list kafka-logs                             every group
quorate groups describe -b broker:9092 --group web         its epochs, and the cause of the last bump
quorate groups members kafka-logs --group web --at 2h      its members, two hours ago
quorate groups offsets -b broker:9092 --group 'web-*'      offsets, lags, racks of partitions
quorate groups history kafka-logs --group web              its events, as sentences
quorate groups upgrade-check -b broker:9092                before you upgrade the brokers
quorate groups remove-member -b broker:9092 --group web --instance-id web-3
"""


@click.group(cls=Commands, help=HELP)
def groups() -> None:
    """Define the group of commands."""


def reading_options(command: F) -> F:
    """Add the options of all commands.

    With --watch the command runs repeatedly. If it fails after it has succeeded, as while a broker
    restarts, the error is shown, and the next run may succeed again.
    """

    @functools.wraps(command)
    def watched(*arguments: Any, watch: float | None, **options: Any) -> None:
        if watch is not None and options["bootstrap_servers"] is None:
            raise click.UsageError("--watch needs a live cluster (-b)")
        if watch is not None and options["at"] is not None:
            raise click.UsageError("--watch and --at exclude each other")
        if watch is None:
            command(*arguments, **options)
            return
        from quorate.codecs.errors import QuorateError

        has_succeeded = False
        while True:
            if sys.stdout.isatty():
                click.clear()
            try:
                command(*arguments, **options)
                has_succeeded = True
            except (UserError, QuorateError) as error:
                if not has_succeeded:
                    raise
                (error if isinstance(error, UserError) else user_error(error)).show()
            sys.stdout.flush()
            wait(watch)

    option_taker: F = with_options(
        click.argument("sources", nargs=-1, metavar="[SOURCE]..."),
        servers_option(),
        click.option("--group", "globs", multiple=True, metavar="GLOB", help="Only groups whose name matches."),
        click.option(
            "--at",
            metavar="TIME|[PARTITION:]OFFSET",
            help="State at a time: ISO time (UTC), ms since 1970, or an age such as 2h; "
            "or after the record at an offset, such as 5 or 0:5,1:6.",
        ),
        click.option(
            "--topology", metavar="FILE", help="With a SOURCE: file of topics with their partitions, racks and ids."
        ),
        click.option(
            "--watch",
            type=FiniteRange(min=1, max=LONGEST_MS // 1_000),
            metavar="SECONDS",
            help="Repeat every SECONDS until Ctrl-C (with -b).",
        ),
        json_option,
        connection_options,
    )(watched)  # type: ignore[assignment]  # a command by then
    return option_taker


def read_groups(
    ctx: click.Context,
    options: Mapping[str, Any],
    *,
    events: "EventsOf" = "none",
    committed: bool = False,
    only_groups: bool = False,
    ends: Literal["none", "shares", "all"] = "none",
) -> "ReplayedGroups":
    """Read the groups that the options select. Raises `UserError` and `UsageError`.

    `events`: those to collect. With `only_groups`, committed offsets and topic names are not
    needed. `ends`: with -b, of which partitions to read log end offsets.
    """
    sources, servers = options["sources"], options["bootstrap_servers"]
    check_one_source(ctx, sources, servers)
    if servers is not None and options["topology"]:
        raise click.UsageError("--topology is for a SOURCE; topics of a live cluster are read from it", ctx)
    from quorate.cli.groups.read import read_files
    from quorate.cli.times import read_moment

    connection = {name: options[name] for name in CONNECTION_OPTIONS}
    moment = read_moment(options["at"])
    if servers is not None:
        from quorate.integration.live_groups import LiveGroups

        live = ctx.meta.get(LIVE)
        if live is None:
            live = ctx.meta[LIVE] = LiveGroups(
                servers.split(","),
                options["globs"],
                moment,
                connection_config(connection),
                options["connect_timeout_ms"],
                events=events,
                committed=committed,
                offsets=not only_groups,
                ends=ends,
            )
        found = live.read()
        if found.leaderless:
            from quorate.watch.metadata import without_leader

            note(without_leader(found.leaderless))
    else:
        refuse_connection_options(ctx)
        found = read_files(
            sources, options["globs"], moment, options["topology"], events=events, offsets=not only_groups
        )
    if not found.groups and not found.events and not found.shares:
        globs = ", ".join(glob or "''" for glob in options["globs"])
        raise UserError(
            f"no group matches {globs}" if globs else "no groups found",
            *(["--at may be before they were created, or after they were deleted"] if options["at"] else []),
            *([_existing(options["globs"], found.known_groups, is_live=servers is not None)] if globs else []),
        )
    return found


def _existing(globs: Iterable[str], names: Iterable[str], *, is_live: bool) -> str:
    """List the existing names, the closest matches first.

    A live cluster lists the groups that the client may describe.
    """
    import difflib

    from quorate.codecs.printable import cut, listed, printable

    def likeness(name: str) -> float:
        return max(difflib.SequenceMatcher(None, name.lower(), glob.lower()).ratio() for glob in globs)

    found = sorted(names, key=lambda name: (-likeness(name), name))
    if not found:
        return "no group is visible to this client" if is_live else "no groups exist"
    return f"existing groups: {listed([cut(printable(name), 60) for name in found])}"


def print_rows(
    ctx: click.Context,
    found: "ReplayedGroups | None",
    rows: Iterable[dict[str, Any]],
    as_json: bool,
    columns: str,
    optional: str = "",
    nothing: str = "nothing to show",
) -> None:
    """Print a table of these `columns`, or JSON; for an empty table print `nothing` to stderr.

    Exits with status 1 if `found` lacks damaged records.
    """
    rows = list(rows)
    if as_json:
        click.echo(json.dumps(rows, indent=2, ensure_ascii=False))
    elif rows:
        from quorate.cli.groups.tables import table

        echo_lines(table(rows, columns, optional=optional))
    else:
        note(nothing)
    if found is not None and found.damaged:
        ctx.exit(1)


@groups.command("list", cls=WithConnection)
@reading_options
@click.pass_context
def list_(ctx: click.Context, /, **options: Any) -> None:
    """List groups with type, state and number of members."""
    from quorate.coordinator.history.group_rows import listed_rows

    found = read_groups(ctx, options, only_groups=True)
    columns = "group type protocol state members log_partition"
    print_rows(ctx, found, listed_rows(found), options["as_json"], columns)


@groups.command(cls=WithConnection)
@reading_options
@click.pass_context
def describe(ctx: click.Context, /, **options: Any) -> None:
    """Show states, epochs, the cause of each group's last epoch bump, and sums of share state."""
    from quorate.codecs.printable import printable, time_text
    from quorate.coordinator.history.group_rows import group_rows
    from quorate.coordinator.history.share_rows import share_text

    found = read_groups(ctx, options, events="groups", only_groups=True, ends="shares")
    rows = list(group_rows(found))
    # plain: a field that users see, in the table and in JSON
    columns = "group type coordinator assignment_strategy state group_epoch target_epoch members behind metadata_hash"
    counted = rows if options["as_json"] else [row | {"behind": str(len(row["behind"]) or "")} for row in rows]
    optional = "coordinator behind metadata_hash"  # plain: the same field
    print_rows(ctx, found, counted, options["as_json"], columns, optional)
    if not options["as_json"]:
        for row in rows:
            if (bump := row["last_bump"]) is not None:
                place = f"offset {bump['offset']:,}, {time_text(bump['timestamp_ms'])}"
                click.echo(
                    f"\n{printable(row['group'])}: epoch {bump['epoch']} ({place}) because {printable(bump['why'])}"
                )
            if row["share"] is not None:
                click.echo(f"{printable(row['group'])}: {share_text(row['share'])}")


@groups.command(cls=WithConnection)
@reading_options
@click.option("--static", is_flag=True, help="Only static members: those with a group.instance.id.")
@click.pass_context
def members(ctx: click.Context, /, static: bool, **options: Any) -> None:
    """Show members with racks, epochs, current and target assignments."""
    from quorate.coordinator.history.group_rows import member_rows

    found = read_groups(ctx, options)
    rows = [row for row in member_rows(found) if not static or row["group_instance_id"] is not None]
    nothing = "no static members" if static else "nothing to show"
    columns = (
        "group consumer_id group_instance_id host client_id rack protocol partitions local remote "
        "process_id member_epoch assignment standby_tasks warmup_tasks to_give_up target_epoch target_assignment state"
    )
    optional = "group_instance_id rack local remote process_id standby_tasks warmup_tasks to_give_up"
    print_rows(ctx, found, rows, options["as_json"], columns, optional, nothing)


@groups.command(cls=WithConnection)
@reading_options
@click.pass_context
def tasks(ctx: click.Context, /, **options: Any) -> None:
    """Show subtopologies of streams groups, and tasks by member and process (KIP-1071)."""
    from quorate.codecs.printable import spans
    from quorate.coordinator.history.task_rows import task_rows

    found = read_groups(ctx, options)
    rows = list(task_rows(found))
    if not options["as_json"]:
        rows = [row | {name: spans(row[name] or ()) for name in ("tasks", "target_tasks")} for row in rows]
    columns = (
        "group subtopology topics repartition_sinks changelogs role tasks target_tasks "
        "process_id consumer_id client_id host member_epoch state"
    )
    optional = "repartition_sinks changelogs"
    nothing = "no streams group has a topology"
    print_rows(ctx, found, rows, options["as_json"], columns, optional, nothing)


@groups.command(cls=WithConnection)
@reading_options
@click.pass_context
def offsets(ctx: click.Context, /, **options: Any) -> None:
    """Show committed offsets, lags and racks of partitions; for share groups their share state."""
    from quorate.coordinator.history.group_rows import offset_rows

    found = read_groups(ctx, options, committed=True, ends="all")
    rows = list(offset_rows(found))
    if options["as_json"]:
        print_rows(ctx, found, rows, True, "")
        return
    from quorate.cli.groups.tables import offset_columns

    rows, columns, optional = offset_columns(rows)
    print_rows(ctx, found, rows, False, columns, optional)


@groups.command(cls=WithConnection)
@reading_options
@click.option("--no-offsets", is_flag=True, help="Omit events that only commit offsets, or move start offsets.")
@click.pass_context
def history(ctx: click.Context, /, no_offsets: bool, **options: Any) -> None:
    """Show the history of groups as sentences."""
    from quorate.codecs.printable import printable, time_text
    from quorate.codecs.records import CONSUMER_OFFSETS
    from quorate.coordinator.history.group_rows import event_rows

    found = read_groups(ctx, options, events="all", committed=True)
    events = [
        event
        for event in found.events
        if not no_offsets
        or not all(type(fact).__name__ in ("OffsetsCommitted", "StartOffsetMoved") for fact in event.facts)
    ]
    rows = event_rows(found, events)
    if options["as_json"]:
        print_rows(ctx, found, rows, True, "")
        return
    for row in rows:
        place = row["offset"] if row["log_partition"] is None else f"{row['log_partition']}:{row['offset']}"
        if row["log_topic"] != CONSUMER_OFFSETS:
            place = f"{row['log_topic']} {place}"
        click.echo(f"{time_text(row['timestamp_ms'])}  {place}  {click.style(printable(row['group']), bold=True)}")
        for one in row["what"]:
            click.echo(f"    {printable(one['sentence'])}")
    if found.damaged:
        ctx.exit(1)


@groups.command("upgrade-check", cls=WithConnection)
@reading_options
@click.option(
    "--to",
    "version",
    metavar="VERSION",
    help="Release to upgrade or downgrade the brokers to, 4.0 or later.  [default: the newest supported]",
)
@click.option(
    "--migration-policy",
    type=click.Choice(["bidirectional", "upgrade", "downgrade", "disabled"]),
    default="bidirectional",
    show_default=True,
    help="Value of group.consumer.migration.policy on the brokers.",
)
@click.option(
    "--max-size",
    type=click.IntRange(min=1),
    metavar="N",
    help="Value of group.consumer.max.size on the brokers.  [default: no limit]",
)
@click.pass_context
def upgrade_check(
    ctx: click.Context, /, version: str | None, migration_policy: str, max_size: int | None, **options: Any
) -> None:
    """Report how upgrading or downgrading (--to) the brokers would affect groups.

    Lists groups whose epoch would be bumped, groups with records of type 4, groups whose hash
    differs from that of their topics (with -b or --topology), and classic groups that cannot be
    converted to consumer groups, with the reason. With --to 4.0, also lists groups that would be
    lost, and groups that would prevent others from loading.
    """
    from quorate.codecs.printable import counted
    from quorate.coordinator.history.group_rows import finding_rows

    to = _release(version)
    found = read_groups(ctx, options)
    rows = finding_rows(found, to, migration_policy, max_size)
    columns = "group type finding what"
    print_rows(
        ctx,
        found,
        rows,
        options["as_json"],
        columns,
        nothing=f"Kafka {to} affects none of {counted(len(found.groups), 'group')}",
    )


@groups.command("remove-member", cls=WithConnection)
@servers_option("The cluster.  [required]")
@click.option("--group", metavar="NAME", required=True, help="The group.")
@click.option(
    "--instance-id",
    "instance_ids",
    multiple=True,
    metavar="ID[=MEMBER-ID]",
    help="Static member with this instance id; only if it still has this member id, if one is given.",
)
@click.option("--member-id", "member_ids", multiple=True, metavar="ID", help="Member with this id, static or not.")
@click.option("--all", "everyone", is_flag=True, help="All members of the group.")
@click.option(
    "--reason",
    metavar="TEXT",
    help="Reason for the log of the coordinator (KIP-800).  [default: member was removed by an admin]",
)
@click.option("--dry-run", is_flag=True, help="Show the members, and remove none.")
@click.option("--yes", is_flag=True, help="With --all: do not ask for confirmation.")
@json_option
@connection_options
@click.pass_context
def remove_member(ctx: click.Context, /, as_json: bool, **options: Any) -> None:
    """Remove static members (KIP-345), or other members, from a group.

    --instance-id and --member-id may be repeated. The partitions of the members are assigned to
    others at once, without waiting for the session timeout. Stop the consumers before: those that
    still run rejoin.
    """
    from quorate.cli.groups.remove import COLUMNS, OPTIONAL, removed_rows

    rows, succeeded = removed_rows(ctx, options)
    if rows or as_json:
        print_rows(ctx, None, rows, as_json, COLUMNS, OPTIONAL)
    if not succeeded:
        ctx.exit(1)


def _release(text: str | None) -> "KafkaVersion":
    """Parse the value of --to. Raises `UserError`."""
    from quorate.codecs.releases import KafkaVersion

    if text is None:
        return KafkaVersion.NEWEST
    try:
        version = KafkaVersion.parse(text)
    except ValueError as error:
        raise UserError(f"--to {error}") from None
    if not KafkaVersion(4, 0) <= version <= KafkaVersion.NEWEST:
        raise UserError(f"--to {text}: only releases from 4.0 to {KafkaVersion.NEWEST} are supported")
    return version
