"""Members of the consumer protocol (KIP-848): heartbeats, epochs and assignments."""

from itertools import pairwise

from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify_client.exchanges import Exchange
from quorate.integration.verify_client.rule import (
    ABANDONED,
    GRACE_S,
    Evidence,
    Findings,
    client_rule,
    rules_in,
)

LEAVES = (-1, -2)
SLOW_S = 1.5
"""A callback that takes at least this long is slow."""


def _interval_s(one: Exchange) -> float:
    return getattr(one.response, "heartbeat_interval_ms", 0) / 1000


def _limit_s(interval_s: float) -> float:
    """Return how late a heartbeat may be, also on a busy machine."""
    return 4 * interval_s + 1


def _accepted(one: Exchange) -> bool:
    return one.response is not None and not one.errors and one.request.member_epoch not in LEAVES


def _owned(topics: object) -> frozenset[tuple[str, int]]:
    return frozenset((str(each.topic_id), number) for each in topics or () for number in each.partitions)  # type: ignore[attr-defined]


@client_rule("KIP-848", "A member sends a heartbeat at least once per interval that the broker has set.")
def heartbeat_in_time(seen: Evidence, found: Findings) -> None:
    for member, beats in seen.heartbeats().items():
        for before, after in zip(beats, [*beats[1:], None], strict=True):
            if not _accepted(before) or before.responded_s is None:
                continue
            closed_s = before.link.closed_s
            if closed_s is not None and (after is None or closed_s < after.at_s):
                continue  # the coordinator stopped or moved
            until_s = min(seen.end_s, seen.stop_s(before.link)) if after is None else after.at_s
            waited_s, interval_s = until_s - before.responded_s, _interval_s(before)
            problem = f"{waited_s:.1f} s without a heartbeat of member {member}; the interval is {interval_s:g} s"
            shown = (before,) if after is None else (before, after)
            if waited_s > _limit_s(interval_s):
                found.differs(problem, *shown)
            elif after is not None:
                found.ok()


@client_rule("KIP-848", "A member has at most one heartbeat in flight.")
def one_heartbeat_at_a_time(seen: Evidence, found: Findings) -> None:
    for beats in seen.heartbeats().values():
        for before, after in pairwise(beats):
            ended_s = min(
                (time for time in (before.responded_s, before.link.closed_s) if time is not None), default=None
            )
            leaving = after.request.member_epoch in LEAVES
            found.check(
                leaving or (ended_s is not None and ended_s <= after.at_s),
                "a heartbeat before the response to the one before",
                before,
                after,
            )


@client_rule("KIP-848", "A heartbeat that joins (epoch 0) has all fields, and owns no partitions.")
def join_with_all_fields(seen: Evidence, found: Findings) -> None:
    for one in seen.of("ConsumerGroupHeartbeat"):
        wanted = one.request
        if wanted.member_epoch != 0:
            continue
        subscribed = wanted.subscribed_topic_names is not None or wanted.subscribed_topic_regex is not None
        found.check(
            subscribed and wanted.rebalance_timeout_ms > 0 and wanted.topic_partitions == (),
            "a join without subscription, rebalance timeout or (empty) owned partitions",
            one,
        )


@client_rule("KIP-1082", "A member generates its own member id, since version 1 of the heartbeat.")
def member_id_is_generated_by_the_client(seen: Evidence, found: Findings) -> None:
    for one in seen.of("ConsumerGroupHeartbeat"):
        if one.version >= 1 and one.request.member_epoch == 0:
            found.check(one.request.member_id, "a join of version 1 without a member id", one)


@client_rule("KIP-848", "A member that was fenced joins again with epoch 0, and no other epoch.")
def rejoin_with_epoch_0_after_being_fenced(seen: Evidence, found: Findings) -> None:
    for beats in seen.heartbeats().values():
        for before, after in pairwise(beats):
            if before.error in ABANDONED and before.request.member_epoch not in LEAVES:
                epoch = after.request.member_epoch
                found.check(epoch in (0, *LEAVES), f"epoch {epoch} after {before.error.name}", before, after)


