"""Remove members from groups of a running cluster, as Kafka's admin client does (KIP-345, KIP-800).

A member is named by the `group.instance.id` of a static member, or by its member id. Members of
both protocols are removed by LeaveGroup: the coordinator removes them at once, and a consumer that
still runs rejoins after its next heartbeat.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from quorate.codecs.printable import listed, suggestion
from quorate.watch.metadata import open_admin

if TYPE_CHECKING:
    from kafka.admin import KafkaAdminClient
    from kafka.errors import KafkaError

DEFAULT_REASON = "member was removed by an admin"
"""The reason that Kafka's admin client sends by default."""

LONGEST_REASON = 255
"""Maximum number of characters of a reason; Kafka's admin client cuts longer ones."""

RETRY_S = 0.5
ATTEMPTS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Named:
    """A member of a group, by instance id, by member id, or by both.

    A static member that is named by both is removed only if it still has this member id.
    """

    instance_id: str | None = None
    member_id: str | None = None

    def __str__(self) -> str:
        if self.instance_id is None:
            return f"member id {self.member_id}"
        return f"instance id {self.instance_id}" + (f" and member id {self.member_id}" if self.member_id else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Removal:
    """The result for one member.

    `error`: the name of Kafka's error, `None` if the member was removed; `message` and `remedy`
    describe it.
    """

    member: Named
    error: str | None = None
    message: str | None = None
    remedy: str | None = None


def remove_members(
    servers: Sequence[str],
    group_id: str,
    members: Sequence[Named],
    config: Mapping[str, Any],
    connect_timeout_ms: int,
    *,
    reason: str = DEFAULT_REASON,
) -> list[Removal]:
    """Remove members by one LeaveGroup request, and return the result for each.

    `config`: kafka-python's. Raises `InputError` if the request fails as a whole.
    """
    doing = f"removing members of group {group_id}"
    with open_admin(servers, config, connect_timeout_ms, doing, "READ on the group is required") as (admin, _):
        from kafka.admin import MemberToRemove
        from kafka.errors import KafkaError

        results = _leave(
            admin,
            group_id,
            [
                MemberToRemove(member_id=member.member_id, group_instance_id=member.instance_id, reason=reason)
                for member in members
            ],
        )
        removals = []
        why: tuple[str, str] | None = None
        for member in members:
            error = results[member.member_id or member.instance_id or ""]
            if not error.errno:
                removals.append(Removal(member=member))
                continue
            if error.message == "UNKNOWN_MEMBER_ID" and why is None:
                why = "", ""
                with suppress(KafkaError):  # the client may not list groups
                    why = _why_unknown(admin, group_id)
            removals.append(failure(group_id, member, error.message, error.description, why or ("", "")))
        return removals


def _leave(admin: "KafkaAdminClient", group_id: str, members: Sequence[Any]) -> "Mapping[str, type[KafkaError]]":
    """Send the request, again while the coordinator is moving or loading."""
    from kafka.errors import KafkaError

    for attempt in range(1, ATTEMPTS + 1):
        try:
            results: Mapping[str, type[KafkaError]] = admin.remove_group_members(group_id, members)
        except KafkaError as error:
            if not error.retriable or attempt == ATTEMPTS:
                raise
            time.sleep(RETRY_S)
        else:
            return results
    raise AssertionError("unreachable")


def _why_unknown(admin: "KafkaAdminClient", group_id: str) -> tuple[str, str]:
    """Return why the group has no members, and a remedy; empty if it can have members."""
    groups = {group["group_id"]: group for group in admin.list_groups()}
    if group_id not in groups:
        remedy = suggestion(group_id, groups, f"existing groups: {listed(sorted(groups))}")
        return f"group {group_id} does not exist", remedy if groups else "no groups are visible"
    kind = str(groups[group_id].get("group_type") or "classic").lower()
    if kind not in ("classic", "consumer"):
        return f"{group_id} is a {kind} group, whose members cannot be removed", "stop the client"
    return "", ""


def failure(
    group_id: str, member: Named, error: str, description: str = "", why: tuple[str, str] = ("", "")
) -> Removal:
    """Return the result for a member that was not removed.

    `error` and `description` are Kafka's; `why` is why no member of the group is known, and the
    remedy.
    """
    if error == "UNKNOWN_MEMBER_ID":
        message = why[0] or f"group {group_id} has no member with {member}"
        remedy = why[1] or "it may have left already; `quorate groups members` lists the members"
    elif error == "FENCED_INSTANCE_ID":
        message = f"group {group_id} has another member with instance id {member.instance_id} than {member.member_id}"
        remedy = "the consumer was restarted; give the instance id only, to remove its present member"
    else:
        message, remedy = f"{member} of group {group_id} was not removed: {error}: {description}", ""
    return Removal(member=member, error=error, message=message, remedy=remedy or None)
