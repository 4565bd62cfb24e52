"""`quorate hash` on logs and metadata of real brokers."""

import json
from pathlib import Path

import pytest

from tests.coordinator.captures import CAPTURES, checkpoints

CONSUMER = CAPTURES / "consumer-4.3"
BEFORE_THE_RACK_CHANGED = "2026-11-21T08:18:00"


@pytest.fixture(scope="module")
def topology(tmp_path_factory):
    """A description of the topics at the end of the capture."""
    image = list(checkpoints("consumer-4.3"))[-1].image
    topics = {
        name: {"id": str(topic.id), "racks": [list(racks) for racks in image.racks(topic)]}
        for name, topic in image.topics.items()
    }
    path = tmp_path_factory.mktemp("hash") / "topics.json"
    path.write_text(json.dumps({"topics": topics}))
    return path


def changed(topology: Path, tmp_path: Path, topic: str, **fields: object) -> Path:
    described = json.loads(topology.read_text())
    described["topics"][topic] |= fields
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(described))
    return path


def test_computed_hashes_equal_those_that_brokers_stored(quorate, topology):
    ended = quorate("hash", "group", CONSUMER, "--topology", topology, "--check")
    assert (ended.status, ended.lines) == (
        0,
        [
            "GROUP          TYPE      GROUP-EPOCH  STORED              COMPUTED            VERDICT",
            "cg-java-regex  Consumer            4  0xf26e2c0ad793283f  0xf26e2c0ad793283f  same",
            "cg-range       Consumer           11  0x3f54b0d2685c0dc5  0x3f54b0d2685c0dc5  same",
            "cg-regex       Consumer            6  0xf26e2c0ad793283f  0xf26e2c0ad793283f  same",
            "cg-uniform     Consumer           15  0x397be04fbd1b1515  0x397be04fbd1b1515  same",
        ],
    )


def test_the_hash_of_a_streams_group_covers_source_and_internal_topics(quorate, tmp_path):
    image = list(checkpoints("streams-4.3"))[-1].image
    topics = {
        name: {"id": str(topic.id), "racks": [list(racks) for racks in image.racks(topic)]}
        for name, topic in image.topics.items()
        if not name.startswith("__")
    }
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": topics}))
    ended = quorate("hash", "group", CAPTURES / "streams-4.3", "--topology", path, "--json", "--check")
    assert ended.status == 0
    rows = {row["group"]: row for row in json.loads(ended.out)}
    assert {(row["type"], row["verdict"]) for row in rows.values()} == {("Streams", "same")}
    assert rows["word-count"]["topics"].keys() == {
        "words",
        "word-count-counts-changelog",
        "word-count-regroup-repartition",
    }
    topics["word-count-counts-changelog"]["racks"].append(["rack-a"])
    path.write_text(json.dumps({"topics": topics}))
    grown = quorate("hash", "group", CAPTURES / "streams-4.3", "--topology", path, "--check")
    assert grown.status == 1
    assert grown.lines[-1].startswith(
        "word-count: when it was stored, topic word-count-counts-changelog had 3 partitions"
    )


def test_a_broker_that_moved_to_another_rack_explains_an_older_hash(quorate, topology):
    ended = quorate(
        "hash", "group", CONSUMER, "--topology", topology, "--group", "cg-regex", "--at", BEFORE_THE_RACK_CHANGED
    )
    assert ended.status == 0, "only --check makes a difference an error"
    assert ended.lines[-1] == "cg-regex: when it was stored, each broker in rack rack-z was in rack rack-b"


def test_check_exits_with_1_if_a_hash_differs(quorate, topology, tmp_path):
    grown = changed(topology, tmp_path, "t-gamma", racks=[["rack-a"]] * 7)
    ended = quorate("hash", "group", CONSUMER, "--topology", grown, "--check", "--json")
    rows = {row["group"]: row for row in json.loads(ended.out)}
    assert ended.status == 1
    assert rows["cg-uniform"]["verdict"] == "differs"
    assert [difference["kind"] for difference in rows["cg-uniform"]["differences"]] == ["unexplained"]


def test_an_added_partition_explains_a_hash(quorate, topology, tmp_path):
    racks = json.loads(topology.read_text())["topics"]["t-gamma"]["racks"]
    grown = changed(topology, tmp_path, "t-gamma", racks=[*racks, ["rack-a"]])
    rows = json.loads(quorate("hash", "group", CONSUMER, "--topology", grown, "--json").out)
    result = {
        difference["sentence"] for row in rows for difference in row["differences"] if row["group"] == "cg-uniform"
    }
    assert result == {"when it was stored, topic t-gamma had 3 partitions; now it has 4"}


def test_a_record_of_type_4_is_compared_topic_by_topic(quorate, upgrade, tmp_path):
    last = list(checkpoints("upgrade-4.0-to-4.3-and-back"))[-1].image
    topics = {
        name: {"id": str(topic.id), "partitions": topic.partitions + (name == "orders")}
        for name, topic in last.topics.items()
    }
    path = tmp_path / "topics.json"
    path.write_text(json.dumps({"topics": topics}))
    ended = quorate("hash", "group", upgrade, "--topology", path, "--group", "bill-orders", "--check")
    assert ended.status == 1
    assert "record of type 4" in ended.lines[1]
    assert ended.lines[1].endswith("differs")
    assert ended.lines[3:] == ["bill-orders: when it was stored, topic orders had 9 partitions; now it has 10"]


def test_topics_have_hashes_of_both_algorithms(quorate, topology):
    released = json.loads(quorate("hash", "topic", "--topology", topology, "t-*", "--json").out)
    of_the_text = json.loads(
        quorate("hash", "topic", "--topology", topology, "t-alpha", "--form", "murmur3", "--json").out
    )
    assert [row["topic"] for row in released] == ["t-alpha", "t-beta", "t-gamma"]
    assert released[0]["hex"] == "0x49f88936302db4d8"
    assert of_the_text[0]["metadata_hash"] != released[0]["metadata_hash"]
    shown = quorate("hash", "topic", "--topology", topology, "t-alpha")
    assert shown.lines[1].split() == ["t-alpha", "bCZQEaqYRvGPED6aRWBxvg", "6", "0x49f88936302db4d8"]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["hash", "group", CONSUMER], "a log does not describe topics"),
        (["hash", "topic"], "give either -b"),
        (["hash", "topic", "--topology", "TOPOLOGY", "nosuch"], "no topic matches nosuch"),
    ],
)
def test_wrong_options_are_an_error(quorate, topology, arguments, said):
    ended = quorate(*(topology if argument == "TOPOLOGY" else argument for argument in arguments))
    assert ended.status == 1
    assert said in ended.err


def test_a_topic_without_an_id_cannot_be_hashed(quorate, tmp_path):
    path = tmp_path / "topics.yaml"
    path.write_text("topics: {orders: 3}")
    ended = quorate("hash", "topic", "--topology", path)
    assert ended.status == 1
    assert "topic orders has no id" in ended.err


def test_classic_groups_have_no_hash(quorate, topology):
    ended = quorate("hash", "group", CAPTURES / "classic-3.9", "--topology", topology, "--group", "c-*")
    assert (ended.status, ended.out, ended.err) == (0, "", "no hash to show: 8 groups, all of the classic protocol\n")
