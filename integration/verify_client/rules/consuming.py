"""What consumers of both protocols do: coordinators, offsets and fetched records."""

from collections import defaultdict
from collections.abc import Iterator

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import Batch, read_batches
from quorate.integration.verify_client.exchanges import Exchange
from quorate.integration.verify_client.rule import GRACE_S, Evidence, Findings, client_rule, rules_in

GROUP_APIS = (
    "ConsumerGroupHeartbeat",
    "JoinGroup",
    "SyncGroup",
    "Heartbeat",
    "LeaveGroup",
    "OffsetCommit",
    "OffsetFetch",
)
_DOCS = "Kafka's documentation of consumers"
_MOVED = frozenset({ErrorCode.NOT_COORDINATOR, ErrorCode.COORDINATOR_NOT_AVAILABLE})
_SETTLED_S = 3
_STILL = 3
"""How many requests may be in flight, or repeated, before the coordinator is looked up."""


@client_rule("Kafka protocol guide", "After NOT_COORDINATOR, the coordinator is looked up before more requests to it.")
def coordinator_is_looked_up(seen: Evidence, found: Findings) -> None:
    sent = seen.of(*GROUP_APIS, "FindCoordinator")
    for number, one in enumerate(sent):
        if one.api == "FindCoordinator" or not one.errors & _MOVED or one.responded_s is None:
            continue
        again: list[Exchange] = []
        for each in sent[number + 1 :]:
            if each.link.program != one.link.program or each.at_s < one.responded_s:
                continue
            if each.api == "FindCoordinator":
                found.ok()
                break
            if each.link.broker == one.link.broker:
                again.append(each)
            if len(again) > _STILL:
                found.differs("requests to the old coordinator, and no FindCoordinator", one, *again[:2])
                break


def _delivered(seen: Evidence, one: Exchange) -> dict[int, int]:
    """Return the offset after the last record of each partition in a Fetch response."""
    found: dict[int, int] = {}
    for part in seen.partitions(getattr(one.response, "responses", ())):
        if part.records:
            batches = [each for each in read_batches(bytes(part.records)) if isinstance(each, Batch)]
            if batches:
                found[part.partition_index] = batches[-1].header.last_offset + 1
    return found


def _given_offsets(seen: Evidence, one: Exchange) -> dict[int, int]:
    """Return offsets that a response of OffsetFetch or ListOffsets gives, by partition."""
    response = one.response
    if response is None:
        return {}
    topics = list(response.topics or ())
    for group in getattr(response, "groups", ()):
        topics += group.topics
    found: dict[int, int] = {}
    for part in seen.partitions(topics):
        offset = getattr(part, "committed_offset", getattr(part, "offset", -1))
        found[part.partition_index] = max(offset, found.get(part.partition_index, -1))
    return found


def _requests_and_offsets(seen: Evidence, api: str) -> Iterator[tuple[Exchange, dict[int, int]]]:
    """Yield requests of an API, with the offsets that responses had given before, by partition."""
    events = [(one.at_s, 1, one) for one in seen.of(api)]
    events += [
        (one.responded_s, 0, one)
        for one in seen.of("Fetch", "OffsetFetch", "ListOffsets")
        if one.responded_s is not None
    ]
    reached: dict[int, int] = defaultdict(int)
    for _, is_request, one in sorted(events, key=lambda event: event[:2]):
        if is_request:
            yield one, reached
            continue
        given = _delivered(seen, one) if one.api == "Fetch" else _given_offsets(seen, one)
        for partition, offset in given.items():
            reached[partition] = max(reached[partition], offset)


@client_rule(_DOCS, "A consumer fetches from offsets that brokers have given it, without gaps.")
def no_record_is_skipped(seen: Evidence, found: Findings) -> None:
    for one, reached in _requests_and_offsets(seen, "Fetch"):
        for part in seen.partitions(one.request.topics):
            offset, most = part.fetch_offset, reached[part.partition]
            problem = f"partition {part.partition} from offset {offset}; records up to {most} were delivered"
            found.check(offset <= most, problem, one)


@client_rule(_DOCS, "An offset is committed only after the records before it were delivered.")
def no_commit_beyond_delivered_records(seen: Evidence, found: Findings) -> None:
    for one, reached in _requests_and_offsets(seen, "OffsetCommit"):
        for part in seen.partitions(one.request.topics):
            offset, most = part.committed_offset, reached[part.partition_index]
            problem = f"offset {offset} of partition {part.partition_index}; records up to {most} were delivered"
            found.check(offset <= most, problem, one)


@client_rule(_DOCS, "Committed offsets of a member never go back.")
def committed_offsets_never_go_back(seen: Evidence, found: Findings) -> None:
    last: dict[tuple[str, int, int], tuple[int, Exchange]] = {}
    for one in seen.of("OffsetCommit"):
        if one.response is None or one.errors or not one.request.member_id:
            continue
        for part in seen.partitions(one.request.topics):
            key = (one.request.member_id, one.request.generation_id_or_member_epoch, part.partition_index)
            if key in last:
                before, earlier = last[key]
                found.check(
                    part.committed_offset >= before,
                    f"offset {part.committed_offset} of partition {part.partition_index} after {before}",
                    earlier,
                    one,
                )
            last[key] = (part.committed_offset, one)


@client_rule(_DOCS, "A consumer consumes and commits all records, at the latest when it is closed.")
def all_records_are_committed(seen: Evidence, found: Findings) -> None:
    committed: dict[int, int] = {}
    last: list[Exchange] = []
    for one in seen.of("OffsetCommit"):
        if one.response is not None and not one.errors:
            last = [one]
            for part in seen.partitions(one.request.topics):
                committed[part.partition_index] = part.committed_offset
    if not committed or any(run.ended_early for run in seen.programs):
        return
    for partition, end in seen.end_offsets.items():
        offset = committed.get(partition, 0)
        problem = f"partition {partition} has {end} records, and {offset} is committed"
        if end:
            found.check(offset >= end, problem, *last)


@client_rule("KIP-392", "A consumer fetches from the replica that the leader prefers.")
def fetches_from_the_preferred_replica(seen: Evidence, found: Findings) -> None:
    fetches = seen.fetched_partitions()
    for number, (one, _) in enumerate(fetches):
        if one.responded_s is None:
            continue
        for part in seen.partitions(getattr(one.response, "responses", ())):
            if part.preferred_read_replica < 0:
                continue
            following = [
                each
                for each, partitions in fetches[number + 1 :]
                if each.link.program == one.link.program
                and one.responded_s + GRACE_S < each.at_s < one.responded_s + _SETTLED_S
                and part.partition_index in partitions
            ]
            preferred = part.preferred_read_replica
            kept = any(each.link.broker == preferred for each in following)
            restarted = any(
                link.broker == preferred
                and link.closed_s is not None
                and abs(link.closed_s - one.responded_s) < 2 * _SETTLED_S
                and link.closed_s < seen.stop_s(link)
                for link in seen.links
            )
            if restarted:
                continue  # it may not have been reachable
            if following:  # otherwise the program gave the partition up
                problem = f"partition {part.partition_index} is not fetched from broker {preferred}"
                found.check(kept, problem, one, following[0])


CONSUMING_RULES = rules_in(globals())
