"""Rows from a running broker equal those of its log files, with real groups and transactions."""

import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from quorate.codecs import LiveError, LogEntry, read_log
from quorate.coordinator.history import Moment
from quorate.pipeline import local
from quorate.pipeline.files import DataLoss
from quorate.pipeline.jobs.at_source import loaded
from quorate.pipeline.jobs.moments import milliseconds
from quorate.pipeline.jobs.state import group_state
from quorate.pipeline.jobs.state_rows import STATE
from quorate.pipeline.live import OffsetRange, TopicConnection, ranges_of
from quorate.pipeline.options import parse_options
from quorate.pipeline.push_down import PushDown
from quorate.pipeline.source import ConsumerOffsets
from tests.broker.broker import Broker
from tests.broker.fixtures import need_broker
from tests.codecs.test_live import Client
from tests.pipeline.helpers.jobs import comparable, replay
from tests.pipeline.helpers.reading import by_place, expected, rows_of, splits_of
from tests.pipeline.test_push_down import lasts, rows_read, state_of


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """Start a broker with commits, also in transactions: committed, aborted and open."""
    need_broker()
    with Broker() as running:
        client = Client(running)
        client.create_topic("orders")
        client.commit("plain", "orders", 0, *range(50))
        for number, commit in enumerate([True, False, True, False]):
            with client.producer(f"t-{number}") as producer:
                client.transact(producer, f"group-{number % 2}", "orders", number, commit=commit)
        client.commit("plain", "orders", 1, *range(5))
        with client.producer("twice") as producer:
            for number in range(6):
                client.transact(producer, "twice", "orders", number, commit=number % 2 == 0)
        with client.producer("open") as producer:
            client.transact(producer, "group-0", "orders", 99, commit=None)
            client.commit("plain", "orders", 0, 51, 52)
            client.commit("group-0", "orders", 0, 77)
            yield running


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_rows_from_a_broker_equal_those_of_its_log_files(broker: Broker, isolation_level: str) -> None:
    found = rows_of(**{"kafka.bootstrap.servers": broker.bootstrap_servers}, isolation_level=isolation_level)
    wanted = expected(broker.log_dir, topics=["__consumer_offsets"], isolation_level=isolation_level)
    assert len(wanted) > 50
    assert by_place(found) == by_place(wanted)
    assert by_place(rows_of(broker.log_dir, isolation_level=isolation_level)) == by_place(wanted)


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
def test_the_local_engine_returns_the_same_from_a_broker_and_its_files(broker: Broker, isolation_level: str) -> None:
    options = {"isolation.level": isolation_level}
    files = local.read(broker.log_dir, options=options)
    live = local.read(options=options | {"kafka.bootstrap.servers": broker.bootstrap_servers})
    assert live.size_bytes() > 1000
    found = local.group_state(live).offsets
    assert found.num_rows > 3
    assert found.equals(local.group_state(files).offsets)
    pending = [one for one in found.column("pending_of").to_pylist() if one is not None]
    assert bool(pending) == (isolation_level == "read_uncommitted")


def test_small_tasks_and_fetches_return_the_same_rows(broker: Broker) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.max.partition.fetch.bytes": "500"}
    tasks = splits_of(**options, maxSplitBytes=1_000)
    assert len(tasks) > 5
    wanted = expected(broker.log_dir, topics=["__consumer_offsets"], isolation_level="read_committed")
    assert by_place(row for task in tasks for row in task) == by_place(wanted)


