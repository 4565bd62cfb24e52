"""ShareFetch and ShareAcknowledge of embedded brokers (KIP-932), in virtual time."""

from typing import Any

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.core import ClusterCore
from quorate.cluster.share.acknowledge import ACCEPT, GAP, REJECT, RELEASE, RENEW
from quorate.cluster.share.acquire import RECORD_LIMIT
from quorate.cluster.share.partition import SharePartition
from quorate.codecs import Uuid
from quorate.codecs.api.broker import ShareFetchResponse
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.batches import Batch, BatchRecord, read_batches
from quorate.coordinator.results import Pending
from tests.cluster.share.members import Member, abort, initialize, offsets, produce, share_core

LOCK_MS = 30_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def core(clock: ManualClock) -> ClusterCore:
    made = share_core(clock)
    configure(made, "share.auto.offset.reset", "earliest")
    initialize(made, "g")
    return made


def configure(core: ClusterCore, name: str, value: str, group: str = "g") -> None:
    core.state.group_configs[group] = {**core.state.group_configs.get(group, {}), name: value}
    core.group_configs.changed(group)
    core.share_configs.changed()


def in_state(core: ClusterCore, partition: int = 0) -> tuple[int, int, int]:
    """Start offset, end offset and number of batches in flight."""
    led = core.brokers[1].share.find("g", core.topics["t"].id, partition)
    assert led is not None
    return led.share.start_offset, led.share.end_offset, len(led.share.in_flight)


def acknowledged(response: Any) -> list[int]:
    """Error codes of the partitions in a response to ShareAcknowledge."""
    assert response.error_code == 0
    return [one.error_code for topic in response.responses for one in topic.partitions]


# ---- delivery


def test_accepted_records_are_delivered_once(core: ClusterCore) -> None:
    produce(core, 5)
    member = Member(core)
    response = member.fetch(0)
    assert offsets(response) == [(0, 4, 1)]
    assert response.acquisition_lock_timeout_ms == LOCK_MS
    assert acknowledged(member.acknowledge({0: [(0, 4, (ACCEPT,))]})) == [0]
    assert in_state(core) == (5, 5, 0)
    produce(core, 2)
    assert member.acquired(0) == [(5, 6, 1)]


def test_two_members_share_a_partition(core: ClusterCore) -> None:
    produce(core, 5)
    produce(core, 5)
    one, two = Member(core, "m1"), Member(core, "m2")
    assert one.acquired(0, max_records=1) == [(0, 4, 1)]  # whole batches
    assert two.acquired(0) == [(5, 9, 1)]
    assert acknowledged(two.acknowledge({0: [(0, 4, (ACCEPT,))]})) == [ErrorCode.INVALID_RECORD_STATE]


def test_released_records_are_delivered_again_until_the_limit(core: ClusterCore) -> None:
    configure(core, "share.delivery.count.limit", "2")
    produce(core, 1)
    produce(core, 3)
    member = Member(core)
    assert member.acquired(0) == [(0, 3, 1)]
    member.acknowledge({0: [(0, 3, (ACCEPT, RELEASE, REJECT, GAP))]})
    assert member.acquired(0) == [(1, 1, 2)]
    member.acknowledge({0: [(1, 1, (RELEASE,))]})
    assert isinstance(member.fetch(0), Pending)  # archived: it was delivered twice
    assert in_state(core) == (4, 4, 0)


def test_a_request_gets_records_that_it_releases_only_if_there_are_no_others(core: ClusterCore) -> None:
    """A broker stores acknowledgements while it fetches (random requests on 4.4.0, seed 19009)."""
    member = Member(core)
    produce(core, 1)
    assert member.acquired(0) == [(0, 0, 1)]
    produce(core, 1)
    assert offsets(member.fetch(acks={0: [(0, 0, (RELEASE,))]})) == [(1, 1, 1)]
    assert offsets(member.fetch(acks={0: [(1, 1, (RELEASE,))]})) == [(0, 0, 2)]
    assert offsets(member.fetch(acks={0: [(0, 0, (ACCEPT,))]})) == [(1, 1, 2)]
    assert offsets(member.fetch(acks={0: [(1, 1, (RELEASE,))]})) == [(1, 1, 3)]


