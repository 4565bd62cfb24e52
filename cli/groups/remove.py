"""`quorate groups remove-member`: remove members, or show which would be removed."""

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import click

from quorate.cli.connection import connection_config
from quorate.cli.errors import UserError, note, show_error
from quorate.codecs.printable import counted
from quorate.coordinator.history import Moment
from quorate.coordinator.history.group_rows import member_rows
from quorate.coordinator.state import GroupKind
from quorate.integration.group_members import DEFAULT_REASON, LONGEST_REASON, Named, Removal, failure, remove_members
from quorate.integration.live_groups import LiveGroups

Row = dict[str, Any]

COLUMNS = "group group_instance_id consumer_id host client_id partitions result"
OPTIONAL = "group_instance_id consumer_id host client_id partitions"

WOULD = "would be removed"


def removed_rows(ctx: click.Context, options: Mapping[str, Any]) -> tuple[list[Row], bool]:
    """Remove the members that the options name; return a row for each, and whether all succeeded.

    Prints errors of single members. Raises `UsageError`, `UserError` and `InputError`.
    """
    group, everyone, dry_run, reason = (options[name] for name in ("group", "everyone", "dry_run", "reason"))
    named = _named(options["instance_ids"], options["member_ids"])
    if options["bootstrap_servers"] is None:
        raise click.UsageError("remove-member needs a live cluster (-b)", ctx)
    if everyone == bool(named):
        raise click.UsageError("give either --instance-id and --member-id, or --all", ctx)
    if not group or any("" in (member.instance_id, member.member_id) for member in named):
        raise click.UsageError("the name of a group or of a member is empty", ctx)
    if reason is not None and len(reason) > LONGEST_REASON:
        raise UserError(f"--reason has {len(reason):,} characters; at most {LONGEST_REASON} are sent", "shorten it")
    servers, config = options["bootstrap_servers"].split(","), connection_config(options)
    members: list[Row] = []
    if everyone or dry_run:
        members = _members(group, servers, config, options["connect_timeout_ms"])
    if everyone:
        named = [
            Named(member_id=row["consumer_id"])
            if row["group_instance_id"] is None
            else Named(instance_id=row["group_instance_id"])
            for row in members
        ]
        if not named:
            note(f"group {group} has no members")
            return [], True
    if dry_run:
        removals = [_would(group, members, member) for member in named]
    else:
        if everyone and not options["yes"]:
            _confirm(group, len(named))
        removals = remove_members(
            servers, group, named, config, options["connect_timeout_ms"], reason=reason or DEFAULT_REASON
        )
    for removal in removals:
        if removal.message is not None:
            show_error(removal.message, *([removal.remedy] if removal.remedy else []))
    rows = [_row(group, removal, members, WOULD if dry_run else "removed") for removal in removals]
    return rows, not any(removal.error for removal in removals)


def _named(instance_ids: Sequence[str], member_ids: Sequence[str]) -> list[Named]:
    """Return the members that the options name, each once."""
    static = (text.partition("=") for text in instance_ids)
    named = [
        *(Named(instance_id=name, member_id=member_id if equals else None) for name, equals, member_id in static),
        *(Named(member_id=each) for each in member_ids),
    ]
    return list(dict.fromkeys(named))


def _members(group: str, servers: list[str], config: Mapping[str, Any], timeout_ms: int) -> list[Row]:
    """Return the rows of the members of a group. Raises `UserError` if it cannot have members."""
    found = LiveGroups(servers, [group], Moment(), config, timeout_ms, committed=False).read()
    found.groups = [one for one in found.groups if one.view.group_id == group]  # the name may also match as a glob
    if not found.groups:
        raise UserError(f"group {group} does not exist", "`quorate groups list` lists groups")
    kind = found.groups[0].view.kind
    if kind not in (GroupKind.CLASSIC, GroupKind.CONSUMER):
        raise UserError(
            f"{group} is a {kind.value.lower()} group, whose members cannot be removed",
            "stop the clients; remove-member is for classic and consumer groups",
        )
    return list(member_rows(found))


def _confirm(group: str, count: int) -> None:
    question = (
        f"Remove all {count:,} members of group {group}?" if count > 1 else f"Remove the member of group {group}?"
    )
    if not sys.stdin.isatty():
        raise UserError(
            f"--all would remove {counted(count, 'member')} of group {group}", "add --yes, or --dry-run to see them"
        )
    if not click.confirm(question, err=True):
        raise UserError("not confirmed: no member was removed")


def _would(group: str, members: Sequence[Row], member: Named) -> Removal:
    row = _row_of(members, member)
    if row is None:
        return failure(group, member, "UNKNOWN_MEMBER_ID")
    if member.member_id not in (None, row["consumer_id"]):
        return failure(group, member, "FENCED_INSTANCE_ID")
    return Removal(member=member)


def _row_of(members: Sequence[Row], member: Named) -> Row | None:
    name, value = (
        ("consumer_id", member.member_id) if member.instance_id is None else ("group_instance_id", member.instance_id)
    )
    return next((row for row in members if row[name] == value), None)


def _row(group: str, removal: Removal, members: Sequence[Row], success: str) -> Row:
    known = _row_of(members, removal.member) or {}
    return {
        "group": group,
        "group_instance_id": removal.member.instance_id or known.get("group_instance_id"),
        "consumer_id": removal.member.member_id or known.get("consumer_id"),
        "host": known.get("host"),
        "client_id": known.get("client_id"),
        "partitions": known.get("partitions"),
        "result": removal.error or success,
        "error": removal.message,
    }
