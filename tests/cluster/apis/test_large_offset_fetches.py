"""OffsetFetch of many partitions runs in turns: 60,000 topics took 0.4 s in one turn (issue 14).

Its response is that of a small one, as of one moment.
"""

from typing import Any

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.apis import Context, offsets
from quorate.cluster.core import ClusterCore
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.turns import at_once
from quorate.codecs import CONSUMER_OFFSETS, Uuid
from quorate.codecs.api import OffsetCommitRequest, OffsetFetchRequest
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics
from quorate.coordinator.results import Pending
from tests.cluster.storage.test_restart import quiet_core

INDEXES = (0, 1, 2, 3, 4, 9)


@pytest.fixture
def core(monkeypatch: pytest.MonkeyPatch) -> ClusterCore:
    monkeypatch.setattr(offsets, "_PARTITIONS_AT_ONCE", 3)
    made = quiet_core(None, ManualClock(), **{"offsets.topic.num.partitions": 1})
    made.internal_topic(CONSUMER_OFFSETS)
    made.reassign(made.topics[CONSUMER_OFFSETS].partitions[0], [1])
    for name in ("t", "u"):
        made.create_topic(name, partitions=5, replicas=1)
    commit(made, 1)
    return made


def ask(core: ClusterCore, request: Any, version: int, *, large: bool) -> Any:
    context = Context(
        api_version=version,
        now_ms=core.clock.now_ms(),
        client_id="",
        client_host="/127.0.0.1",
        connection=None,  # type: ignore[arg-type]
        large=large,
    )
    return HANDLERS[type(request)].handler(core.brokers[1], request, context)


def result(work: Any) -> Any:
    found = at_once(work)
    return found.response if isinstance(found, Pending) else found


def commit(core: ClusterCore, offset: int) -> None:
    partitions = tuple(OffsetCommitRequestPartition(partition_index=one, committed_offset=offset) for one in range(5))
    topics = tuple(OffsetCommitRequestTopic(name=name, partitions=partitions) for name in ("t", "u"))
    response = result(ask(core, OffsetCommitRequest(group_id="g", topics=topics), 7, large=False))
    assert {partition.error_code for topic in response.topics for partition in topic.partitions} == {0}


def request(core: ClusterCore, version: int) -> OffsetFetchRequest:
    if version < 8:
        names = ("t", "nowhere", "u")
        topics = tuple(OffsetFetchRequestTopic(name=name, partition_indexes=INDEXES) for name in names)
        return OffsetFetchRequest(group_id="g", topics=(*topics, OffsetFetchRequestTopic(name="t")))
    ids = (core.topics["t"].id, Uuid(b"\1" * 16), core.topics["u"].id)
    several = tuple(
        OffsetFetchRequestTopics(name=name, topic_id=topic_id, partition_indexes=INDEXES)
        if version >= 10
        else OffsetFetchRequestTopics(name=name, partition_indexes=INDEXES)
        for name, topic_id in zip(("t", "nowhere", "u") if version < 10 else ("", "", ""), ids, strict=True)
    )
    groups = tuple(
        OffsetFetchRequestGroup(group_id=name, topics=topics)
        for name, topics in (("g", several), ("g", None), ("h", several))
    )
    return OffsetFetchRequest(groups=groups)


@pytest.mark.parametrize("version", [1, 2, 7, 8, 10])
def test_an_offset_fetch_in_turns_has_the_response_of_one_at_once(core: ClusterCore, version: int) -> None:
    sent = request(core, version)
    work = ask(core, sent, version, large=True)
    assert len(list(ask(core, sent, version, large=True))) > 6
    assert result(work) == result(ask(core, sent, version, large=False))


@pytest.mark.parametrize("version", [7, 10])
@pytest.mark.parametrize("times", [1, 100])
def test_a_commit_is_seen_completely_or_not_at_all(core: ClusterCore, version: int, times: int) -> None:
    before = 0
    while True:
        work, committed = ask(core, request(core, version), version, large=True), 0
        found: Any = None
        for turn in range(1_000):
            if turn >= before and committed < times:
                committed += 1
                commit(core, turn + 2)
            try:
                next(work)
            except StopIteration as end:
                found = end.value
                break
        groups = [found] if version < 8 else found.groups[:1]
        reported = {
            partition.committed_offset for group in groups for topic in group.topics for partition in topic.partitions
        }
        assert len(reported - {-1}) == 1
        before += 1
        if before > 12:
            return
