"""Commits and deletions of many offsets (issue 14)."""

import itertools
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock
from quorate.cluster.apis import Context
from quorate.cluster.apis import offsets as offsets_api
from quorate.cluster.core import ClusterCore
from quorate.cluster.handlers import HANDLERS
from quorate.cluster.turns import at_once
from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    OffsetCommitRequest,
    TxnOffsetCommitRequest,
)
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from quorate.codecs.batches import read_batches
from quorate.codecs.message import CONSUMER_OFFSETS
from quorate.coordinator import log as coordinator_log
from quorate.coordinator.image import MetadataDelta
from quorate.coordinator.offsets import commit
from quorate.coordinator.offsets.delete import forget_topics
from quorate.coordinator.results import RequestContext
from quorate.coordinator.transactions.records import Status
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.large_requests import SampleTurns, calls_in, core_with_topics, status
from tests.cluster.helpers.wire import Wire
from tests.cluster.storage.test_restart import quiet_core
from tests.cluster.test_limits import eventually


def commit_of(count: int, group_id: str = "g", member_id: str = "", epoch: int = -1) -> OffsetCommitRequest:
    parts = tuple(
        OffsetCommitRequestPartition(
            partition_index=index, committed_offset=index, committed_metadata="x" * (index % 3)
        )
        for index in range(count)
    )
    return OffsetCommitRequest(
        group_id=group_id,
        member_id=member_id,
        generation_id_or_member_epoch=epoch,
        topics=(OffsetCommitRequestTopic(name="t", partitions=parts),),
    )


def written_commits(core: ClusterCore) -> list[Any]:
    """Return offset, key and value of each record of `__consumer_offsets`."""
    commits = []
    for partition in core.topics[CONSUMER_OFFSETS].partitions:
        for stored in partition.log:
            batch = next(read_batches(stored.data))
            commits += [(record.offset, record.key, record.value) for record in batch.records()]  # type: ignore[union-attr]
    return commits


@pytest.mark.parametrize("transactional", [False, True])
def test_a_commit_of_many_offsets_is_built_and_encoded_in_turns(
    cluster: EmbeddedCluster,
    sample_turns: SampleTurns,
    monkeypatch: pytest.MonkeyPatch,
    transactional: bool,
) -> None:
    """20,000 partitions blocked all requests for 0.5 s."""
    core = core_with_topics(cluster, 900)
    cluster.call(lambda: core.internal_topic(CONSUMER_OFFSETS))
    partition = core.groups.partition_for("g")
    assert partition is not None
    producer_id, epoch = cluster.call(lambda: core.transactions.init_producer_id("x", 60_000, -1, -1))
    cluster.call(
        lambda: core.transactions.add_partitions("x", producer_id, epoch, [(CONSUMER_OFFSETS, partition.index)])
    )
    built: list[int] = []
    encoded: list[int] = []
    build, encode = commit.offset_commit, coordinator_log.encode_record

    def building(*arguments: Any, **named: Any) -> Any:
        built.append(0)
        return build(*arguments, **named)

    def encoding(record: Any) -> Any:
        encoded.append(0)
        return encode(record)

    monkeypatch.setattr(commit, "offset_commit", building)
    monkeypatch.setattr(coordinator_log, "encode_record", encoding)
    samples = sample_turns(lambda: (len(built), len(encoded), sum(offset.log.next_offset for offset in offsets)))
    offsets = core.topics[CONSUMER_OFFSETS].partitions
    with Wire(core.brokers[1].port) as wire:
        if transactional:
            response = wire.request(transactional_commit_of(900, producer_id, epoch), 3)
        else:
            response = wire.request(commit_of(900), 8)
    assert {result.error_code for topic in response.topics for result in topic.partitions} == {ErrorCode.NONE}
    assert [result.partition_index for result in response.topics[0].partitions] == list(range(900))
    samples.append((len(built), len(encoded), sum(offset.log.next_offset for offset in offsets)))
    assert samples[-1] == (900, 900, 900)
    for earlier, later in itertools.pairwise(samples):
        assert later[0] - earlier[0] <= 1
        assert later[1] - earlier[1] <= 1
    assert {sample[2] for sample in samples} == {0, 900}  # written at once
    if transactional:
        cluster.call(lambda: core.transactions.end("x", producer_id, epoch, commit=True, bump_epoch=False))
        eventually(lambda: status(core) is Status.COMPLETE_COMMIT)
    shard = core.groups.runtimes()[partition.index].shard
    assert {index: shard.state.offsets.get("g", "t", index).value.offset for index in range(900)} == {
        index: index for index in range(900)
    }
    assert not core.failures


