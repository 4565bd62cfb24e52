"""Reading from a running cluster: a real broker, with groups and transactions of a real client."""

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest
from kafka import KafkaConsumer
from kafka.errors import NodeNotReadyError, UnknownBrokerIdError

from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE, TRANSACTION_STATE, CoordinatorRecord
from quorate.codecs.batches import TimestampType
from quorate.codecs.live import LiveError, read_live, read_live_blocks
from quorate.codecs.log import read_log
from quorate.codecs.log.model import LogEntry
from tests.broker.broker import Broker
from tests.reruns import own_name

with_broker = pytest.mark.oracle


# ---- domain helpers


class Client:
    """Operations on a broker with kafka-python."""

    def __init__(self, running: Broker) -> None:
        self.servers = running.bootstrap_servers

    def create_topic(self, name: str, partitions: int = 2) -> None:
        from kafka.admin import KafkaAdminClient, NewTopic

        with closing(KafkaAdminClient(bootstrap_servers=self.servers)) as admin:
            admin.create_topics([NewTopic(name, partitions, 1)])

    def commit(self, group: str, topic: str, partition: int, *offsets: int) -> None:
        """Commit offsets of a group without members, one after the other."""
        from kafka import KafkaConsumer, OffsetAndMetadata, TopicPartition

        at = TopicPartition(topic, partition)
        consumer = KafkaConsumer(bootstrap_servers=self.servers, group_id=group, enable_auto_commit=False)
        with closing(consumer):
            consumer.assign([at])
            for offset in offsets:
                consumer.commit({at: OffsetAndMetadata(offset, "", -1)})

    @contextmanager
    def producer(self, transactional_id: str) -> Iterator[Any]:
        from kafka import KafkaProducer

        producer = KafkaProducer(bootstrap_servers=self.servers, transactional_id=transactional_id)
        try:
            producer.init_transactions()
            yield producer
        finally:
            producer.close(timeout=5)

    def transact(self, producer: Any, group: str, topic: str, offset: int, *, commit: bool | None) -> None:
        """Commit an offset in a transaction, then commit or abort it, or leave it open (`None`)."""
        from kafka import OffsetAndMetadata, TopicPartition

        producer.begin_transaction()
        at = TopicPartition(topic, 0)
        producer.send_offsets_to_transaction({at: OffsetAndMetadata(offset, "", -1)}, group)
        if commit is not None:
            (producer.commit_transaction if commit else producer.abort_transaction)()


@pytest.fixture
def client(broker):
    return Client(broker)


@pytest.fixture
def topic(client, request):
    name = own_name(request)
    client.create_topic(name)
    return name


def committed_by(entries: Iterator[LogEntry] | list[LogEntry], group: str) -> list[tuple[str, int, int]]:
    """Return topic, partition and offset of a group's commits, in order."""
    return [
        (entry.record.key.topic, entry.record.key.partition, entry.record.value.offset)
        for entry in entries
        if isinstance(entry.record, CoordinatorRecord)
        and entry.record.name == "OffsetCommit"
        and entry.record.key.group == group
        and entry.record.value is not None
    ]


def facts(entry: LogEntry) -> tuple[Any, ...]:
    """Return the attributes of an entry that a live reader knows."""
    return (
        entry.topic,
        entry.partition,
        entry.offset,
        entry.timestamp_ms,
        entry.timestamp_type,
        entry.partition_leader_epoch,
        entry.headers,
        entry.key_bytes,
        entry.value_bytes,
        entry.record,
    )


def place(fact):
    return fact[:2]


def bare(entry: LogEntry):
    return entry.partition, entry.offset, entry.timestamp_ms, entry.key_bytes, entry.value_bytes


# ---- reading


