"""Fetches of many partitions run in turns: 60,000 of them took 0.4 s in one turn (issue 14).

Their responses are those of small fetches, whatever changes between the turns.
"""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from quorate.cluster import ManualClock, fetch_sessions, turns
from quorate.cluster.apis import Context
from quorate.cluster.core import ClusterCore
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.turns import at_once
from quorate.codecs import Uuid
from quorate.codecs.api.broker import FetchRequest, FetchResponse
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic, ForgottenTopic
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.results import Pending
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_log import batch

PARTITIONS = 6


@pytest.fixture(autouse=True)
def one_partition_in_a_turn(monkeypatch: pytest.MonkeyPatch, short_turns: None) -> None:
    monkeypatch.setattr(turns, "_CHUNK_SIZE", 1)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def core(clock: ManualClock) -> ClusterCore:
    made = quiet_core(None, clock)
    made.create_topic("t", assignment=[[1]] * PARTITIONS)
    return made


def fetch(
    core: ClusterCore, request: FetchRequest, *, version: int = 12, large: bool = True, connection: Any = None
) -> Any:
    context = Context(
        api_version=version,
        now_ms=core.clock.now_ms(),
        client_id="",
        client_host="/127.0.0.1",
        connection=connection or SimpleNamespace(open=True, on_lost=None, host="/127.0.0.1"),
        large=large,
    )
    return HANDLERS[FetchRequest].handler(core.brokers[1], request, context)


def request(
    *indexes: int,
    topic: str | Uuid = "t",
    forgotten: tuple[int, ...] = (),
    session: int = 0,
    epoch: int = -1,
    **more: Any,
) -> FetchRequest:
    some = tuple(FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1 << 20) for index in indexes)
    named = {"topic": topic} if isinstance(topic, str) else {"topic_id": topic}
    return FetchRequest(
        max_wait_ms=more.pop("max_wait_ms", 0),
        min_bytes=1,
        topics=(FetchTopic(**named, partitions=some),) if some else (),
        forgotten_topics_data=(ForgottenTopic(**named, partitions=forgotten),) if forgotten else (),
        session_id=session,
        session_epoch=epoch,
        **more,
    )


def append(core: ClusterCore, index: int) -> None:
    core.topics["t"].partitions[index].log.append(batch(1), leader_epoch=0, now_ms=1)


def reported(response: FetchResponse) -> list[int]:
    return [partition.partition_index for topic in response.responses for partition in topic.partitions]


@pytest.mark.parametrize("version", [4, 12, 18])
def test_a_fetch_in_turns_has_the_response_of_one_at_once(version: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch_sessions, "_LARGE", -1)
    played = []
    for large in (False, True):
        core = quiet_core(None, ManualClock())
        topic = core.create_topic("t", assignment=[[1]] * PARTITIONS)
        name = "t" if version < 13 else topic.id
        strange = "u" if version < 13 else Uuid(b"\1" * 16)
        everything = range(PARTITIONS + 1)
        responses: list[Any] = []

        def play(sent: FetchRequest, *, core: Any = core, large: bool = large, responses: Any = responses) -> Any:
            monkeypatch.setattr(fetch_sessions, "_LARGE", -1 if large else 1_000)
            work = fetch(core, sent, version=version, large=large)
            turned = []
            while large:
                try:
                    turned.append(next(work))
                except StopIteration as end:
                    work = end.value
                    break
            assert not large or sent.session_id or len(turned) > len(reported(work))
            responses.append(work)
            return work

        append(core, 1)
        play(request(*everything, topic=name))
        play(request(*everything, topic=name, max_bytes=1))
        play(request(0, topic=strange))
        core.brokers[1].cluster.topics["t"].partitions[2].leader = 2
        play(request(*everything, topic=name))
        core.topics["t"].partitions[2].leader = 1
        if version >= 7:
            session = play(request(*range(PARTITIONS), topic=name, epoch=0)).session_id
            assert session
            append(core, 3)
            play(request(topic=name, session=session, epoch=1))
            play(request(PARTITIONS, topic=name, forgotten=(0, 1, 3), session=session, epoch=2))
            play(request(topic=name, session=session, epoch=2))
            core.delete_topic("t")
            play(request(topic=name, session=session, epoch=3))
            play(request(topic=name, forgotten=(2, 4, 5, PARTITIONS), session=session, epoch=4))
            play(request(topic=name, session=session, epoch=5))
        played.append(responses)
    assert played[0] == played[1]


def test_a_small_request_of_a_large_session_runs_in_turns(core: ClusterCore, monkeypatch: pytest.MonkeyPatch) -> None:
    session = at_once(fetch(core, request(*range(PARTITIONS), epoch=0))).session_id
    assert isinstance(fetch(core, request(session=session, epoch=1), large=False), FetchResponse)
    monkeypatch.setattr(fetch_sessions, "_LARGE", PARTITIONS - 1)
    assert len(list(fetch(core, request(session=session, epoch=2), large=False))) >= PARTITIONS