@client_rule("KIP-1082", "A member keeps its member id when it joins again after being fenced.")
def member_id_is_kept(seen: Evidence, found: Findings) -> None:
    joins = [one for one in seen.of("ConsumerGroupHeartbeat") if one.request.member_epoch == 0]
    for member, beats in seen.heartbeats().items():
        for before in beats:
            if before.error not in ABANDONED or before.request.member_epoch in LEAVES or before.version < 1:
                continue
            following = [one for one in joins if one.at_s > before.at_s and one.link.program == before.link.program]
            if following:
                found.check(
                    following[0].request.member_id == member,
                    "another member id after being fenced",
                    before,
                    following[0],
                )


@client_rule("KIP-848", "A heartbeat has the epoch of the last response.")
def heartbeat_has_the_last_epoch(seen: Evidence, found: Findings) -> None:
    for beats in seen.heartbeats().values():
        epoch: int | None = None
        last: Exchange | None = None
        for one in beats:
            sent = one.request.member_epoch
            if epoch is not None and last is not None and sent > 0:
                found.check(sent == epoch, f"epoch {sent}, and the last response had {epoch}", last, one)
            if one.error in ABANDONED:
                epoch = None  # see rejoin_with_epoch_0_after_being_fenced
            elif _accepted(one):
                epoch, last = one.response.member_epoch, one
            elif one.response is None:
                epoch = None  # the lost response may have had another one


@client_rule("KIP-848", "An offset commit has the member's newest epoch.")
def no_commit_with_an_old_epoch(seen: Evidence, found: Findings) -> None:
    members = seen.heartbeats()
    for one in seen.of("OffsetCommit"):
        beats = members.get(one.request.member_id)
        if not beats or one.version < 9 or one.request.generation_id_or_member_epoch < 0:
            continue
        known = [
            each
            for each in beats
            if _accepted(each) and each.responded_s is not None and each.responded_s < one.at_s - GRACE_S
        ]
        if known:
            newest, sent = known[-1].response.member_epoch, one.request.generation_id_or_member_epoch
            found.check(sent >= newest, f"a commit with epoch {sent}; the member had {newest}", known[-1], one)


@client_rule("KIP-848", "A member stops to use a partition before it reports that it does not own it any more.")
def revoke_before_acknowledge(seen: Evidence, found: Findings) -> None:
    commits = seen.of("OffsetCommit")
    fetches = seen.fetched_partitions()
    for member, beats in seen.heartbeats().items():
        owned: frozenset[tuple[str, int]] = frozenset()
        for number, one in enumerate(beats):
            if one.request.topic_partitions is None or one.request.member_epoch <= 0:
                continue
            reported = _owned(one.request.topic_partitions)
            released, owned = owned - reported, reported
            for topic, partition in released if topic_is(seen, released) else ():
                again_s = next(
                    (
                        each.responded_s
                        for each in beats[number:]
                        if each.responded_s is not None
                        and each.response is not None
                        and each.response.assignment is not None
                        and (topic, partition) in _owned(each.response.assignment.topic_partitions)
                    ),
                    seen.end_s,
                )
                late = [
                    each
                    for each in commits
                    if each.request.member_id == member
                    and one.at_s < each.at_s < again_s
                    and partition in {part.partition_index for part in seen.partitions(each.request.topics)}
                ]
                program = one.link.program
                late += [
                    each
                    for each, partitions in fetches
                    if program
                    and each.link.program == program
                    and one.at_s + GRACE_S < each.at_s < again_s
                    and partition in partitions
                ]
                found.check(not late, f"partition {partition} is used after it was given up", one, *late[:2])


def topic_is(seen: Evidence, partitions: frozenset[tuple[str, int]]) -> bool:
    """Return whether partitions are of the scenario's topic."""
    return all(topic == seen.topic_id for topic, _ in partitions)