def test_acknowledgements_do_not_load_a_partition_that_the_same_request_fetches(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seed 19074."""
    produce(core, 1)
    member = Member(core)
    member.fetch(max_records=0)  # opens the session
    (topic,) = member.fetch(acks={0: [(0, 0, (ACCEPT,))]}).responses
    assert [one.acknowledge_error_code for one in topic.partitions] == [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
    assert [one.first_offset for part in topic.partitions for one in part.acquired_records] == [0]


def test_a_request_does_not_acknowledge_the_records_that_it_fetches(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seed 19034."""
    produce(core, 1)
    member = Member(core)
    member.fetch(0, max_records=1)
    member.acknowledge({0: [(0, 0, (RELEASE,))]})
    (topic,) = member.fetch(acks={0: [(0, 0, (ACCEPT,))]}).responses
    assert [one.acknowledge_error_code for one in topic.partitions] == [ErrorCode.INVALID_RECORD_STATE]
    assert [one.delivery_count for part in topic.partitions for one in part.acquired_records] == [2]


def test_records_are_released_when_their_lock_expires(core: ClusterCore, clock: ManualClock) -> None:
    produce(core, 3)
    one, two = Member(core, "m1"), Member(core, "m2")
    assert one.acquired(0) == [(0, 2, 1)]
    clock.advance(LOCK_MS - 100)
    waiting = two.fetch(0)
    assert isinstance(waiting, Pending)
    clock.advance(100)
    assert offsets(waiting.response) == [(0, 2, 2)]
    assert acknowledged(one.acknowledge({0: [(0, 2, (ACCEPT,))]})) == [ErrorCode.INVALID_RECORD_STATE]


def test_a_renewed_lock_lasts_longer(core: ClusterCore, clock: ManualClock) -> None:
    produce(core, 1)
    member = Member(core)
    member.fetch(0)
    clock.advance(LOCK_MS - 1)
    renewed = member.acknowledge({0: [(0, 0, (RENEW,))]}, is_renew_ack=True)
    assert (acknowledged(renewed), renewed.acquisition_lock_timeout_ms) == ([0], LOCK_MS)
    clock.advance(LOCK_MS - 1)
    assert acknowledged(member.acknowledge({0: [(0, 0, (ACCEPT,))]})) == [0]


def test_renewals_are_rejected_in_version_1_without_the_flag_and_if_disabled(core: ClusterCore) -> None:
    produce(core, 1)
    member = Member(core)
    member.fetch(0)
    renew = {0: [(0, 0, (RENEW,))]}
    assert acknowledged(member.acknowledge(renew)) == [ErrorCode.INVALID_REQUEST]
    assert acknowledged(member.acknowledge(renew, version=1)) == [ErrorCode.INVALID_REQUEST]
    configure(core, "share.renew.acknowledge.enable", "false")
    assert acknowledged(member.acknowledge(renew, is_renew_ack=True)) == [ErrorCode.INVALID_RECORD_STATE]


def test_record_limit_splits_batches(core: ClusterCore) -> None:
    produce(core, 10)
    one, two = Member(core, "m1"), Member(core, "m2")
    assert one.acquired(0, share_acquire_mode=RECORD_LIMIT, max_records=3) == [(0, 2, 1)]
    assert two.acquired(0, share_acquire_mode=RECORD_LIMIT, max_records=4) == [(3, 6, 1)]


def test_acquired_batches_have_about_the_batch_size(core: ClusterCore) -> None:
    for _ in range(4):
        produce(core, 5)
    assert Member(core).acquired(0, batch_size=8) == [(0, 9, 1), (10, 19, 1)]


def test_max_record_locks_limit_the_records_in_flight(core: ClusterCore) -> None:
    configure(core, "share.partition.max.record.locks", "100")
    for _ in range(30):
        produce(core, 10)
    member = Member(core)
    assert member.acquired(0) == [(0, 99, 1)]
    waiting = Member(core, "m2").fetch(0)
    assert isinstance(waiting, Pending)
    member.acknowledge({0: [(0, 49, (ACCEPT,))]})
    assert offsets(waiting.response) == [(100, 149, 1)]


def test_records_of_aborted_transactions_are_left_out_if_read_committed(core: ClusterCore) -> None:
    configure(core, "share.isolation.level", "read_committed")
    produce(core, 2)
    produce(core, 3, producer=7)
    produce(core, 2)
    member = Member(core)
    assert member.acquired(0) == [(0, 1, 1)]  # up to the last stable offset
    abort(core, 7)
    assert member.acquired(0) == [(5, 7, 1)]  # 7 is the marker
    member.acknowledge({0: [(0, 1, (ACCEPT,)), (5, 7, (ACCEPT, ACCEPT, GAP))]})
    assert in_state(core) == (8, 8, 0)


def test_records_deleted_from_the_log_are_skipped(core: ClusterCore) -> None:
    produce(core, 5)
    produce(core, 5)
    member = Member(core)
    member.fetch(0, max_records=1)
    member.acknowledge({0: [(0, 4, (RELEASE,))]})
    core.topics["t"].partitions[0].log.delete_before(5)
    assert member.acquired(0) == []  # moves the start offset
    assert in_state(core)[0] == 5
    assert member.acquired(0) == [(5, 9, 1)]


@pytest.mark.parametrize(("reset", "first"), [("latest", 4), ("earliest", 0), ("by_duration:PT1H", 2)])
def test_a_new_group_begins_where_it_is_configured(clock: ManualClock, reset: str, first: int) -> None:
    core = share_core(clock)
    configure(core, "share.auto.offset.reset", reset)
    initialize(core, "g")
    produce(core, 2)
    clock.advance(3_600_001)
    produce(core, 2)
    member = Member(core)
    response = member.fetch(0)
    if isinstance(response, Pending):
        produce(core, 1)
        response = response.response
    assert offsets(response)[0][0] == first


# ---- sessions


def test_a_session_follows_its_epoch(core: ClusterCore) -> None:
    member = Member(core)
    assert member.fetch(0, epoch=3, max_wait_ms=0).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    member.fetch(0, epoch=0)
    assert member.fetch(epoch=2).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert isinstance(member.fetch(epoch=1), Pending)
    accept = {0: [(0, 0, (ACCEPT,))]}
    assert member.acknowledge(accept, epoch=0).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert member.acknowledge(accept, epoch=9).error_code == ErrorCode.INVALID_SHARE_SESSION_EPOCH
    assert Member(core, "other").acknowledge(accept, epoch=1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND
    assert member.fetch(acks=accept, epoch=0).error_code == ErrorCode.INVALID_REQUEST


def test_a_session_remembers_partitions_and_forgets_them(core: ClusterCore) -> None:
    produce(core, 1, 0)
    produce(core, 1, 1)
    member = Member(core)
    response = member.fetch(0, 1, max_records=1)
    assert [one.partition_index for one in response.responses[0].partitions] == [0]
    produce(core, 1, 1)
    later = member.fetch(forget=(0,))
    assert [one.partition_index for one in later.responses[0].partitions] == [1]


def test_partitions_that_are_loaded_after_the_first_with_records_are_reported_later(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seed 606."""
    produce(core, 1, 1)
    member = Member(core)
    member.fetch(max_records=0)  # opens the session
    first = member.fetch(0, 1)  # at epoch 1, a fetch begins with the second partition
    assert [one.partition_index for one in first.responses[0].partitions] == [1]
    produce(core, 1, 1)
    second = member.fetch()
    assert sorted(one.partition_index for one in second.responses[0].partitions) == [0, 1]


def test_partitions_take_turns_without_those_that_do_not_exist(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seed 19057."""
    produce(core, 1, 0)
    produce(core, 1, 1)
    member = Member(core)
    member.fetch(7)  # opens the session
    response = member.fetch(0, 1)  # at epoch 1, a fetch begins with the second of two
    assert sorted(one.partition_index for one in response.responses[0].partitions) == [1, 7]


def test_closing_a_session_releases_its_records(core: ClusterCore) -> None:
    produce(core, 4)
    one, two = Member(core, "m1"), Member(core, "m2")
    one.fetch(0)
    closed = one.fetch(acks={0: [(0, 1, (ACCEPT,))]}, epoch=-1)
    assert [data.acknowledge_error_code for data in closed.responses[0].partitions] == [0]
    assert two.acquired(0) == [(2, 3, 2)]
    assert one.fetch(epoch=-1).error_code == ErrorCode.SHARE_SESSION_NOT_FOUND


def test_a_lost_connection_releases_its_records(core: ClusterCore) -> None:
    produce(core, 2)
    one, two = Member(core, "m1"), Member(core, "m2")
    one.fetch(0)
    waiting = two.fetch(0)
    core.brokers[1].share.connection_closed(one.connection)
    assert offsets(waiting.response) == [(0, 1, 2)]


def test_a_session_whose_fetch_waits_releases_its_records(core: ClusterCore) -> None:
    """Found by a simulation: released records complete that fetch, which changes the session."""
    produce(core, 2)
    produce(core, 2, 1)
    one = Member(core)
    one.fetch(0, 1)  # a fetch returns the records of one partition
    one.fetch()
    assert isinstance(one.fetch(), Pending)
    core.brokers[1].share.connection_closed(one.connection)
    assert Member(core, "m2").acquired(0) == [(0, 1, 2)]
    assert offsets(Member(core, "m3").fetch(1), 1) == [(0, 1, 2)]


def test_sessions_are_limited(clock: ManualClock) -> None:
    core = share_core(clock, **{"group.share.max.share.sessions": 1, "group.share.max.size": 1})
    initialize(core, "g")
    Member(core, "m1").fetch(0)
    refused = Member(core, "m2").fetch(0, max_wait_ms=300)
    assert isinstance(refused, Pending)
    clock.advance(300)
    assert refused.response.error_code == ErrorCode.SHARE_SESSION_LIMIT_REACHED


# ---- waiting


def test_a_fetch_waits_for_records(core: ClusterCore, clock: ManualClock) -> None:
    member = Member(core)
    waiting = member.fetch(0)
    assert isinstance(waiting, Pending)
    produce(core, 2)
    assert offsets(waiting.response) == [(0, 1, 1)]
    empty = member.fetch()
    clock.advance(500)
    assert (empty.response.error_code, empty.response.responses) == (0, ())


def test_acknowledgements_in_a_fetch_are_reported_with_its_records(core: ClusterCore) -> None:
    produce(core, 2)
    member = Member(core)
    member.fetch(0)
    produce(core, 2)
    response = member.fetch(acks={0: [(0, 1, (ACCEPT,))]})
    (data,) = response.responses[0].partitions
    assert (data.acknowledge_error_code, offsets(response)) == (0, [(2, 3, 1)])
    wrong = member.fetch(acks={0: [(0, 1, (ACCEPT,)), (2, 3, (7,))]}, max_wait_ms=0, max_records=0)
    assert [one.acknowledge_error_code for one in wrong.responses[0].partitions] == [ErrorCode.INVALID_REQUEST]


# ---- leaders and errors


def test_another_leader_continues_with_the_stored_state(core: ClusterCore) -> None:
    produce(core, 4)
    member = Member(core)
    assert member.acquired(0) == [(0, 3, 1)]
    member.acknowledge({0: [(0, 3, (ACCEPT, RELEASE, ACCEPT, ACCEPT))]})
    core.stop_broker(1)
    moved = Member(core, "m2").fetch(0, max_wait_ms=0)
    (data,) = moved.responses[0].partitions
    assert (data.error_code, data.current_leader.leader_id) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, 2)
    assert [one.node_id for one in moved.node_endpoints] == [2]
    assert Member(core, "m3", broker=2).acquired(0) == [(1, 1, 2)]


@pytest.mark.parametrize(
    ("fields", "code"),
    [({"group": None}, ErrorCode.INVALID_REQUEST), ({"name": "x" * 37}, ErrorCode.INVALID_REQUEST)],
)
def test_invalid_members_are_rejected(core: ClusterCore, fields: dict[str, Any], code: int) -> None:
    member = Member(core)
    for name, value in fields.items():
        setattr(member, name, value)
    assert member.fetch(0).error_code == code
    assert member.acknowledge({0: [(0, 0, (ACCEPT,))]}).error_code == code


def test_share_groups_need_their_feature(core: ClusterCore) -> None:
    core.change_features({**core.features, "share.version": 0})
    assert Member(core).fetch(0).error_code == ErrorCode.UNSUPPORTED_VERSION


def test_a_request_that_renews_must_not_fetch(core: ClusterCore) -> None:
    assert Member(core).fetch(0, is_renew_ack=True).error_code == ErrorCode.INVALID_REQUEST


# ---- requests that are rejected


def test_a_fetch_without_a_group_id_fails_for_each_partition(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seed 629: the connection was closed."""
    response = Member(core, group="").fetch(0)
    assert [part.error_code for one in response.responses for part in one.partitions] == [
        ErrorCode.UNKNOWN_SERVER_ERROR
    ]


@pytest.mark.parametrize("version", ["4.3.1", "4.4.0"])
def test_until_4_3_a_fetch_fails_as_a_whole_if_a_topic_does_not_exist(clock: ManualClock, version: str) -> None:
    """Random requests on 4.3.1, seeds 22002 and 22003.

    Recorded of brokers: 4.3.1 fails also for topics that are deleted later, until the session
    forgets them, and the next epoch counts. 4.4.0 reports each partition.
    """
    core = share_core(clock, **{"kafka.version": version})
    configure(core, "share.auto.offset.reset", "earliest")
    initialize(core, "g")
    produce(core, 1)
    member = Member(core)
    member.fetch(0, max_records=0)
    topic_id = core.topics["t"].id
    core.delete_topic("t")
    responses = [member.fetch(), member.fetch()]
    member.topic_id = Uuid(b"\1" * 16)
    responses += [member.fetch(0), member.fetch(0, epoch=0, forget=(0,))]
    if version == "4.3.1":
        assert responses == [ShareFetchResponse(error_code=ErrorCode.UNKNOWN_SERVER_ERROR)] * 4
        return
    found = [
        {topic.topic_id: [one.error_code for one in topic.partitions] for topic in response.responses}
        for response in responses
    ]
    deleted = {topic_id: [ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]}
    unknown = {member.topic_id: [ErrorCode.UNKNOWN_TOPIC_ID]}
    assert found == [deleted, deleted, deleted | unknown, unknown]


def test_an_unknown_acquire_mode_is_rejected_if_there_are_partitions(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seeds 615 and 19012."""
    assert Member(core, "m1").fetch(share_acquire_mode=3).error_code == 0
    for most in (500, 0):
        response = Member(core, "m2").fetch(0, epoch=0, share_acquire_mode=3, max_records=most)
        assert response.error_code == ErrorCode.UNKNOWN_SERVER_ERROR


def test_a_negative_number_of_bytes_fails_for_partitions_with_available_records(core: ClusterCore) -> None:
    """Random requests on 4.4.0, seed 19005."""
    produce(core, 1)
    (topic,) = Member(core).fetch(0, max_bytes=-1).responses
    assert [one.error_code for one in topic.partitions] == [ErrorCode.UNKNOWN_SERVER_ERROR]


# ---- dead letter queues (KIP-1191)


def dead_letters(core: ClusterCore, topic: str = "dlq.g") -> list[tuple[bytes | None, dict[str, str]]]:
    """Return values and headers of a queue with one partition."""
    found = core.topics.get(topic)
    batches = () if found is None else [next(read_batches(one.data)) for one in found.partitions[0].log]
    records = [one for batch in batches if isinstance(batch, Batch) for one in batch.records()]
    return [
        (one.value, {name: (value or b"").decode() for name, value in one.headers})
        for one in records
        if isinstance(one, BatchRecord)
    ]


def with_queue(core: ClusterCore, topic: str = "dlq.g", **own: str) -> ClusterCore:
    configure(core, "errors.deadletterqueue.topic.name", topic)
    core.create_topic(topic, partitions=1, config={"errors.deadletterqueue.group.enable": "true"} | own)
    return core


@pytest.mark.parametrize("ends", [REJECT, RELEASE])
def test_undeliverable_records_are_dead_letters(core: ClusterCore, ends: int) -> None:
    configure(with_queue(core), "share.delivery.count.limit", "2")
    configure(core, "errors.deadletterqueue.copy.record.enable", "true")
    produce(core, 2)
    member = Member(core)
    assert member.acquired(0) == [(0, 1, 1)]
    if ends == RELEASE:
        member.acknowledge({0: [(0, 1, (RELEASE,))]})
        assert sum(last - first + 1 for first, last, _ in member.acquired(0)) >= 1
    assert not dead_letters(core)
    assert acknowledged(member.acknowledge({0: [(0, 0, (ends,))]})) == [0]
    ((value, headers),) = dead_letters(core)
    assert value is not None
    assert headers["__dlq.errors.offset"] == "0"
    assert headers["__dlq.errors.delivery.count"] == ("1" if ends == REJECT else "2")
    assert in_state(core)[0] == 1


def test_records_whose_lock_expires_at_the_limit_are_dead_letters(core: ClusterCore, clock: ManualClock) -> None:
    configure(with_queue(core), "share.delivery.count.limit", "2")
    produce(core, 1)
    member = Member(core)
    for _ in range(2):
        assert len(member.acquired(0)) == 1
        assert not dead_letters(core)
        clock.advance(LOCK_MS)
    assert [value for value, _ in dead_letters(core)] == [None]
    assert in_state(core) == (1, 1, 0)


def test_another_leader_continues_to_write_dead_letters(core: ClusterCore, monkeypatch: pytest.MonkeyPatch) -> None:
    with_queue(core)
    produce(core, 3)
    member = Member(core)
    member.fetch(0)
    monkeypatch.setattr(SharePartition, "_bury", lambda share, letters: None)  # as if the leader failed
    member.acknowledge({0: [(0, 2, (ACCEPT, REJECT, ACCEPT))]})
    monkeypatch.undo()
    assert in_state(core)[0] == 1
    core.brokers[1].share.clear()
    Member(core, "m2").fetch(0)
    ((_, headers),) = dead_letters(core)
    assert headers["__dlq.errors.offset"] == "1"
    assert headers["__dlq.errors.message"] == "Offset rejected by client."
    assert in_state(core)[0] == 3


@pytest.mark.parametrize(
    ("topic", "enabled", "problem"),
    [
        ("dlq.g", "false", "errors.deadletterqueue.group.enable=true"),
        ("letters", "true", "errors.deadletterqueue.topic.name.prefix=dlq."),
        ("dlq.missing", None, "errors.deadletterqueue.auto.create.topics.enable=true"),
    ],
)
def test_records_are_archived_if_the_queue_cannot_be_used(
    core: ClusterCore, topic: str, enabled: str | None, problem: str
) -> None:
    configure(core, "errors.deadletterqueue.topic.name", topic)
    if enabled is not None:
        core.create_topic(topic, partitions=1, config={"errors.deadletterqueue.group.enable": enabled})
    produce(core, 1)
    member = Member(core)
    member.fetch(0)
    assert acknowledged(member.acknowledge({0: [(0, 0, (REJECT,))]})) == [0]
    assert dead_letters(core, topic) == []
    assert in_state(core) == (1, 1, 0)
    assert any(problem in note for note in core.reports.notes)