@with_broker
def test_commits_are_read_in_order(broker, client, topic):
    client.commit("reader", topic, 0, 1, 2, 3)
    entries = list(read_live(broker.bootstrap_servers))
    assert committed_by(entries, "reader") == [(topic, 0, 1), (topic, 0, 2), (topic, 0, 3)]
    entry = next(entry for entry in entries if entry.record.key.group == "reader")
    assert (entry.topic, entry.timestamp_type) == (CONSUMER_OFFSETS, TimestampType.CREATE_TIME)
    assert abs(entry.timestamp_ms - time.time() * 1000) < 600_000
    assert (entry.producer_id, entry.producer_epoch, entry.sequence, entry.transactional) == (None,) * 4


@with_broker
@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("read", [CONSUMER_OFFSETS, TRANSACTION_STATE])
def test_entries_of_the_cluster_and_its_files_are_equal(broker, client, topic, isolation_level, read):
    """Compares a consumer with the broker's log directory, including transactions and markers."""
    with client.producer(f"{topic}-a") as first, client.producer(f"{topic}-b") as second:
        for offset, commit in enumerate([True, False, True, False]):
            client.transact(first, f"{topic}-group", topic, offset, commit=commit)
        client.transact(second, f"{topic}-group", topic, 9, commit=None)
        client.commit(f"{topic}-group", topic, 1, 7)
        how = {"isolation_level": isolation_level}
        address = broker.bootstrap_servers
        live = list(read_live(address, topic=read, **how))
        files = list(read_log(broker.log_dir, topics=[read], control_records=False, **how))
        blocks = [entry for block in read_live_blocks(address, topic=read, **how) for entry in block.entries()]
        part = {"partitions": [blocks[-1].partition], "start_offsets": {blocks[-1].partition: blocks[-1].offset}}
        (last,) = [entry for block in read_live_blocks(address, topic=read, **how, **part) for entry in block.entries()]
        second.abort_transaction()
    assert sorted(map(bare, blocks), key=place) == sorted(map(bare, live), key=place)
    assert bare(last) == bare(blocks[-1])
    assert sorted(map(facts, live), key=lambda fact: fact[:3]) == [facts(entry) for entry in files]
    if read == CONSUMER_OFFSETS:
        expected = [0, 2] if isolation_level == "read_committed" else [0, 1, 2, 3, 9, 7]
        assert [offset for _, _, offset in committed_by(live, f"{topic}-group")] == expected


@with_broker
def test_partitions_option_selects_partitions(broker, client, topic):
    for number in range(8):
        client.commit(f"{topic}-{number}", topic, 0, number)
    everything = list(read_live(broker.bootstrap_servers))
    for chosen in ({0}, {1, 2}):
        entries = list(read_live(broker.bootstrap_servers, partitions=chosen))
        key = lambda entry: (entry.partition, entry.offset)  # noqa: E731
        assert sorted(entries, key=key) == sorted((e for e in everything if e.partition in chosen), key=key)
    with pytest.raises(LiveError, match="__consumer_offsets has partitions 0 to 2, not 7, 9"):
        next(read_live(broker.bootstrap_servers, partitions=[0, 9, 7]))


@with_broker
def test_blocks_end_where_the_log_ended_at_the_start(broker, client, topic, monkeypatch):
    """The last batch of a fetch may be later, here because an earlier end is pretended."""
    for number in range(3):
        client.commit(topic, topic, 0, number)
    address = broker.bootstrap_servers
    (last,) = [e for e in read_live(address) if committed_by([e], topic) == [(topic, 0, 2)]]
    real = KafkaConsumer.end_offsets
    earlier = lambda *given, **how: dict.fromkeys(real(*given, **how), last.offset)  # noqa: E731
    monkeypatch.setattr(KafkaConsumer, "end_offsets", earlier)
    blocks = read_live_blocks(address, partitions=[last.partition])
    found = [entry for block in blocks for entry in block.entries()]
    assert max(entry.offset for entry in found) < last.offset
    assert committed_by(found, topic) == [(topic, 0, 0), (topic, 0, 1)]