def test_offsets_and_times_limit_the_rows(broker: Broker) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "isolation_level": "read_uncommitted"}
    rows = sorted(rows_of(**options), key=lambda row: (row["partition"], row["offset"]))
    number = max(rows, key=lambda row: row["offset"])["partition"]
    own = [row for row in rows if row["partition"] == number]
    found = rows_of(
        **options,
        partitions=number,
        startingOffsets=f'{{"__consumer_offsets": {{"{number}": 3}}}}',
        endingOffsets=f'{{"__consumer_offsets": {{"{number}": 8}}}}',
    )
    assert by_place(found) == by_place(row for row in own if 3 <= row["offset"] < 8)
    since = own[len(own) // 2]["timestamp"]
    found = rows_of(**options, partitions=number, startingTimestamp=since.isoformat())
    assert by_place(found) == by_place(row for row in own if row["timestamp"] >= since)
    assert 0 < len(found) < len(own)


@pytest.mark.parametrize(("level", "fetch_bytes"), [("read_committed", 500), ("read_uncommitted", 1 << 20)])
def test_push_down_leaves_out_rows_without_changing_the_result(broker: Broker, level: str, fetch_bytes: int) -> None:
    options = {
        "kafka.bootstrap.servers": broker.bootstrap_servers,
        "kafka.max.partition.fetch.bytes": str(fetch_bytes),
        "isolation.level": level,
    }
    whole = rows_read(None, **options)
    longest = max(whole, key=lambda row: row["offset"])["partition"]
    own = [row for row in whole if row["partition"] == longest]
    between = [sorted(row["offset"] for row in own)[place * len(own) // 10] for place in (1, 5, 9)]
    starting, middle, ending = between
    bounds = {
        "partitions": str(longest),
        "startingOffsets": json.dumps({"__consumer_offsets": {str(longest): starting}}),
        "endingOffsets": json.dumps({"__consumer_offsets": {str(longest): ending}}),
    }
    time_ms = next(milliseconds(row["timestamp"]) for row in own if row["offset"] == middle)
    for bounded, every in ((options, whole), (options | bounds, rows_read(None, **options, **bounds))):
        assert every
        for push_down in (
            PushDown(what="state"),
            PushDown(what="state", until_ms=time_ms),
            PushDown(what="state", until_offsets={(None, number): middle for number in range(3)}),
        ):
            left = rows_read(None, push_down, **bounded)
            assert len(left) < len(every), push_down
            for number in range(3):
                found, wanted = (
                    state_of(
                        (row for row in rows if row["partition"] == number),
                        push_down,
                        committed=level == "read_committed",
                    )
                    for rows in (left, every)
                )
                assert comparable(found) == comparable(wanted), (push_down, number)
    assert {row["type"] for row in rows_read(None, PushDown(what="groups"), **options)} <= {"Control"}
    if level == "read_committed":  # otherwise all records of transactions are needed
        left = rows_read(None, PushDown(what="commits", times_ms=(time_ms,)), **options)
        spans = [
            [row for row in whole if (milliseconds(row["timestamp"]) <= time_ms) == before] for before in (True, False)
        ]
        assert {place for span in spans for place in lasts_of_logs(span)} <= {
            (row["partition"], row["offset"]) for row in left
        }
        assert len(left) < len(whole)


def lasts_of_logs(rows: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """Return the places of the last rows of each key and partition."""
    return [
        (number, offset)
        for number in range(3)
        for offset in lasts((row for row in rows if row["partition"] == number), lambda row: True).values()
    ]


def test_jobs_on_a_cluster_use_push_down(broker: Broker, spark: SparkSession) -> None:
    logs = {
        number: [
            one
            for one in read_log(broker.log_dir / f"__consumer_offsets-{number}", isolation_level="read_uncommitted")
            if isinstance(one, LogEntry)
        ]
        for number in range(3)
    }
    longest = max(logs.values(), key=len)
    time_ms = longest[len(longest) // 2].timestamp_ms
    df = (
        spark.read.format("consumer-offsets")
        .options(**{"kafka.bootstrap.servers": broker.bootstrap_servers, "isolation.level": "read_uncommitted"})
        .load()
    )
    fewer = loaded(df, "state", time_ms)
    assert fewer is not None
    assert fewer.rows.count() < sum(map(len, logs.values()))
    rows = group_state(df, time_ms, isolation_level="read_uncommitted").rows.toArrow().cast(STATE).to_pylist()
    for number, log in logs.items():
        cut = [one for one in Moment(timestamp_ms=time_ms).cut(log) if isinstance(one, LogEntry)]
        assert comparable(row for row in rows if row["log_partition"] == number) == comparable(replay(cut))


def test_missing_topics_and_offsets_are_errors(broker: Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers}
    with pytest.raises(LiveError, match="__consumer_offsets has partitions 0 to 2, not 7"):
        rows_of(**options, partitions=7)
    beyond = '{"__consumer_offsets": {"0": 100000}}'
    with pytest.raises(DataLoss, match=r"__consumer_offsets-0: offset 100,000 of startingOffsets is not in the log"):
        rows_of(**options, startingOffsets=beyond)
    assert rows_of(**options, partitions=0, startingOffsets=beyond, failOnDataLoss=False) == []
    with monkeypatch.context() as patch:
        patch.setattr("quorate.pipeline.live.CONNECT_TIMEOUT_MS", 1_000)
        with pytest.raises(LiveError, match=r"127.0.0.1:1 .*could not connect to a broker within"):
            rows_of(**{"kafka.bootstrap.servers": "127.0.0.1:1"})
    gone = OffsetRange(0, 100_000, 100_005)  # planned, and truncated before it is read
    with (
        TopicConnection(parse_options(options)) as cluster,
        pytest.raises(DataLoss, match="offset 100,000 is not in the log any more"),
    ):
        list(cluster.fetch(gone))
    with TopicConnection(parse_options({**options, "failOnDataLoss": "false"})) as cluster:
        assert list(cluster.fetch(gone)) == []


def test_a_killed_stream_from_a_broker_resumes(broker: Broker) -> None:
    pytest.importorskip("pyspark", minversion="4.2")
    from quorate.pipeline.stream_limited import LimitedReader

    source = ConsumerOffsets(
        {
            "kafka.bootstrap.servers": broker.bootstrap_servers,
            "isolation.level": "read_committed",
            "maxOffsetsPerTrigger": "40",
        }
    )
    found: list[dict[str, Any]] = []
    start: dict[str, Any] | None = None
    while True:
        reader = source.streamReader(source.schema())  # a new process each time
        assert isinstance(reader, LimitedReader)
        start = start or reader.initialOffset()
        end = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
        if end == start:
            break
        assert sum(end["__consumer_offsets"].values()) - sum(start["__consumer_offsets"].values()) <= 40
        tasks = reader.partitions(start, end)
        reader.stop()
        found += [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
        start = end
    reader.stop()
    wanted = expected(broker.log_dir, topics=["__consumer_offsets"], isolation_level="read_committed")
    assert by_place(found) == by_place(wanted)


def test_a_task_survives_an_outage(broker: Broker) -> None:
    """Run last: the open transaction is aborted when the broker restarts."""
    options = parse_options(
        {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.max.partition.fetch.bytes": "200"}
    )
    with TopicConnection(options) as cluster:
        (longest,) = sorted(ranges_of(options, cluster), key=lambda one: one.end - one.start)[-1:]
        whole = [data for data, _ in cluster.fetch(longest)]
        fetching = cluster.fetch(longest)
        found = [next(fetching)[0]]
        broker.shut_down()  # a killed one is refused for the rest of its session
        restart = threading.Timer(1, broker.start)
        restart.start()
        found += [data for data, _ in fetching]
        restart.join()
    assert len(whole) > 2
    assert b"".join(found) == b"".join(whole)
