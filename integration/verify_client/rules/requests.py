"""What any client does: versions, retries, metadata and throttling; and how it ends."""

from bisect import bisect_left
from collections import defaultdict

from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify_client.exchanges import Exchange
from quorate.integration.verify_client.rule import GRACE_S, RETRIABLE, Evidence, Findings, client_rule, rules_in

_DOCS = "Kafka's documentation of clients"
_API_VERSIONS = 18
_MOST_RETRIES = 40
"""Within a second, for an API and broker. Clients wait for 100 ms by default (retry.backoff.ms)."""
_TIMES_MORE = {"Produce": 5, "Fetch": 5, "AddPartitionsToTxn": 2}
"""Several batches of a producer are in flight, and Kafka's consumer fetches again without backoff,
about a hundred times, until it has new metadata. Kafka's producer repeats the first
AddPartitionsToTxn of a transaction every 20 ms (`ADD_PARTITIONS_RETRY_BACKOFF_MS`).
"""
_THROTTLES_SINCE = {"Fetch": 8, "Produce": 6, "Heartbeat": 2}
"""API → the first version after whose response Kafka's client waits (`shouldClientThrottle`).

It does not wait after ConsumerGroupHeartbeat.
"""
_MOST_CONNECTIONS = 40
_RETRIED_WITHIN_S = 5.0
_MOVED = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.FENCED_LEADER_EPOCH,
    }
)


@client_rule("KIP-35", "A request has a version that the broker has reported in ApiVersions.")
def versions_within_api_versions(seen: Evidence, found: Findings) -> None:
    for one in seen.exchanges:
        if one.api_key == _API_VERSIONS:
            continue
        versions = seen.versions.get(one.api_key, range(0))
        supported = f"{versions[0]} to {versions[-1]}" if versions else "none"
        found.check(one.version in versions, f"{one.api} v{one.version}; versions of the broker: {supported}", one)


@client_rule("KIP-35", "A client requests ApiVersions from a broker before it sends other requests to it.")
def api_versions_come_first(seen: Evidence, found: Findings) -> None:
    reported: set[tuple[int, int]] = set()
    judged: set[int] = set()
    for one in seen.exchanges:
        key = (one.link.program, one.link.broker)
        if one.api_key == _API_VERSIONS:
            reported.add(key)
        if one.link.number not in judged and one.link.program:
            judged.add(one.link.number)
            found.check(key in reported, f"{one.api} is the first request to broker {one.link.broker}", one)


@client_rule("KIP-580", "A request that failed with a retriable error is repeated with a backoff, not in a hot loop.")
def retries_have_a_backoff(seen: Evidence, found: Findings) -> None:
    failed: dict[tuple[int, int, str], list[Exchange]] = defaultdict(list)
    for one in seen.exchanges:
        if one.errors & RETRIABLE:
            failed[one.link.program, one.link.broker, one.api].append(one)
    for (_, broker, api), those in failed.items():
        busiest = _most_within_a_second([one.at_s for one in those])
        if len(those) > 1:
            problem = f"{busiest} {api} requests to broker {broker} within a second, each with a retriable error"
            most = _MOST_RETRIES * _TIMES_MORE.get(api, 1)
            found.check(busiest <= most, problem, *those[:2])


def _most_within_a_second(times: list[float]) -> int:
    return max((bisect_left(times, time + 1) - number for number, time in enumerate(times)), default=0)


@client_rule("KIP-144", "A client opens connections again with a backoff, not in a hot loop.")
def connections_have_a_backoff(seen: Evidence, found: Findings) -> None:
    opened: dict[tuple[int, int], list[float]] = defaultdict(list)
    for link in seen.links:
        opened[link.program, link.broker].append(link.opened_s)
    for (program, broker), times in opened.items():
        if len(times) > 1:
            busiest = _most_within_a_second(times)
            shown = [one for one in seen.exchanges if (one.link.program, one.link.broker) == (program, broker)]
            problem = f"{busiest} connections to broker {broker} within a second"
            found.check(busiest <= _MOST_CONNECTIONS, problem, *shown[-2:])