@with_broker
def test_since_skips_earlier_records(broker, client, topic):
    client.commit(topic, topic, 0, 1)
    time.sleep(0.05)
    (first,) = [e for e in read_live(broker.bootstrap_servers) if committed_by([e], topic)]
    client.commit(topic, topic, 0, 2)
    entries = list(read_live(broker.bootstrap_servers, since_ms=first.timestamp_ms + 1))
    assert committed_by(entries, topic) == [(topic, 0, 2)]
    assert min(entry.timestamp_ms for entry in entries) > first.timestamp_ms
    assert list(read_live(broker.bootstrap_servers, since_ms=int(time.time() * 1000) + 60_000)) == []


@with_broker
def test_reading_creates_no_group_and_no_topic(broker):
    from kafka.admin import KafkaAdminClient

    with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
        groups = sorted(map(str, admin.list_groups()))
        topics = sorted(admin.list_topics())
        list(read_live(broker.bootstrap_servers))
        with pytest.raises(LiveError, match=f"{SHARE_GROUP_STATE} does not exist"):
            next(read_live(broker.bootstrap_servers, topic=SHARE_GROUP_STATE))
        assert sorted(map(str, admin.list_groups())) == groups
        assert sorted(admin.list_topics()) == topics


@with_broker
def test_closing_the_iterator_closes_its_connection(broker, client, topic):
    before = set(threading.enumerate())  # threads of other tests, which may end
    client.commit(topic, topic, 0, 1, 2)
    entries = read_live(broker.bootstrap_servers, follow=True)
    next(entries)
    assert set(threading.enumerate()) - before
    entries.close()
    assert not set(threading.enumerate()) - before


# ---- following


class Follower:
    """Reads in a thread, so that a test can wait for entries."""

    def __init__(self, entries: Iterator[LogEntry]) -> None:
        self.seen: list[LogEntry] = []
        self.error: BaseException | None = None
        self._entries = entries
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            for entry in self._entries:
                self.seen.append(entry)
                if self._stop.is_set():
                    break
        except BaseException as error:  # noqa: BLE001  # handed to the waiting test
            self.error = error

    def wait_for(self, condition: Callable[[list[LogEntry]], bool], seconds: float = 30) -> None:
        until = time.monotonic() + seconds
        while not condition(list(self.seen)):
            assert self.error is None, self.error
            assert time.monotonic() < until, f"not seen in {seconds} s; seen {len(self.seen)} entries"
            time.sleep(0.02)

    def end(self, poke: Callable[[], object]) -> None:
        """Let the thread end at the next entry, which `poke` causes."""
        self._stop.set()
        poke()
        self._thread.join(300)
        assert not self._thread.is_alive()
        self._entries.close()


@with_broker
def test_follow_returns_records_written_later(broker, client, topic):
    client.commit(topic, topic, 0, 1)
    follower = Follower(read_live(broker.bootstrap_servers, follow=True))
    follower.wait_for(lambda seen: committed_by(seen, topic) == [(topic, 0, 1)])
    client.commit(topic, topic, 0, 2, 3)
    follower.wait_for(lambda seen: committed_by(seen, topic) == [(topic, 0, 1), (topic, 0, 2), (topic, 0, 3)])
    with client.producer(topic) as producer:
        client.transact(producer, topic, topic, 4, commit=False)
        client.transact(producer, topic, topic, 5, commit=True)
    follower.wait_for(lambda seen: committed_by(seen, topic)[3:] == [(topic, 0, 5)])
    follower.end(lambda: client.commit(topic, topic, 0, 6))


