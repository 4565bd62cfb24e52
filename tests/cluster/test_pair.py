"""The embedded cluster compared with a real broker: responses to raw requests, field by field.

`bench/cluster_differential.py` continues with other seeds. The module is longer than others because
its tests share two real brokers.
"""

from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from quorate.cluster.waiting import wait_for
from quorate.codecs.api import (
    AlterShareGroupOffsetsRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeShareGroupOffsetsRequest,
    JoinGroupRequest,
    ListGroupsRequest,
    OffsetFetchRequest,
    ShareGroupHeartbeatRequest,
    StreamsGroupHeartbeatRequest,
    TxnOffsetCommitRequest,
)
from quorate.codecs.api.alter_share_group_offsets import (
    AlterShareGroupOffsetsRequestPartition,
    AlterShareGroupOffsetsRequestTopic,
)
from quorate.codecs.api.broker import (
    AddPartitionsToTxnRequest,
    AlterClientQuotasRequest,
    AlterUserScramCredentialsRequest,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeClientQuotasRequest,
    DescribeConfigsRequest,
    DescribeTransactionsRequest,
    DescribeUserScramCredentialsRequest,
    FetchRequest,
    IncrementalAlterConfigsRequest,
    InitProducerIdRequest,
    ListConfigResourcesRequest,
    ListOffsetsRequest,
    OffsetForLeaderEpochRequest,
    ShareAcknowledgeRequest,
    ShareFetchRequest,
)
from quorate.codecs.api.broker import alter_client_quotas_request as request_structs
from quorate.codecs.api.broker.add_partitions_to_txn import AddPartitionsToTxnTransaction
from quorate.codecs.api.broker.alter_user_scram_credentials import ScramCredentialDeletion, ScramCredentialUpsertion
from quorate.codecs.api.broker.create_topics import CreatableTopic, CreatableTopicConfig
from quorate.codecs.api.broker.describe_client_quotas import ComponentData
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.describe_user_scram_credentials import UserName
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from quorate.codecs.api.broker.list_offsets import ListOffsetsPartition, ListOffsetsTopic
from quorate.codecs.api.broker.offset_for_leader_epoch import OffsetForLeaderPartition, OffsetForLeaderTopic
from quorate.codecs.api.broker.share_acknowledge import AcknowledgePartition, AcknowledgeTopic
from quorate.codecs.api.broker.share_fetch import AcknowledgementBatch
from quorate.codecs.api.broker.share_fetch import FetchPartition as ShareFetchPartition
from quorate.codecs.api.broker.share_fetch import FetchTopic as ShareFetchTopic
from quorate.codecs.api.describe_share_group_offsets import DescribeShareGroupOffsetsRequestGroup
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.offset_fetch import OffsetFetchRequestGroup
from quorate.codecs.api.streams_group_heartbeat import KeyValue, Subtopology, TopicInfo, Topology
from quorate.codecs.api.txn_offset_commit import TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic
from quorate.codecs.message import Message
from tests.bench.cases import check_cases, run_here
from tests.broker.broker import NEWEST
from tests.broker.fixtures import need_broker
from tests.cluster.helpers import pair_play
from tests.cluster.helpers.pair import Pair
from tests.cluster.helpers.pair_gaps import GAPS, Gap
from tests.cluster.helpers.pair_play import Duel, duel
from tests.cluster.helpers.pair_share_values import share_members, share_records
from tests.cluster.helpers.pair_themes import CONVERSIONS, SHARES, STREAMS, first_topics
from tests.cluster.helpers.wire import Wire
from tests.extent import portion
from tests.integration.test_versions import recorded

STEPS = 30


@pytest.fixture(scope="module")
def both() -> Iterator[Duel]:
    need_broker()
    with duel() as found:
        yield found


@pytest.mark.parametrize("seed", range(1, 1 + portion(10, usual=2)))
def test_random_requests_get_the_responses_of_a_real_broker(both: Duel, seed: int) -> None:
    both.play(seed, STEPS)