@client_rule("Kafka protocol guide", "A request that failed with a retriable error is sent again.")
def retriable_errors_are_retried(seen: Evidence, found: Findings) -> None:
    for number, one in enumerate(seen.exchanges):
        if not one.errors & RETRIABLE or one.responded_s is None:
            continue
        again = any(
            each.api == one.api
            and each.link.program == one.link.program
            and one.at_s < each.at_s < seen.stop_s(one.link)
            for each in seen.exchanges[number + 1 :]
        )
        if again:
            found.ok()
        elif seen.stop_s(one.link) - one.responded_s > _RETRIED_WITHIN_S:
            found.differs(f"{one.api} is not sent again", one)


@client_rule("KIP-951", "After an error about leaders or topics, metadata is requested, if the response has no leader.")
def metadata_is_refreshed(seen: Evidence, found: Findings) -> None:
    metadata = [one for one in seen.exchanges if one.api in ("Metadata", "DescribeTopicPartitions")]
    for one in seen.of("Fetch", "Produce", "ListOffsets"):
        codes = one.errors & _MOVED
        if not codes or one.responded_s is None:
            continue
        topics = getattr(one.response, "responses", None) or getattr(one.response, "topics", ())
        parts = [part for part in seen.partitions(topics) if hasattr(part, "current_leader")]
        leader = any(part.current_leader.leader_id >= 0 for part in parts)
        refreshed = any(
            each.link.program == one.link.program and one.at_s <= each.at_s <= one.responded_s + _RETRIED_WITHIN_S
            for each in metadata
        )
        if refreshed or leader:
            found.ok()
        elif seen.stop_s(one.link) - one.responded_s > _RETRIED_WITHIN_S:
            found.differs(f"no Metadata request after {min(codes).name}", one)


@client_rule("KIP-219", "A client sends nothing to a broker for the throttle time of its response.")
def throttle_time_is_honoured(seen: Evidence, found: Findings) -> None:
    for number, one in enumerate(seen.exchanges):
        throttled_s = getattr(one.response, "throttle_time_ms", 0) / 1000
        since = _THROTTLES_SINCE.get(one.api)
        if throttled_s <= GRACE_S or one.responded_s is None or since is None or one.version < since:
            continue
        early = [
            each
            for each in seen.exchanges[number + 1 :]
            if each.link is one.link
            and one.responded_s + GRACE_S / 2 < each.at_s < one.responded_s + throttled_s - GRACE_S / 2
            and each.at_s < seen.stop_s(one.link)
        ]
        found.check(not early, f"throttled for {throttled_s:g} s, and continues", one, *early[:2])


@client_rule(_DOCS, "A client works again after a fault that has ended.")
def works_again(seen: Evidence, found: Findings) -> None:
    if seen.works_again is not None:
        last = [one for one in seen.exchanges if one.at_s < seen.end_s][-2:]
        found.check(seen.works_again, "no progress after the fault had ended", *last)


@client_rule(_DOCS, "A client runs until it is stopped, whatever retriable errors it gets.")
def keeps_running(seen: Evidence, found: Findings) -> None:
    for run in seen.programs:
        if run.ended_early and seen.may_end:
            continue
        last = [one for one in seen.exchanges if one.link.program == run.number][-2:]
        said = f": {run.output[-1]}" if run.output else ""
        found.check(not run.ended_early, f"the program ended by itself, with status {run.status}{said}", *last)


@client_rule(_DOCS, "A client closes within 10 s after SIGTERM.")
def closes_in_time(seen: Evidence, found: Findings) -> None:
    for run in seen.programs:
        if run.stopped_s is not None and not run.ended_early:
            last = [one for one in seen.exchanges if one.link.program == run.number][-2:]
            found.check(not run.killed, "the program did not end, and was killed", *last)


REQUEST_RULES = rules_in(globals())
