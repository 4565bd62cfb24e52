"""The source reads from a running broker what is in its log files, with real groups and transactions."""

from collections.abc import Iterator

import pytest

from tests.broker.broker import Broker
from tests.broker.fixtures import need_broker
from tests.codecs.test_live import Client
from tests.pipeline.reading import by_place, expected, rows_of, splits_of


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    """A broker with commits in and out of transactions: committed, aborted, and one that is open."""
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
def test_rows_from_a_broker_are_those_of_its_log_files(broker: Broker, isolation_level: str) -> None:
    found = rows_of(**{"kafka.bootstrap.servers": broker.bootstrap_servers}, isolation_level=isolation_level)
    wanted = expected(broker.log_dir, topics=["__consumer_offsets"], isolation_level=isolation_level)
    assert len(wanted) > 60
    assert by_place(found) == by_place(wanted)
    assert by_place(rows_of(broker.log_dir, isolation_level=isolation_level)) == by_place(wanted)


def test_small_tasks_and_small_fetches_give_the_same_rows(broker: Broker) -> None:
    options = {"kafka.bootstrap.servers": broker.bootstrap_servers, "kafka.max.partition.fetch.bytes": "500"}
    tasks = splits_of(**options, maxSplitBytes=1_000)
    assert len(tasks) > 5
    wanted = expected(broker.log_dir, topics=["__consumer_offsets"], isolation_level="read_committed")
    assert by_place(row for task in tasks for row in task) == by_place(wanted)
