"""Lag sources: mappings, functions and a real broker; failures never break a rebalance."""

import logging
import socket
import threading
import time
from contextlib import closing
from types import SimpleNamespace

import pytest

from quorate.assignors import Member, Topology, lags
from quorate.assignors.lag_aware import LagAwareAssignor
from quorate.assignors.lags import AdminLags, CallableLags, LagSource, StaticLags, as_lag_source
from quorate.assignors.topology import TopicPartition

AT = [TopicPartition("t", number) for number in range(3)]


def test_static_lags():
    source = as_lag_source({("t", 0): 7, ("t", 1): None})
    assert isinstance(source, StaticLags)
    assert source.lags(AT) == {AT[0]: 7, AT[1]: None}


def test_callable_lags():
    source = as_lag_source(lambda partitions: {at: at.partition * 10 for at in partitions})
    assert isinstance(source, CallableLags)
    assert source.lags(AT) == {AT[0]: 0, AT[1]: 10, AT[2]: 20}
    assert source.lags([]) == {}


def test_a_custom_source():
    class Own:
        def lags(self, partitions):
            return {}

    own = Own()
    assert isinstance(own, LagSource)
    assert as_lag_source(own) is own


def test_other_values_are_no_source():
    with pytest.raises(TypeError, match="lags must be a mapping, a function or a LagSource, not int"):
        as_lag_source(7)
    with pytest.raises(TypeError, match=r"lags of 'orders': the keys of the mapping are \(topic, partition\)"):
        as_lag_source({"orders": 5})


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"timeout_ms": 0}, "timeout_ms is 0: give the time"),
        ({"timeout_ms": "5"}, "timeout_ms is '5': give the time"),
        ({"fallback": "zero"}, "unknown fallback 'zero'; use last or none"),
    ],
)
def test_invalid_options_are_rejected(options, message):
    with pytest.raises(ValueError, match=message):
        CallableLags(lambda partitions: {}, **options)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((5, "g"), {}, "bootstrap_servers is 5: give HOST:PORT"),
        (("localhost:9092", 5), {}, "group_id is 5: give the name"),
        (("localhost:9092", "g"), {"auto_offset_reset": "first"}, "unknown auto_offset_reset 'first'; use latest"),
    ],
)
def test_invalid_parameters_of_a_cluster_are_rejected(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        AdminLags(*arguments, **options)


class Flaky:
    """A source that returns, raises or hangs, as set."""

    def __init__(self):
        self.does = "answer"
        self.go_on = threading.Event()

    def __call__(self, partitions):
        if self.does == "raise":
            raise OSError("the lag exporter\nis down")
        if self.does == "hang":
            self.go_on.wait()
            return dict.fromkeys(partitions, 99)
        return dict.fromkeys(partitions, 1)


@pytest.mark.parametrize(
    ("fallback", "expected", "said"),
    [("last", dict.fromkeys(AT, 1), "the 3 lags read last"), ("none", {}, "partition counts only")],
)
def test_a_function_that_raises(caplog, fallback, expected, said):
    flaky = Flaky()
    source = CallableLags(flaky, fallback=fallback)
    flaky.does = "raise"
    assert source.lags(AT) == {}
    assert "partitions are assigned by partition counts only" in caplog.text
    flaky.does = "answer"
    source.lags(AT)
    caplog.clear()
    flaky.does = "raise"
    assert source.lags(AT) == expected
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(
        f"lags could not be read (OSError: the lag exporter is down); partitions are assigned by {said}; check "
    )


def test_a_function_that_exceeds_the_time_limit(caplog):
    flaky = Flaky()
    flaky.does = "hang"
    source = CallableLags(flaky, timeout_ms=100)
    assert source.lags(AT) == {}  # while the function hangs, until it is released
    assert "no response within 100 ms" in caplog.text
    flaky.does = "answer"
    assert source.lags(AT) == {}  # no second thread is started while one hangs
    assert "the previous read is still running" in caplog.text
    flaky.go_on.set()
    until = time.monotonic() + 300
    while source.lags(AT) != dict.fromkeys(AT, 1):
        assert time.monotonic() < until
        time.sleep(0.01)


def test_a_result_that_is_no_mapping_is_a_failure(caplog):
    assert CallableLags(lambda partitions: None).lags(AT) == {}
    assert CallableLags(lambda partitions: dict.fromkeys(partitions, "many")).lags(AT) == {}
    assert len(caplog.records) == 2


def test_after_a_failure_partition_counts_decide():
    def fail(_):
        raise RuntimeError

    members = {"a": Member(topics=["t"]), "b": Member(topics=["t"])}
    assert LagAwareAssignor(lags=fail).assign(members, Topology.of({"t": 4})).counts.tolist() == [2, 2]


# ---- the cluster


def failing(servers, **options):
    source = AdminLags(servers, "g", timeout_ms=700, **options)
    assert source.lags(AT) == {}
    source._reading.join(300)
    assert not source._reading.is_alive()


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
def test_a_broker_that_does_not_respond(caplog, protocol):
    threads = set(threading.enumerate())
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        failing(address, security_protocol=protocol)
    assert f"check the brokers ({address}), the security options, and DESCRIBE on group g" in caplog.text
    assert "or raise timeout_ms (700)" in caplog.text
    until = time.monotonic() + 300
    while set(threading.enumerate()) - threads:
        assert time.monotonic() < until, threading.enumerate()
        time.sleep(0.05)


def test_a_closed_port(caplog):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
    failing([address])
    assert f"check the brokers ({address})" in caplog.text


def test_an_unknown_option_of_the_client(caplog):
    failing("127.0.0.1:1", ssl_cafiles="x")
    assert "Unrecognized configs: {'ssl_cafiles'}" in caplog.text


@pytest.fixture(scope="module")
def lagging(broker):
    """Create topic `lagging` with 10, 20 and 30 records.

    The group has committed 4 of the first and 25 of the last; records before 5 are deleted.
    """
    from kafka import KafkaConsumer, KafkaProducer, OffsetAndMetadata
    from kafka import TopicPartition as At
    from kafka.admin import KafkaAdminClient, NewTopic

    servers = broker.bootstrap_servers
    with closing(KafkaAdminClient(bootstrap_servers=servers)) as admin:
        admin.create_topics([NewTopic("lagging", 3, 1)])
        with closing(KafkaProducer(bootstrap_servers=servers)) as producer:
            for partition, count in enumerate([10, 20, 30]):
                for _ in range(count):
                    producer.send("lagging", b"x", partition=partition)
        admin.delete_records({At("lagging", 1): 5})
    with closing(KafkaConsumer(bootstrap_servers=servers, group_id="lagging", enable_auto_commit=False)) as consumer:
        consumer.assign([At("lagging", 0), At("lagging", 2)])
        commits = {At("lagging", 0): 4, At("lagging", 2): 25}
        consumer.commit({at: OffsetAndMetadata(offset, "", -1) for at, offset in commits.items()})
    return servers, [TopicPartition("lagging", number) for number in range(3)]


@pytest.mark.oracle
@pytest.mark.parametrize(("reset", "fresh"), [("latest", 0), ("earliest", 15), ("by_duration:P1D", 15)])
def test_lags_of_a_cluster(lagging, reset, fresh):
    servers, at = lagging
    source = AdminLags(servers, "lagging", auto_offset_reset=reset, timeout_ms=300_000)
    assert source.lags(at) == {at[0]: 6, at[1]: fresh, at[2]: 5}
    assert source.lags(at[:1]) == {at[0]: 6}


@pytest.mark.oracle
def test_a_group_without_committed_offsets(lagging):
    servers, at = lagging
    assert AdminLags(servers, "unheard-of", timeout_ms=300_000).lags(at) == dict.fromkeys(at, 0)
    found = AdminLags(servers, "unheard-of", auto_offset_reset="earliest", timeout_ms=300_000).lags(at)
    assert found == {at[0]: 10, at[1]: 15, at[2]: 30}


@pytest.mark.oracle
def test_a_read_takes_one_request_of_each_kind_for_all_partitions(lagging, monkeypatch):
    from kafka.net.manager import KafkaConnectionManager

    sent = []
    send = KafkaConnectionManager.send

    def count(self, request, *arguments, **options):
        sent.append(type(request).__name__)
        return send(self, request, *arguments, **options)

    monkeypatch.setattr(KafkaConnectionManager, "send", count)
    servers, at = lagging
    AdminLags(servers, "unheard-of", auto_offset_reset="earliest", timeout_ms=300_000).lags(at)
    assert sent.count("OffsetFetchRequest") == 1
    assert sent.count("ListOffsetsRequest") == 2


@pytest.mark.oracle
def test_lags_of_other_topics_are_read_if_one_was_deleted(lagging, caplog):
    servers, at = lagging
    gone = TopicPartition("gone", 0)
    source = AdminLags(servers, "lagging", timeout_ms=300_000)
    assert source.lags([*at, gone]) == source.lags(at) != {}
    assert "lags of 1 of 4 partitions could not be read" in caplog.text
    assert "(gone-0)" in caplog.text
    assert source.lags([gone]) == source.lags(at)
    assert "no partition has a leader" in caplog.text


class Cluster:
    """An admin client's view of topic t without committed offsets.

    The end offset of partition p is 10 (p + 1). `leaders`: by partition.
    """

    def __init__(self, leaders):
        self.leaders = leaders

    def __call__(self, **config):
        return self

    def describe_topics(self, topics):
        partitions = [{"partition_index": at, "leader_id": leader} for at, leader in enumerate(self.leaders)]
        return [{"name": "t", "partitions": partitions}]

    def list_group_offsets(self, wanted):
        return {group: {} for group in wanted}

    def list_partition_offsets(self, wanted, timeout_ms):
        assert all(self.leaders[at.partition] >= 0 for at in wanted), "kafka-python fails here"
        latest = {at for at, spec in wanted.items() if spec.name == "LATEST"}
        return {at: SimpleNamespace(offset=10 * (at.partition + 1) if at in latest else 0) for at in wanted}

    def close(self):
        pass


@pytest.mark.parametrize(("fallback", "kept"), [("last", {AT[1]: 20}), ("none", {})])
def test_only_partitions_without_a_leader_use_the_fallback(monkeypatch, caplog, fallback, kept):
    cluster = Cluster([1, 2, 1])
    monkeypatch.setattr("kafka.admin.KafkaAdminClient", cluster)
    source = AdminLags("ignored:1", "g", auto_offset_reset="earliest", fallback=fallback)
    assert source.lags(AT) == {AT[0]: 10, AT[1]: 20, AT[2]: 30}
    cluster.leaders[1] = -1
    assert source.lags(AT) == {AT[0]: 10, AT[2]: 30} | kept
    assert "lags of 1 of 3 partitions could not be read: no leader or no DESCRIBE permission (t-1)" in caplog.text


@pytest.mark.oracle
def test_the_assignor_reads_lags_from_the_cluster(lagging):
    servers, at = lagging
    topology = Topology.of({"lagging": 3})
    members = {"a": Member(topics=["lagging"]), "b": Member(topics=["lagging"])}
    source = AdminLags(servers, "lagging", auto_offset_reset="earliest", timeout_ms=300_000)
    assert LagAwareAssignor(lags=source).assign(members, topology) == {"a": (at[1],), "b": (at[0], at[2])}


def test_all_clients_are_closed_if_one_is_closing_already():
    class Client:
        def __init__(self, error=None):
            self.error, self.closed = error, False

        def close(self):
            self.closed = True
            if self.error:
                raise self.error

    clients = [Client(RuntimeError("NetworkSelector closed!")), Client()]
    lags._close(clients)
    assert [client.closed for client in clients] == [True, True]