def test_the_sweep_runs_and_prints_its_cases(
    both: Duel, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Compares the brokers of this file: starting others takes most of the time."""
    monkeypatch.setattr(pair_play, "duel", lambda version: nullcontext(both))
    with pytest.raises(SystemExit, match=r"^0$"):
        run_here("cluster_differential", monkeypatch, "--seed=11")  # none of those above
    check_cases("cluster_differential", capsys.readouterr().out)


@pytest.fixture(scope="module")
def newest() -> Iterator[Duel]:
    need_broker(NEWEST)
    with duel(NEWEST) as found:
        yield found


@pytest.mark.parametrize("seed", range(1, 1 + portion(6, usual=2)))
def test_random_requests_get_the_responses_of_a_broker_of_the_newest_release(newest: Duel, seed: int) -> None:
    newest.play(seed, STEPS)


@pytest.mark.parametrize("seed", range(1001, 1001 + portion(8, usual=2)))
def test_random_requests_of_streams_groups_get_the_responses_of_a_broker(newest: Duel, seed: int) -> None:
    newest.play(seed, STEPS, STREAMS)


BAD_NAMES = ("__consumer_offsets", "__transaction_state", "__share_group_state", "", ".", "..", "a b", "é", "x" * 250)


@pytest.mark.parametrize("name", [*BAD_NAMES, "__cluster_metadata", "x" * 249])
@pytest.mark.parametrize("place", ["source", "sink", "repartition", "changelog"])
def test_topic_names_of_a_topology_are_checked_as_by_a_real_broker(newest: Duel, name: str, place: str) -> None:
    topics = {one: f"names-{one}" for one in ("source", "sink", "repartition", "changelog")} | {place: name}
    subtopology = Subtopology(
        subtopology_id="0",
        source_topics=(topics["source"],),
        repartition_sink_topics=(topics["sink"],),
        repartition_source_topics=(TopicInfo(name=topics["repartition"]),),
        state_changelog_topics=(TopicInfo(name=topics["changelog"]),),
    )
    join = streams_join(f"names-{place}-{name}", Topology(subtopologies=(subtopology,)))
    pair = Pair(*newest.ports, ids=newest.ids)
    ours, _, found = pair.request(join, 1)
    pair.close()
    assert not found
    assert (ours.error_code == ErrorCode.STREAMS_INVALID_TOPOLOGY) is (name in BAD_NAMES)


def streams_join(group: str, topology: Topology) -> StreamsGroupHeartbeatRequest:
    return StreamsGroupHeartbeatRequest(
        group_id=group,
        member_id="m",
        process_id="p",
        rebalance_timeout_ms=60_000,
        topology=topology,
        active_tasks=(),
        standby_tasks=(),
        warmup_tasks=(),
    )


@pytest.mark.parametrize(
    "changelog",
    [
        TopicInfo(name="failing-replicas", replication_factor=3),
        TopicInfo(name="failing-config", topic_configs=(KeyValue(key="no.such.config", value="1"),)),
        TopicInfo(name="failing_d.1"),
    ],
    ids=["replication factor", "config", "collision"],
)
def test_internal_topics_that_cannot_be_created_are_reported_as_by_a_real_broker(
    newest: Duel, changelog: TopicInfo
) -> None:
    pair = Pair(*newest.ports, ids=newest.ids)
    for name in ("failing-in", "failing.d.1"):
        _make_topic(pair, name)
    subtopology = Subtopology(subtopology_id="0", source_topics=("failing-in",), state_changelog_topics=(changelog,))
    join = streams_join(f"{changelog.name}-app", Topology(subtopologies=(subtopology,)))
    ours, _, found = pair.request(join, 1)
    assert not found
    beat = replace(join, member_epoch=ours.member_epoch, topology=None, rebalance_timeout_ms=-1)
    texts = []
    for port in newest.ports:
        with Wire(port) as wire:
            wait_for("the error of the topic", lambda wire=wire: "failed" in _detail(wire.request(beat, 1)), 60_000)
            texts.append(_detail(wire.request(beat, 1)))
    pair.close()
    assert texts[0].partition("(")[0] == texts[1].partition("(")[0]
    assert f"Creation failed: {changelog.name} (" in texts[0]


def _detail(response: Any) -> str:
    return next(one.status_detail for one in response.status if one.status_code == 3)


@pytest.mark.parametrize("seed", range(101, 101 + portion(6, usual=2)))
def test_random_requests_of_share_groups_get_the_responses_of_a_broker(newest: Duel, seed: int) -> None:
    """A difference has the seed; `bench/cluster_differential.py --theme shares` runs more."""
    newest.play(seed, STEPS, replace(SHARES, begins=SHARES.begins[:2]))


@pytest.mark.parametrize("seed", range(53004, 53004 + portion(6, usual=2)))
def test_random_requests_of_groups_with_members_of_both_protocols_get_the_responses_of_a_broker(
    newest: Duel, seed: int
) -> None:
    newest.play(seed, STEPS, CONVERSIONS)


def test_a_broker_of_the_newest_release_reports_the_recorded_versions(newest: Duel) -> None:
    with Wire(newest.ports[1]) as wire:
        response = wire.request(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 4)
    expected = recorded(NEWEST)
    assert {str(one.api_key): [one.min_version, one.max_version] for one in response.api_keys} == expected["api_keys"]
    supported = {one.name: [one.min_version, one.max_version] for one in response.supported_features}
    assert supported == expected["features_4"]["supported"]


def test_internal_configs_of_groups_are_described_only_if_they_are_set(newest: Duel) -> None:
    """Since 4.4; bench/cluster_differential.py, seed 218"""
    pair = Pair(*newest.ports, ids=newest.ids)
    name = "share.assignor.offload.enable"
    resource = DescribeConfigsResource(resource_type=32, resource_name="offloads", configuration_keys=None)
    lists = []
    try:
        for value in (None, "false"):
            if value is not None:
                config = AlterableConfig(name=name, config_operation=0, value=value)
                change = AlterConfigsResource(resource_type=32, resource_name="offloads", configs=(config,))
                pair.request(IncrementalAlterConfigsRequest(resources=(change,)), 1)
            ours, _, found = pair.request(DescribeConfigsRequest(resources=(resource,)), 4)
            assert not found
            lists.append([config.name for config in ours.results[0].configs])
    finally:
        pair.close()
    assert [name in names for names in lists] == [False, True]


@pytest.mark.parametrize(
    ("name", "value"),
    [("log.cleanup.policy", "compact, compact"), ("ssl.cipher.suites", "a,b,a"), ("config.providers", "a,a")],
)
def test_repeated_elements_of_a_brokers_list_are_rejected_since_4_4(
    both: Duel, newest: Duel, name: str, value: str
) -> None:
    config = AlterableConfig(name=name, config_operation=0, value=value)
    change = AlterConfigsResource(resource_type=4, resource_name="1", configs=(config,))
    codes = []
    for brokers in (both, newest):
        pair = Pair(*brokers.ports, ids=brokers.ids)
        ours, _, found = pair.request(IncrementalAlterConfigsRequest(resources=(change,), validate_only=True), 1)
        pair.close()
        assert not found
        codes.append(ours.responses[0].error_code)
    assert codes == [0, 0 if name == "config.providers" else ErrorCode.INVALID_REQUEST]


@pytest.mark.parametrize(
    ("name", "operation", "value"),
    [
        ("streams.rack.aware.assignment.tags", 0, "zone,zone"),
        ("streams.rack.aware.assignment.tags", 2, "zone"),  # the controller does not know that it is a list
        ("streams.rack.aware.assignment.tags", 3, "zone"),
        ("streams.assignor.name", 0, "unknown"),
        ("streams.assignor.name", 0, "Sticky"),
    ],
)
def test_invalid_configs_of_a_streams_group_are_rejected(newest: Duel, name: str, operation: int, value: str) -> None:
    """bench/cluster_differential.py, theme "configs", seeds 32003 and 32013"""
    config = AlterableConfig(name=name, config_operation=operation, value=value)
    change = AlterConfigsResource(resource_type=32, resource_name="g", configs=(config,))
    pair = Pair(*newest.ports, ids=newest.ids)
    ours, theirs, found = pair.request(IncrementalAlterConfigsRequest(resources=(change,), validate_only=True), 1)
    pair.close()
    assert not found
    assert ours.responses[0].error_code == ErrorCode.INVALID_CONFIG
    assert ours.responses[0].error_message == theirs.responses[0].error_message


@pytest.mark.parametrize("value", ["soon", "CreateTime"])
def test_too_many_partitions_of_a_request_fail_all_of_its_topics(both: Duel, newest: Duel, value: str) -> None:
    """bench/cluster_differential.py on 4.4.0, seed 36517: until 4.3 the sum overflows.

    Then the topic's own error is reported, or the controller fails over the number of partitions.
    """
    configs = (CreatableTopicConfig(name="message.timestamp.type", value=value),)
    most = CreatableTopic(name="most", num_partitions=2**31 - 1, replication_factor=1, configs=configs)
    other = CreatableTopic(name=f"next-to-{value}", num_partitions=1, replication_factor=1)
    codes = []
    for brokers in (both, newest):
        pair = Pair(*brokers.ports, ids=brokers.ids)
        ours, _, found = pair.request(CreateTopicsRequest(topics=(most, other), timeout_ms=5000), 7)
        pair.settle()
        pair.close()
        assert not found
        codes.append([topic.error_code for topic in ours.topics])
    before = [ErrorCode.INVALID_CONFIG, 0] if value == "soon" else [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert codes == [before, [ErrorCode.POLICY_VIOLATION] * 2]


@pytest.mark.parametrize("release", ["both", "newest"])
def test_configs_of_a_group_are_stored_but_not_applied_if_a_number_has_spaces(
    release: str, request: pytest.FixtureRequest
) -> None:
    """bench/cluster_differential.py on 4.4.0, theme "configs", seed 32022.

    The others of the change are not applied either.
    """
    brokers: Duel = request.getfixturevalue(release)
    pair = Pair(*brokers.ports, ids=brokers.ids)
    interval_ms, timeout_ms, delay_ms = (
        "consumer.heartbeat.interval.ms",
        "consumer.session.timeout.ms",
        "streams.initial.rebalance.delay.ms",  # without limits, and so no number that is parsed again
    )
    look = DescribeConfigsResource(resource_type=32, resource_name="spaces", configuration_keys=None)
    heartbeat = ConsumerGroupHeartbeatRequest(
        group_id="spaces", member_id="m", member_epoch=0, rebalance_timeout_ms=1000, topic_partitions=()
    )
    received = []
    changes: tuple[dict[str, str | None], ...] = (
        {interval_ms: "\t5000"},
        {interval_ms: "6000"},
        {interval_ms: " 7000 "},
        {interval_ms: "8000", timeout_ms: "46000 "},
        {timeout_ms: None},
        {interval_ms: "9000", delay_ms: " 30 "},
    )
    for configs in changes:
        altered = tuple(
            AlterableConfig(name=name, config_operation=0 if value else 1, value=value)
            for name, value in configs.items()
        )
        change = AlterConfigsResource(resource_type=32, resource_name="spaces", configs=altered)
        ours, _, found = pair.request(IncrementalAlterConfigsRequest(resources=(change,)), 1)
        assert not found
        assert ours.responses[0].error_code == 0
        pair.settle()
        assert not pair.request(DescribeConfigsRequest(resources=(look,), include_synonyms=True), 4)[2]
        assert not pair.request(ListConfigResourcesRequest(resource_types=(32,)), 1)[2]
        ours, _, found = pair.request(replace(heartbeat, subscribed_topic_names=("spaces",)), 1)
        assert not found
        received.append(ours.heartbeat_interval_ms)
    pair.close()
    assert received == [5_000, 6_000, 6_000, 6_000, 8_000, 9_000]


@pytest.mark.parametrize("field", ["instance_id", "task_offsets", "task_end_offsets"])
def test_streams_members_have_instance_ids_and_offsets_since_4_4(both: Duel, newest: Duel, field: str) -> None:
    """bench/cluster_differential.py on 4.3.1, seed 31202"""
    fields: dict[str, object] = {field: "i" if field == "instance_id" else ()}
    request = StreamsGroupHeartbeatRequest(group_id="no-streams", member_id="m", member_epoch=1, **fields)
    codes = []
    for brokers in (both, newest):
        pair = Pair(*brokers.ports, ids=brokers.ids)
        ours, _, found = pair.request(request, 0)
        pair.close()
        assert not found
        codes.append(ours.error_code)
    assert codes == [ErrorCode.INVALID_REQUEST, ErrorCode.GROUP_ID_NOT_FOUND]


def test_streams_groups_that_are_not_ready_have_another_name_in_filters(newest: Duel) -> None:
    """bench/cluster_differential.py on 4.4.0, seeds 42002 and 50073"""
    pair = Pair(*newest.ports, ids=newest.ids)
    topology = Topology(subtopologies=(Subtopology(subtopology_id="0", source_topics=("missing-source",)),))
    assert not pair.request(streams_join("not-ready", topology), 1)[2]
    listed = {}
    for state in ("NotReady", "notready", "not_ready", "NOT_READY"):
        ours, _, found = pair.request(ListGroupsRequest(states_filter=(state,)), 5)
        assert not found
        listed[state] = "not-ready" in [group.group_id for group in ours.groups]
    pair.close()
    assert listed == {"NotReady": False, "notready": False, "not_ready": True, "NOT_READY": True}


def test_the_own_value_of_a_topic_is_parsed_also_among_its_synonyms(both: Duel) -> None:
    """bench/cluster_differential.py, theme "configs", seed 32011"""
    config = CreatableTopicConfig(name="unclean.leader.election.enable", value=" false ")
    topic = CreatableTopic(name="spaces", num_partitions=1, replication_factor=1, configs=(config,))
    described = DescribeConfigsResource(resource_type=2, resource_name="spaces", configuration_keys=(config.name,))
    pair = Pair(*both.ports, ids=both.ids)
    pair.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
    pair.settle()
    ours, _, found = pair.request(DescribeConfigsRequest(resources=(described,), include_synonyms=True), 4)
    pair.close()
    assert not found
    assert ours.results[0].configs[0].synonyms[0].value == "false"


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.reason.split(",")[0])
def test_declared_differences_exist(both: Duel, gap: Gap) -> None:
    found = gap.shows(both.pair)
    assert any(gap.covers(one) for one in found), (
        f"they do not differ any more: take this gap from the list ({gap.reason})"
    )


# ---- regressions found by random requests


@pytest.fixture
def pair(both: Duel) -> Iterator[Pair]:
    found = Pair(*both.ports, ids=both.ids)
    yield found
    found.close()


def _make_topic(pair: Pair, name: str) -> None:
    topic = CreatableTopic(name=name, num_partitions=1, replication_factor=1)
    pair.request(CreateTopicsRequest(topics=(topic,), timeout_ms=5000), 7)
    pair.settle()


def _gone(name: str, mechanism: int = 1) -> ScramCredentialDeletion:
    return ScramCredentialDeletion(name=name, mechanism=mechanism)


def _put(name: str, mechanism: int = 1, iterations: int = 4096, **fields: bytes) -> ScramCredentialUpsertion:
    given = {"salt": b"salt", "salted_password": b"p" * 32, **fields}
    return ScramCredentialUpsertion(name=name, mechanism=mechanism, iterations=iterations, **given)  # type: ignore[arg-type]


def test_credentials_are_altered_and_described_as_by_a_real_broker(pair: Pair) -> None:
    def alter(deletions: tuple[ScramCredentialDeletion, ...], *upsertions: ScramCredentialUpsertion) -> dict[str, int]:
        request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
        (ours, _, differences) = pair.request(request, 0)
        assert not differences
        pair.settle()
        return {result.user: result.error_code for result in ours.results}

    def reported(*users: str) -> dict[str, tuple[int, tuple[tuple[int, int], ...]]]:
        names = tuple(UserName(name=user) for user in users)
        (ours, _, differences) = pair.request(DescribeUserScramCredentialsRequest(users=names or None), 0)
        assert not differences
        return {
            result.user: (
                result.error_code,
                tuple((info.mechanism, info.iterations) for info in result.credential_infos),
            )
            for result in ours.results
        }

    fine = ErrorCode.NONE
    assert alter((), _put("s-a"), _put("s-b", 2, 8192), _put("s-c", 1, 16384)) == dict.fromkeys(
        ("s-a", "s-b", "s-c"), fine
    )
    assert alter((), _put("s-a", 2)) == {"s-a": fine}
    assert reported("s-a", "s-b", "s-nobody", "") == {
        "s-a": (fine, ((1, 4096), (2, 4096))),
        "s-b": (fine, ((2, 8192),)),
        "s-nobody": (ErrorCode.RESOURCE_NOT_FOUND, ()),
        "": (ErrorCode.RESOURCE_NOT_FOUND, ()),
    }
    assert reported("s-a", "s-a", "s-b")["s-a"] == (ErrorCode.DUPLICATE_RESOURCE, ())
    assert reported().keys() >= {"s-a", "s-b", "s-c"}
    refused = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert alter((_gone(""),), _put("s-d", 1, 4095), _put("s-e", 1, 16385), _put("s-f", 3), _put("", 3)) == {
        "": refused,
        "s-d": refused,
        "s-e": refused,
        "s-f": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
    # A duplicate user is not changed, whatever is requested; others are.
    twice = ErrorCode.DUPLICATE_RESOURCE
    assert alter((_gone("s-a", 1), _gone("s-a", 2), _gone("s-c")), _put("s-b", 1), _put("s-b", 2)) == {
        "s-a": twice,
        "s-b": twice,
        "s-c": fine,
    }
    assert alter((_gone("s-a", 1),), _put("s-a", 2)) == {"s-a": twice}
    # The first error is returned, also for a user that is named three times.
    missing = ErrorCode.RESOURCE_NOT_FOUND
    assert alter((_gone("s-c"), _gone("s-c", 2), _gone("s-b", 7)), _put("s-c"), _put("s-b")) == {
        "s-c": missing,
        "s-b": ErrorCode.UNSUPPORTED_SASL_MECHANISM,
    }
    unusable = ErrorCode.UNKNOWN_SERVER_ERROR
    assert alter((), _put("s-salt", salt=b""), _put("s-key", salted_password=b"")) == {
        "s-salt": fine,
        "s-key": unusable,
    }
    assert reported("s-salt", "s-key") == {"s-salt": (fine, ((1, 4096),)), "s-key": (missing, ())}
    assert alter((_gone("s-a", 1), _gone("s-b", 2))) == {"s-a": fine, "s-b": fine}
    assert reported("s-a", "s-b") == {"s-a": (fine, ((2, 4096),)), "s-b": (missing, ())}


def test_quotas_are_altered_and_described_as_by_a_real_broker(pair: Pair) -> None:
    def alter(entity: dict[str, str | None], *ops: request_structs.OpData, only_check: bool = False) -> int:
        parts = tuple(request_structs.EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items())
        entry = request_structs.EntryData(entity=parts, ops=ops)
        (ours, _, differences) = pair.request(AlterClientQuotasRequest(entries=(entry,), validate_only=only_check), 1)
        assert not differences
        pair.settle()
        (result,) = ours.entries
        return int(result.error_code)

    def reported(*components: tuple[str, int, str | None], strict: bool = False) -> list[dict[str, float]]:
        requested_filters = tuple(
            ComponentData(entity_type=kind, match_type=how, match=name) for kind, how, name in components
        )
        (ours, _, differences) = pair.request(
            DescribeClientQuotasRequest(components=requested_filters, strict=strict), 1
        )
        assert not differences
        return [{one.key: one.value for one in entry.values} for entry in ours.entries or ()]

    def op(key: str, value: float | None) -> request_structs.OpData:
        return request_structs.OpData(key=key, value=value or 0.0, remove=value is None)

    rate = "producer_byte_rate"  # and others, high enough not to throttle other tests
    fine, refused = ErrorCode.NONE, ErrorCode.INVALID_REQUEST
    assert alter({"user": "q-a"}, op(rate, 1024.0), op("request_percentage", 12.5)) == fine
    assert alter({"user": "q-a", "client-id": "q-c"}, op(rate, 1.0)) == fine
    assert alter({"user": None}, op("controller_mutation_rate", 1e12)) == fine
    assert alter({"client-id": "q-c"}, op("consumer_byte_rate", 7.0)) == fine
    assert alter({"ip": "192.0.2.7"}, op("connection_creation_rate", 3.0)) == fine
    assert alter({"user": "q-b"}, op(rate, 5.0), only_check=True) == fine
    for entity, key, value in (
        ({}, rate, 1.0),
        ({"user": ""}, rate, 1.0),
        ({"group": "g"}, rate, 1.0),
        ({"user": "q-b", "ip": "192.0.2.7"}, rate, 1.0),
        ({"ip": "no address"}, "connection_creation_rate", 1.0),
        ({"ip": "192.0.2.7"}, rate, 1.0),
        ({"user": "q-b"}, "connection_creation_rate", 1.0),
        ({"user": "q-b"}, "nothing", 1.0),
        ({"user": "q-b"}, rate, 0.0),
        ({"user": "q-b"}, rate, -1.0),
        ({"user": "q-b"}, rate, 1.5),
        ({"user": "q-b"}, rate, 1e19),
        ({"ip": "192.0.2.7"}, "connection_creation_rate", 2147483648.0),
    ):
        assert alter(entity, op(key, value)) == refused, (entity, key, value)  # type: ignore[arg-type]
    assert alter({"user": "q-b"}, op(rate, 1.0), op(rate, 2.0)) == refused
    assert alter({"user": "q-b"}, op(rate, 1.0), op("nothing", 2.0)) == refused
    assert alter({"user": "q-b"}, op(rate, 1.0000001)) == fine
    assert alter({"user": "q-a"}, op("nothing", None), op(rate, None)) == fine
    assert reported(("user", 0, "q-a"), strict=True) == [{"request_percentage": 12.5}]
    assert len(reported(("user", 0, "q-a"))) == 2
    assert reported(("user", 1, None)) == [{"controller_mutation_rate": 1e12}]
    assert {rate: 1.0} in reported(("user", 2, None), ("client-id", 0, "q-c"), strict=True)
    assert reported(("ip", 2, None)) == [{"connection_creation_rate": 3.0}]
    assert reported(strict=True) == []
    assert len(reported()) >= 6
    for components in (
        (("user", 0, None),),
        (("user", 1, "q-a"),),
        (("user", 3, None),),
        (("", 2, None),),
        (("group", 2, None),),
        (("user", 2, None), ("user", 1, None)),
        (("user", 2, None), ("ip", 2, None)),
    ):
        assert reported(*components) == []


@pytest.mark.parametrize(
    "settings",
    [  # the order of Java's HashMap: an unknown operation first, or last
        (("message.timestamp.after.max.ms", 9), ("segment.bytes", 2)),
        (("message.timestamp.after.max.ms", 2), ("segment.bytes", 9)),
        (("retention.ms", 9), ("segment.bytes", 3)),
        (("retention.ms", 3), ("segment.bytes", 9)),
    ],
)
def test_of_two_invalid_operations_the_first_in_the_controllers_order_is_reported(
    pair: Pair, settings: tuple[tuple[str, int], ...]
) -> None:
    _make_topic(pair, "operations")
    configs = tuple(AlterableConfig(name=name, config_operation=operation, value="1") for name, operation in settings)
    resource = AlterConfigsResource(resource_type=2, resource_name="operations", configs=configs)
    assert not pair.request(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True), 1)[2]


@pytest.mark.parametrize("version", [2, 6, 9])
def test_a_member_that_joins_an_empty_group_id_receives_its_own_id(pair: Pair, version: int) -> None:
    request = JoinGroupRequest(group_id="", session_timeout_ms=60_000, member_id="me", protocol_type="consumer")
    ours, _, found = pair.request(request, version)
    assert not found
    assert ours.member_id == "me"


@pytest.mark.parametrize("length", [36, 37])
def test_the_member_id_of_a_share_group_is_at_most_as_long_as_a_uuid(pair: Pair, length: int) -> None:
    request = ShareGroupHeartbeatRequest(group_id="share", member_id="m" * length, member_epoch=1)
    ours, _, found = pair.request(request, 1)
    assert not found
    assert ours.error_code == (ErrorCode.GROUP_ID_NOT_FOUND if length <= 36 else ErrorCode.INVALID_REQUEST)


def test_a_share_group_bumps_its_epoch_once_share_state_is_initialized(both: Duel, pair: Pair) -> None:
    """Seed 14304949: a broker initializes the state after the first response (issue 14)."""
    _make_topic(pair, "share-states")
    join = ShareGroupHeartbeatRequest(
        group_id="share-states", member_id="m", member_epoch=0, subscribed_topic_names=("share-states",)
    )
    ours, _, found = pair.request(join, 1)
    assert not found
    assert (ours.member_epoch, ours.assignment.topic_partitions) == (2, ())
    both.late_writes.wait_for_share_states("share-states")
    ours, _, found = pair.request(replace(join, member_epoch=2, subscribed_topic_names=None), 1)
    assert not found
    assert (ours.member_epoch, len(ours.assignment.topic_partitions)) == (3, 1)


@pytest.mark.parametrize("release", ["both", "newest"])
def test_an_acknowledgement_from_before_the_start_offset_can_fail_the_request(
    release: str, request: pytest.FixtureRequest
) -> None:
    """Random requests of share groups on 4.3.1, seed 34007: Kafka throws a NullPointerException.

    The start offset is 8, and nothing is in flight. The session and its records remain.
    """
    brokers: Duel = request.getfixturevalue(release)
    pair = Pair(*brokers.ports, ids=brokers.ids)
    prefix = "before-the-start-"
    for message, version in (*first_topics(prefix), *share_members(prefix), *share_records(prefix)):
        _, _, found = pair.request(message, version)
        assert not found
        pair.settle()
        if isinstance(message, ShareGroupHeartbeatRequest):
            brokers.late_writes.wait_for_share_states(message.group_id)
    topic_id = brokers.ours.core.topics[prefix + "a"].id
    session = {"group_id": prefix + "share-0", "member_id": "m"}

    def fetch(epoch: int, *acknowledged: tuple[int, int]) -> Any:
        batches = tuple(
            AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(1,))
            for first, last in acknowledged
        )
        partition = ShareFetchPartition(partition_index=0, acknowledgement_batches=batches)
        topic = ShareFetchTopic(topic_id=topic_id, partitions=(partition,))
        limits = {"max_wait_ms": 300, "min_bytes": 1, "max_bytes": 1 << 20, "max_records": 9, "batch_size": 9}
        fetch_request = ShareFetchRequest(**session, share_session_epoch=epoch, topics=(topic,), **limits)  # type: ignore[arg-type]
        ours, _, found = pair.request(fetch_request, 1)
        assert not found
        return ours

    def acknowledge(epoch: int, first: int, last: int) -> int:
        batch = AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=(1,))
        partition = AcknowledgePartition(partition_index=0, acknowledgement_batches=(batch,))
        topics = (AcknowledgeTopic(topic_id=topic_id, partitions=(partition,)),)
        ours, _, found = pair.request(
            ShareAcknowledgeRequest(**session, share_session_epoch=epoch, topics=topics),  # type: ignore[arg-type]
            1,
        )
        assert not found
        return int(ours.error_code or ours.responses[0].partitions[0].error_code)

    acquired = fetch(0).responses[0].partitions[0].acquired_records
    assert [(one.first_offset, one.last_offset) for one in acquired] == [(0, 7)]
    assert acknowledge(1, 0, 7) == 0
    assert [acknowledge(2, 7, 8), fetch(3, (7, 8)).error_code] == [ErrorCode.UNKNOWN_SERVER_ERROR] * 2
    assert acknowledge(4, 0, 7) == 0
    assert acknowledge(5, 8, 9) == ErrorCode.INVALID_RECORD_STATE
    pair.close()


def test_altered_share_offsets_of_unknown_topics_are_reported_by_partition(newest: Duel) -> None:
    """Random requests on 4.4.0, seed 3: an unknown topic without partitions is left out.

    Seed 31020: a negative partition of an unknown topic has an error, too.
    """
    pair = Pair(*newest.ports, ids=newest.ids)
    _make_topic(pair, "altered")
    topics = tuple(
        AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=tuple(AlterShareGroupOffsetsRequestPartition(partition_index=one) for one in partitions),
        )
        for name, partitions in (("altered", ()), ("unknown-1", ()), ("unknown-2", (1, 0, -1)))
    )
    ours, _, found = pair.request(AlterShareGroupOffsetsRequest(group_id="altered", topics=topics), 0)
    pair.close()
    assert not found
    assert {one.topic_name: len(one.partitions) for one in ours.responses} == {"unknown-2": 3, "altered": 0}


def test_groups_are_described_in_the_order_of_the_request(newest: Duel) -> None:
    """Random requests on 4.4.0, seed 720: not by coordinator."""
    names = [f"in-order-{number}" for number in range(8)]
    offsets = OffsetFetchRequest(groups=tuple(OffsetFetchRequestGroup(group_id=name, topics=()) for name in names))
    share_offsets = DescribeShareGroupOffsetsRequest(
        groups=tuple(DescribeShareGroupOffsetsRequestGroup(group_id=name, topics=()) for name in names)
    )
    pair = Pair(*newest.ports, ids=newest.ids)
    requests: tuple[tuple[Message, int], ...] = ((offsets, 9), (share_offsets, 1))
    for request, version in requests:
        ours, _, found = pair.request(request, version)
        assert not found
        assert [group.group_id for group in ours.groups] == names
    pair.close()


@pytest.mark.parametrize("version", [3, 4])
def test_a_transaction_can_begin_without_partitions(pair: Pair, version: int) -> None:
    transactional_id = f"nothing-{version}"
    ours, _, _ = pair.request(
        InitProducerIdRequest(transactional_id=transactional_id, transaction_timeout_ms=60_000), 4
    )
    producer = (transactional_id, ours.producer_id, ours.producer_epoch)
    transaction = AddPartitionsToTxnTransaction(
        transactional_id=producer[0], producer_id=producer[1], producer_epoch=producer[2], verify_only=False, topics=()
    )
    request = (
        AddPartitionsToTxnRequest(transactions=(transaction,))
        if version >= 4
        else AddPartitionsToTxnRequest(
            v3_and_below_transactional_id=producer[0],
            v3_and_below_producer_id=producer[1],
            v3_and_below_producer_epoch=producer[2],
            v3_and_below_topics=(),
        )
    )
    assert not pair.request(request, version)[2]
    ours, _, found = pair.request(DescribeTransactionsRequest(transactional_ids=(transactional_id,)), 0)
    assert not found
    assert ours.transaction_states[0].transaction_state == "Ongoing"


@pytest.mark.parametrize("epoch", [-(1 << 31), -2, -1, 0, 1])
def test_the_leader_epoch_of_a_client_is_checked_as_by_a_real_broker(pair: Pair, epoch: int) -> None:
    _make_topic(pair, "epochs")
    for_epoch = OffsetForLeaderPartition(partition=0, current_leader_epoch=epoch, leader_epoch=0)
    listed = ListOffsetsPartition(partition_index=0, current_leader_epoch=epoch, timestamp=-1)
    fetched = FetchPartition(partition=0, current_leader_epoch=epoch, fetch_offset=0, partition_max_bytes=1000)
    requests: list[tuple[Message, int]] = [
        (OffsetForLeaderEpochRequest(topics=(OffsetForLeaderTopic(topic="epochs", partitions=(for_epoch,)),)), 4),
        (ListOffsetsRequest(topics=(ListOffsetsTopic(name="epochs", partitions=(listed,)),)), 8),
        (FetchRequest(max_wait_ms=0, topics=(FetchTopic(topic="epochs", partitions=(fetched,)),)), 11),
    ]
    for request, version in requests:
        assert not pair.request(request, version)[2]


@pytest.mark.parametrize("version", [0, 3, 5])
def test_offsets_of_an_empty_transactional_id_are_rejected(pair: Pair, version: int) -> None:
    _make_topic(pair, "nameless")
    partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=1, committed_metadata="")
    topic = TxnOffsetCommitRequestTopic(name="nameless", partitions=(partition,))
    request = TxnOffsetCommitRequest(
        transactional_id="", group_id="nameless", producer_id=10**12, producer_epoch=5, topics=(topic,)
    )
    assert not pair.request(request, version)[2]