@client_rule("KIP-848", "A member reports the partitions of its assignment once it owns them.")
def assignment_is_acknowledged(seen: Evidence, found: Findings) -> None:
    for beats in seen.heartbeats().values():
        for number, one in enumerate(beats):
            if one.response is None or one.response.assignment is None or one.responded_s is None:
                continue
            given = _owned(one.response.assignment.topic_partitions)
            reported = one.request.topic_partitions
            if reported is not None and _owned(reported) == given:
                continue  # a response to a full heartbeat repeats the assignment that it reports
            following = beats[number + 1 :]
            replaced = next(
                (each for each in following if each.response is None or each.response.assignment is not None), None
            )
            if any(
                each.request.topic_partitions is not None and _owned(each.request.topic_partitions) == given
                for each in following
            ):
                found.ok()
            elif not replaced and following and following[-1].at_s > one.responded_s + 5:
                found.differs("an assignment that is not reported as owned within 5 s", one, following[-1])


@client_rule("KIP-848", "Heartbeats continue while the application's callback revokes partitions.")
def heartbeats_during_callbacks(seen: Evidence, found: Findings) -> None:
    for beats in seen.heartbeats().values():
        owned: frozenset[tuple[str, int]] = frozenset()
        pending: Exchange | None = None
        number = 0
        for one in beats:
            if one.request.topic_partitions is not None:
                owned = _owned(one.request.topic_partitions)
            if pending is not None:
                number += 1
                if one.request.topic_partitions is not None or one.request.member_epoch <= 0:
                    took_s = one.at_s - (pending.responded_s or one.at_s)
                    if took_s > SLOW_S:
                        found.check(
                            number > 1, f"no heartbeat for {took_s:.1f} s, until partitions were revoked", pending, one
                        )
                    pending = None
            assignment = None if one.response is None else one.response.assignment
            if assignment is not None and owned - _owned(assignment.topic_partitions):
                pending, number = one, 0


@client_rule("KIP-848", "After a heartbeat without response, the next one has all fields.")
def all_fields_after_a_lost_response(seen: Evidence, found: Findings) -> None:
    for beats in seen.heartbeats().values():
        for before, after in pairwise(beats):
            lost = before.responded_s is None and before.link.closed_s is not None and before.request.member_epoch > 0
            if lost and after.request.member_epoch not in LEAVES:
                wanted = after.request
                found.check(
                    wanted.rebalance_timeout_ms > 0
                    and wanted.topic_partitions is not None
                    and (wanted.subscribed_topic_names is not None or wanted.subscribed_topic_regex is not None),
                    "a heartbeat with changes only, although the broker may not have the ones before",
                    before,
                    after,
                )


@client_rule("KIP-848", "A member that is closed leaves: a heartbeat with epoch -1, or -2 if it is static.")
def leaves_at_close(seen: Evidence, found: Findings) -> None:
    for member, beats in seen.heartbeats().items():
        last = beats[-1]
        run = next((run for run in seen.programs if run.number == last.link.program), None)
        if not member or run is None or run.stopped_s is None or run.ended_early or last.error in ABANDONED:
            continue
        static = last.request.instance_id is not None or any(one.request.instance_id for one in beats)
        epoch = last.request.member_epoch
        found.check(
            epoch in LEAVES if static else epoch == -1,
            f"member {member} did not leave; its last epoch was {epoch}",
            last,
        )


@client_rule("KIP-848", "A member that has left sends nothing more for the group.")
def nothing_after_leaving(seen: Evidence, found: Findings) -> None:
    for member, beats in seen.heartbeats().items():
        for number, one in enumerate(beats):
            if one.request.member_epoch not in LEAVES or one.error is not ErrorCode.NONE:
                continue
            late = [
                each
                for each in (*beats[number + 1 :], *seen.of("OffsetCommit"))
                if each.request.member_id == member and each.at_s > one.at_s
            ]
            again = [each for each in late if each.api != "OffsetCommit" and each.request.member_epoch in (0, *LEAVES)]
            if not again:
                found.check(not late, "a request of a member that has left", one, *late[:2])


CONSUMER_PROTOCOL_RULES = rules_in(globals())