@with_broker
@pytest.mark.parametrize("error", [NodeNotReadyError, UnknownBrokerIdError])
def test_poll_is_repeated_after_an_error_about_a_lost_broker(broker, client, topic, error, monkeypatch):
    poll, raised = KafkaConsumer.poll, []

    def fail_once(consumer: KafkaConsumer, **how: Any) -> Any:
        if raised:
            return poll(consumer, **how)
        (gone,) = (one.node_id for one in consumer._client.cluster.brokers())
        if error is UnknownBrokerIdError:  # kafka-python also leaves a pending request that it does not send
            consumer._fetcher._nodes_with_pending_fetch_requests.add(gone)
        raised.append(gone)
        raise error(gone)

    group = f"g-{topic}"
    client.commit(group, topic, 0, 7)
    monkeypatch.setattr(KafkaConsumer, "poll", fail_once)
    entries = list(read_live(broker.bootstrap_servers, stall_timeout_ms=300_000))
    assert raised
    assert committed_by(entries, group) == [(topic, 0, 7)]


class OtherFetcher:
    """The fetcher of a kafka-python version with other private names."""

    def __init__(self, fetcher: Any) -> None:
        self._of = fetcher

    def __getattr__(self, name: str) -> Any:
        if name == "_nodes_with_pending_fetch_requests":
            raise AttributeError(name)
        return getattr(self._of, name)


@with_broker
def test_blocked_client_of_another_version_is_replaced_at_its_position(broker, client, topic, monkeypatch):
    poll, stuck = KafkaConsumer.poll, []

    def block_after_a_lost_broker(consumer: KafkaConsumer, **how: Any) -> Any:
        if consumer in stuck:
            return {}
        if not stuck and any((consumer.position(at) or 0) > 1 for at in consumer.assignment()):
            stuck.append(consumer)
            consumer._fetcher = OtherFetcher(consumer._fetcher)
            raise UnknownBrokerIdError(0)
        return poll(consumer, **how)

    group = f"g-{topic}"
    client.commit(group, topic, 0, 5, 6, 7, 8)
    monkeypatch.setattr(KafkaConsumer, "poll", block_after_a_lost_broker)
    entries = list(read_live(broker.bootstrap_servers, stall_timeout_ms=300_000, max_poll_records=1))
    assert stuck
    assert committed_by(entries, group) == [(topic, 0, offset) for offset in (5, 6, 7, 8)]


@with_broker
def test_follow_can_be_interrupted_while_waiting(broker):
    """Ctrl-C ends a waiting program at once, with KeyboardInterrupt."""
    import signal
    import sys

    code = (
        "import sys\nfrom quorate.codecs.live import read_live\n"
        "try:\n    for entry in read_live(sys.argv[1], follow=True): print('entry', flush=True)\n"
        "except KeyboardInterrupt: print('interrupted')"
    )
    client = Client(broker)
    client.create_topic("interrupted", 1)
    client.commit("interrupted", "interrupted", 0, 1)
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", code, broker.bootstrap_servers],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout.readline() == "entry\n"
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert out.endswith("interrupted\n")
    assert "Traceback" not in err


@with_broker
def test_follow_survives_a_broker_restart_and_reading_to_the_end_fails(broker, client, topic):
    client.commit("g", topic, 0, *range(40))
    notices: list[str] = []
    following = read_live(broker.bootstrap_servers, follow=True, reconnect_backoff_max_ms=500, on_notice=notices.append)
    follower = Follower(following)
    follower.wait_for(lambda seen: len(committed_by(seen, "g")) == 40)
    # One batch per fetch, so that some are left when the broker stops.
    slow = read_live(
        broker.bootstrap_servers,
        stall_timeout_ms=1_500,
        fetch_max_bytes=1,
        max_partition_fetch_bytes=1,
        max_poll_records=1,
    )
    next(slow)
    broker.stop()
    try:
        with pytest.raises(LiveError, match=r"no progress for 1,500 ms \(__consumer_offsets-\d at \d+ of \d+"):
            list(slow)
    finally:
        broker.start()
    client.commit("g", topic, 0, 99)
    follower.wait_for(lambda seen: committed_by(seen, "g")[-1] == (topic, 0, 99), seconds=60)
    lost, back = notices
    assert "connection lost to the leaders of 3 of 3 partitions" in lost
    assert "connected again after" in back
    follower.end(lambda: client.commit("g", topic, 0, 100))
