"""`quorate groups -b` and `quorate decode --follow` on share groups of an embedded cluster."""

import json
import signal

import pytest
from confluent_kafka import AcknowledgeType, Producer, ShareConsumer
from confluent_kafka.admin import AdminClient, AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from quorate.cluster import EmbeddedCluster
from quorate.cluster.waiting import wait_for

LIMIT_MS = 60_000
QUICK = {
    "offsets.topic.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 2,
    "group.share.assignment.interval.ms": 0,
    "group.share.min.heartbeat.interval.ms": 200,
    "group.share.heartbeat.interval.ms": 200,
}


@pytest.fixture
def cluster():
    with EmbeddedCluster(properties=QUICK, seed=1) as made:
        made.create_topic("jobs", partitions=1)
        yield made


def reads_from_the_beginning(cluster, group):
    entry = ConfigEntry("share.auto.offset.reset", "earliest", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ResourceType.GROUP, group, incremental_configs=[entry])
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap_servers})
    for done in admin.incremental_alter_configs([resource]).values():
        done.result(LIMIT_MS / 1000)


def produce(cluster, count):
    producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 0})
    for number in range(count):
        producer.produce("jobs", value=b"%d" % number)
    assert producer.flush(LIMIT_MS / 1000) == 0


def test_share_state_is_shown_and_followed_while_members_consume(quorate, start, cluster):
    """Of ten records, the first four are accepted, number 6 is rejected, and others released."""
    servers = cluster.bootstrap_servers
    reads_from_the_beginning(cluster, "workers")
    produce(cluster, 10)
    types = dict.fromkeys(range(4), AcknowledgeType.ACCEPT) | {6: AcknowledgeType.REJECT}
    consumer = ShareConsumer(
        {"bootstrap.servers": servers, "group.id": "workers", "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe(["jobs"])
    seen = set()

    def consumed():
        for message in consumer.poll(timeout=0.3):
            if message.error() is None:
                number = int(message.value())
                consumer.acknowledge(message, types.get(number, AcknowledgeType.RELEASE))
                seen.add(number)
        return len(seen) == 10

    try:
        wait_for("ten records consumed", consumed, LIMIT_MS)
        consumer.commit_sync(timeout=LIMIT_MS / 1000)
        follow = start("decode", "-b", servers, "--topic", "__share_group_state", "--follow", "--group", "workers")
        record = json.loads(follow.stdout.readline())
        assert (record["name"], record["key"]["group_id"]) == ("ShareSnapshot", "workers")
    finally:
        consumer.close()

    shown = {}

    def is_stored():
        (row,) = json.loads(quorate("groups", "offsets", "-b", servers, "--group", "workers", "--json").out)
        shown.update(row)
        return row["share"] is not None and row["share"]["archived"] == 1 and row["share"]["available"] == 5

    wait_for("the acknowledgements are stored", is_stored, LIMIT_MS)
    share = shown["share"]
    assert (shown["log_end_offset"], shown["lag"]) == (10, 5)
    assert share["start_offset"] + share["acknowledged"] == 4
    assert share["delivery_complete_count"] == share["acknowledged"] + 1
    assert [batch["state"] for batch in share["batches"]][-3:] == ["available", "archived", "available"]
    assert share["max_delivery_count"] >= 1

    described = quorate("groups", "describe", "-b", servers, "--group", "workers")
    assert described.lines[-1].startswith("workers: 1 share-partition, lag 5, ")
    history = quorate("groups", "history", "-b", servers, "--group", "workers").out
    assert "share state of jobs 0 initialized" in history
    assert "1 record of jobs 0 archived after 1 delivery: offset 6" in history
    assert quorate("groups", "history", "-b", servers, "--group", "other").status == 1

    while (6, 6, 4) not in {
        (one["first_offset"], one["last_offset"], one["delivery_state"]) for one in record["value"]["state_batches"]
    }:
        record = json.loads(follow.stdout.readline())
    follow.send_signal(signal.SIGINT)
    assert follow.communicate(timeout=LIMIT_MS / 1000)[1] == b""
    assert follow.returncode == 130