@pytest.mark.parametrize("changes", ["not", "once", "always"])
def test_a_commit_built_in_many_turns_equals_one_built_in_one_turn(
    changes: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while topics are created between the turns."""
    written = []
    for in_turns in (False, True):
        with monkeypatch.context() as patched:
            patched.setattr(offsets_api, "_PARTITIONS_AT_ONCE", 200 if in_turns else 10_000)
            core = quiet_core(None, ManualClock())
            core.create_topic("t", partitions=300)
            core.internal_topic(CONSUMER_OFFSETS)
            context = Context(api_version=9, now_ms=0, client_id="", client_host="/127.0.0.1", connection=None)  # type: ignore[arg-type]
            leader = core.groups.partition_for("g").leader  # type: ignore[union-attr]
            work: Any = HANDLERS[OffsetCommitRequest].handler(core.brokers[leader], commit_of(300), context)
            created = 0
            while True:
                try:
                    next(work)
                except StopIteration as end:
                    response = end.value
                    break
                if in_turns and (changes == "always" or (changes == "once" and not created)):
                    created += 1
                    core.create_topic(f"new-{created}", partitions=1) if created < 2_000 else None
            written.append((written_commits(core), getattr(response, "response", response)))
    assert written[0] == written[1]
    assert len(written[0][0]) == 300


def transactional_commit_of(count: int, producer_id: int, epoch: int) -> TxnOffsetCommitRequest:
    parts = tuple(
        TxnOffsetCommitRequestPartition(partition_index=index, committed_offset=index, committed_metadata="")
        for index in range(count)
    )
    return TxnOffsetCommitRequest(
        transactional_id="x",
        group_id="g",
        producer_id=producer_id,
        producer_epoch=epoch,
        topics=(TxnOffsetCommitRequestTopic(name="t", partitions=parts),),
    )


def test_the_commit_of_a_member_that_leaves_while_it_is_built_is_rejected() -> None:
    core = quiet_core(None, ManualClock())
    core.create_topic("t", partitions=300)
    core.internal_topic(CONSUMER_OFFSETS)
    leader = core.groups.partition_for("g").leader  # type: ignore[union-attr]
    member = "AAAAAAAAAAAAAAAAAAAAAA"

    def heartbeat(epoch: int) -> Any:
        joining = {"rebalance_timeout_ms": 1_000, "topic_partitions": (), "subscribed_topic_names": ("t",)}
        request = ConsumerGroupHeartbeatRequest(
            group_id="g", member_id=member, member_epoch=epoch, **(joining if epoch == 0 else {})
        )
        return core.groups.request(leader, "g", request, RequestContext(api_version=1, now_ms=core.clock.now_ms()))

    joined = heartbeat(0)
    context = Context(
        api_version=9, now_ms=core.clock.now_ms(), client_id="", client_host="/127.0.0.1", connection=None
    )  # type: ignore[arg-type]
    request = commit_of(300, member_id=member, epoch=joined.member_epoch)
    work: Any = HANDLERS[OffsetCommitRequest].handler(core.brokers[leader], request, context)
    for _ in range(500):
        next(work)
    assert not heartbeat(-1).error_code
    response = at_once(work)
    response = getattr(response, "response", response)
    assert {partition.error_code for topic in response.topics for partition in topic.partitions} == {
        ErrorCode.UNKNOWN_MEMBER_ID
    }


def test_deleting_topics_takes_no_call_for_each_group_and_topic() -> None:
    """10,000 topics held up everything for 25 s, with offsets of 1,000 groups."""
    groups, topics = 60, 60
    with EmbeddedCluster(properties={**QUICK, "offsets.topic.num.partitions": 1}) as cluster:
        core = cluster.core
        for name in ("t", *(f"d{number}" for number in range(topics))):
            cluster.call(lambda name=name: core.create_topic(name, partitions=1))
        cluster.call(lambda: core.internal_topic(CONSUMER_OFFSETS))
        context = RequestContext(api_version=8, now_ms=cluster.call(core.clock.now_ms))
        for number in range(groups):
            request = commit_of(1, f"g{number}")
            cluster.call(lambda request=request: core.groups.request(1, request.group_id, request, context))
        (runtime,) = core.groups.runtimes().values()
        deleted = [topic for name, topic in core.image.topics.items() if name.startswith("d")]
        delta = MetadataDelta(changed=frozenset(), created=frozenset(), deleted=tuple(deleted))
        calls, result = calls_in(cluster, lambda: forget_topics(runtime.shard, delta, 0))
        assert (len(deleted), result.records) == (topics, [])
        assert calls < 20 * (groups + topics)