@pytest.mark.parametrize("before", range(4 * PARTITIONS))
def test_concurrent_requests_of_a_session_run_one_after_another(core: ClusterCore, before: int) -> None:
    """The second arrives after each turn of the first: it sees all changes, or an error."""
    session = at_once(fetch(core, request(0, epoch=0))).session_id
    first = fetch(core, request(*range(1, PARTITIONS), session=session, epoch=1))
    responses: list[FetchResponse] = []
    for _ in range(before):
        try:
            next(first)
        except StopIteration as end:
            responses.append(end.value)
            break
    second = fetch(core, request(forgotten=(1,), session=session, epoch=2), large=False)
    responses += [second if isinstance(second, FetchResponse) else at_once(second)]
    *_, other = responses
    codes = [other.error_code]
    if len(responses) == 1:
        codes.insert(0, at_once(first).error_code)
    assert codes in (
        [ErrorCode.NONE, ErrorCode.NONE],
        [ErrorCode.INVALID_FETCH_SESSION_EPOCH, ErrorCode.NONE],
        [ErrorCode.NONE, ErrorCode.INVALID_FETCH_SESSION_EPOCH],
    )
    (known,) = core.brokers[1].fetch_sessions._sessions.values()
    assert {index for _, index in known.partitions} == set(range(PARTITIONS)) - ({1} if not codes[1] else set())
    assert not known.changes.pending


def test_a_session_that_ends_during_a_request_serves_only_that_request(core: ClusterCore) -> None:
    session = at_once(fetch(core, request(0, epoch=0))).session_id
    work = fetch(core, request(1, 2, 3, session=session, epoch=1))
    for _ in range(6):
        next(work)
    at_once(fetch(core, request(0, session=session, epoch=-1)))
    assert at_once(work).error_code == ErrorCode.NONE
    gone = at_once(fetch(core, request(session=session, epoch=2)))
    assert gone.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_topics_that_are_deleted_between_turns_are_unknown(core: ClusterCore) -> None:
    work = fetch(core, request(*range(PARTITIONS)))
    for _ in range(PARTITIONS + 3):  # the request's partitions, then some reads
        next(work)
    core.delete_topic("t")
    codes = [partition.error_code for partition in at_once(work).responses[0].partitions]
    assert codes == sorted(codes)
    assert set(codes) == {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION}


def everywhere(core: ClusterCore) -> int:
    return sum(len(partition.log.waiting) for partition in core.topics["t"].partitions)


def enough(core: ClusterCore, clock: ManualClock, connection: Any) -> None:
    append(core, 4)


def time(core: ClusterCore, clock: ManualClock, connection: Any) -> None:
    clock.advance(1_000)


@pytest.mark.parametrize(("event", "expected"), [(enough, 1), (time, 0)])
def test_a_waiting_fetch_completes_with_enough_bytes_or_after_max_wait_ms(
    core: ClusterCore, clock: ManualClock, event: Callable[..., None], expected: int
) -> None:
    connection = SimpleNamespace(open=True, on_lost=None)
    pending = at_once(fetch(core, request(*range(PARTITIONS), max_wait_ms=1_000), connection=connection))
    assert isinstance(pending, Pending)
    assert not pending.done
    assert everywhere(core) == PARTITIONS
    event(core, clock, connection)
    assert pending.done
    assert sum(bool(partition.records) for partition in pending.response.responses[0].partitions) == expected
    assert everywhere(core) == 0
    assert connection.on_lost is None


def test_a_disconnected_client_leaves_no_waiting_fetch(core: ClusterCore, clock: ManualClock) -> None:
    connection = SimpleNamespace(open=True, on_lost=None)
    pending = at_once(fetch(core, request(*range(PARTITIONS), max_wait_ms=1_000), connection=connection))
    connection.open = False
    connection.on_lost()
    assert everywhere(core) == 0
    clock.advance(1_000)
    assert not pending.done


def test_a_client_that_disconnects_before_its_fetch_waits_leaves_no_waiting_fetch(core: ClusterCore) -> None:
    connection = SimpleNamespace(open=True, on_lost=None)
    work = fetch(core, request(*range(PARTITIONS), max_wait_ms=1_000), connection=connection)
    while everywhere(core) < 2:
        next(work)
    connection.open = False
    assert not at_once(work).done
    assert everywhere(core) == 0


@pytest.mark.parametrize("before", range(4 * PARTITIONS))
def test_a_fetch_does_not_wait_for_records_appended_between_turns(core: ClusterCore, before: int) -> None:
    work = fetch(core, request(*range(PARTITIONS), max_wait_ms=1_000))
    found: Any = None
    for _ in range(before):
        try:
            next(work)
        except StopIteration as end:
            found = end.value
            break
    append(core, 0)
    append(core, PARTITIONS - 1)
    if found is None:
        found = at_once(work)
    response = found.response if isinstance(found, Pending) else found
    assert response is not None
    assert {0, PARTITIONS - 1} & {
        partition.partition_index for partition in response.responses[0].partitions if partition.records
    }
    assert everywhere(core) == 0
