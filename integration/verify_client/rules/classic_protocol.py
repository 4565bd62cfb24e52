"""Members of classic groups: joins, generations and heartbeats."""

from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify_client.exchanges import Exchange
from quorate.integration.verify_client.rule import GRACE_S, Evidence, Findings, client_rule, rules_in

_MEMBER_APIS = ("JoinGroup", "SyncGroup", "Heartbeat", "LeaveGroup")


def _leavers(one: Exchange) -> set[str]:
    members = {each.member_id for each in one.request.members}
    return members | {one.request.member_id} if one.version < 3 else members


def _members(seen: Evidence) -> dict[str, list[Exchange]]:
    """Return JoinGroup, SyncGroup, Heartbeat and LeaveGroup of each member, by its member id."""
    found: dict[str, list[Exchange]] = {}
    for one in seen.of(*_MEMBER_APIS):
        if one.api == "LeaveGroup":
            ids = _leavers(one)
        elif one.api == "JoinGroup" and not one.request.member_id:
            ids = {getattr(one.response, "member_id", "")}
        else:
            ids = {one.request.member_id}
        for member in ids - {""}:
            found.setdefault(member, []).append(one)
    return found


def _joined(one: Exchange) -> bool:
    return one.api == "JoinGroup" and one.response is not None and not one.errors


@client_rule("Kafka protocol guide", "A member of a classic group sends heartbeats well within its session timeout.")
def heartbeat_within_the_session(seen: Evidence, found: Findings) -> None:
    for member, sent in _members(seen).items():
        session_s = 0.0
        for before, after in zip(sent, [*sent[1:], None], strict=True):
            if before.api == "JoinGroup":
                session_s = before.request.session_timeout_ms / 1000
            synced = before.api in ("SyncGroup", "Heartbeat") and before.responded_s is not None and not before.errors
            if not synced or before.responded_s is None or not session_s:
                continue
            until_s = min(seen.end_s, seen.stop_s(before.link)) if after is None else after.at_s
            waited_s = until_s - before.responded_s
            problem = f"{waited_s:.1f} s without a heartbeat of member {member}; its session timeout is {session_s:g} s"
            shown = (before,) if after is None else (before, after)
            if waited_s > session_s * 2 / 3:
                found.differs(problem, *shown)
            elif after is not None:
                found.ok()


@client_rule("KIP-394", "After MEMBER_ID_REQUIRED, the next JoinGroup has the member id of that response.")
def join_with_the_required_member_id(seen: Evidence, found: Findings) -> None:
    joins = seen.of("JoinGroup")
    for number, one in enumerate(joins):
        if one.error is not ErrorCode.MEMBER_ID_REQUIRED:
            continue
        following = [each for each in joins[number + 1 :] if each.link.program == one.link.program]
        if following:
            found.check(
                any(each.request.member_id == one.response.member_id for each in following[:2]),
                "a JoinGroup without the required member id",
                one,
                following[0],
            )


@client_rule("Kafka protocol guide", "After a successful JoinGroup, a member sends SyncGroup with its generation.")
def sync_after_join(seen: Evidence, found: Findings) -> None:
    for sent in _members(seen).values():
        for number, one in enumerate(sent):
            if not _joined(one):
                continue
            following = [each for each in sent[number + 1 :] if each.api != "Heartbeat"]
            if following:
                after = following[0]
                synced = after.api == "SyncGroup" and after.request.generation_id == one.response.generation_id
                left = after.api == "LeaveGroup" or after.link.number != one.link.number
                found.check(synced or left, "another request than SyncGroup of the generation", one, after)


@client_rule("Kafka protocol guide", "After REBALANCE_IN_PROGRESS, a member joins again within its rebalance timeout.")
def rejoins_after_rebalance_in_progress(seen: Evidence, found: Findings) -> None:
    for sent in _members(seen).values():
        timeout_s = 0.0
        for number, one in enumerate(sent):
            if one.api == "JoinGroup":
                timeout_s = max(one.request.rebalance_timeout_ms, one.request.session_timeout_ms) / 1000
            if one.api != "Heartbeat" or one.error is not ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            following = [each for each in sent[number + 1 :] if each.api in ("JoinGroup", "LeaveGroup")]
            if following:
                waited_s = following[0].at_s - one.at_s
                problem = f"joined {waited_s:.1f} s later; the rebalance timeout is {timeout_s:g} s"
                found.check(waited_s <= timeout_s + 1, problem, one, following[0])
            elif min(seen.end_s, seen.stop_s(one.link)) - one.at_s > timeout_s:
                found.differs("did not join again", one)


@client_rule("Kafka protocol guide", "After UNKNOWN_MEMBER_ID, a member joins without its old member id.")
def unknown_member_id_is_given_up(seen: Evidence, found: Findings) -> None:
    for sent in _members(seen).values():
        for number, one in enumerate(sent):
            if one.error is not ErrorCode.UNKNOWN_MEMBER_ID or one.api == "LeaveGroup":
                continue
            late = [
                each
                for each in sent[number + 1 :]
                if each.at_s > (one.responded_s or one.at_s) + GRACE_S and each.api != "LeaveGroup"
            ]
            found.check(not late, "the unknown member id is still used", one, *late[:2])


@client_rule("Kafka protocol guide", "An offset commit has the generation of the last JoinGroup response.")
def no_commit_with_an_old_generation(seen: Evidence, found: Findings) -> None:
    members = _members(seen)
    for one in seen.of("OffsetCommit"):
        sent = members.get(one.request.member_id, ())
        known = [each for each in sent if _joined(each) and (each.responded_s or one.at_s) < one.at_s - GRACE_S]
        if known:
            newest, used = known[-1].response.generation_id, one.request.generation_id_or_member_epoch
            found.check(used >= newest, f"a commit with generation {used}; the member had {newest}", known[-1], one)


@client_rule("Kafka protocol guide", "A member that is closed sends LeaveGroup, unless it is static (KIP-345).")
def leave_group_at_close(seen: Evidence, found: Findings) -> None:
    newest = {sent[-1].link.program: (member, sent) for member, sent in _members(seen).items()}
    for program, (member, sent) in newest.items():
        last = sent[-1]
        run = next((run for run in seen.programs if run.number == program), None)
        static = any(getattr(one.request, "group_instance_id", None) for one in sent)
        gone = last.error in (ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.MEMBER_ID_REQUIRED)
        if run is not None and run.stopped_s is not None and not run.ended_early and not static and not gone:
            found.check(last.api == "LeaveGroup", f"member {member} did not leave", last)


CLASSIC_PROTOCOL_RULES = rules_in(globals())
