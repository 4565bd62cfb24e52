"""Descriptions of groups: YAML equals JSON, errors have their place, and writing round-trips."""

import json

import pytest
import yaml

from quorate.assignors import Member, Topic, TopicPartition
from quorate.assignors.what_if import description as assign_describe
from quorate.assignors.what_if.description import described, read_description, read_topology
from quorate.cli.assign import EXAMPLES
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError


@pytest.fixture
def read(tmp_path):
    """Return a function that reads the situation from a text."""

    def call(text, name="group.yaml"):
        path = tmp_path / name
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        return read_description(str(path))

    return call


def shape(situation):
    """Return the parts of a situation that can be compared."""
    return (
        situation.group_id,
        situation.protocol,
        situation.assignor,
        dict(situation.members),
        situation.topology.topics,
        {member: list(owned) for member, owned in situation.current.items()},
        situation.lags,
    )


FULL = """
group: web
protocol: consumer
assignor: uniform
brokers: {1: a, 2: b, 3: }
topics:
  plain: 3
  racked:
    partitions: 5
    racks: [[a, b], [b, null]]
    lag: {0: 7, 4: 0}
  placed:
    replicas: [[1, 2], [3, 1]]
    id: AAAAAAAAAAAAAAAAAAAAAQ
    lag: [1, null]
  gaps:
    partitions: 2
    numbers: [3, 8]
    lag: 5
members:
  m1: {topics: [plain, racked], rack: a, instance_id: one, owned: {racked: [4, 0], plain: [1]}, generation: 9}
  m2: {rack: b}
  m3:
  7: {rack: 3}
"""


def test_a_description_with_all_fields(read):
    found = read(FULL)
    assert (found.group_id, found.protocol, found.assignor) == ("web", "consumer", "uniform")
    assert found.topology.topics == (
        Topic(name="plain", partitions=3),
        Topic(name="racked", partitions=5, racks=(("a", "b"), ("b", None), ("a", "b"), ("b", None), ("a", "b"))),
        Topic(name="placed", partitions=2, racks=(("a", "b"), (None, "a")), id=Uuid.parse("AAAAAAAAAAAAAAAAAAAAAQ")),
        Topic(name="gaps", partitions=2, numbers=[3, 8]),
    )
    everything = ["plain", "racked", "placed", "gaps"]
    assert dict(found.members) == {
        "m1": Member(
            topics=["plain", "racked"],
            rack="a",
            instance_id="one",
            owned=(("racked", 4), ("racked", 0), ("plain", 1)),
            generation=9,
        ),
        "m2": Member(topics=everything, rack="b"),
        "m3": Member(topics=everything),
        "7": Member(topics=everything, rack="3"),
    }
    assert found.lags == {
        TopicPartition("racked", 0): 7,
        TopicPartition("racked", 4): 0,
        TopicPartition("placed", 0): 1,
        TopicPartition("gaps", 3): 5,
        TopicPartition("gaps", 8): 5,
    }


def test_yaml_and_json_are_equivalent(read):
    in_json = json.dumps(yaml.safe_load(FULL))
    assert shape(read(FULL)) == shape(read(in_json, "group.json")) == shape(read(in_json, "group"))
    assert shape(read(FULL)) == shape(read(FULL, "group")) == shape(read("\ufeff" + FULL, "bom.yaml"))


@pytest.mark.parametrize("example", sorted(path.stem for path in EXAMPLES.glob("*.yaml")))
def test_a_written_description_reads_as_the_same_situation(read, example):
    for text in (FULL, (EXAMPLES / f"{example}.yaml").read_text()):
        before = read(text)
        assert shape(read(json.dumps(described(before)), "again.json")) == shape(before)


def test_a_topology_can_be_read_without_members(tmp_path):
    path = tmp_path / "topics.yaml"
    path.write_text("topics: {t: {partitions: 2, lag: 3}, u: 1}")
    topology, lags = read_topology(str(path))
    assert [topic.name for topic in topology.topics] == ["t", "u"]
    assert lags == {("t", 0): 3, ("t", 1): 3}


TOPICS = "topics: {t: {partitions: 3, racks: [[a], [b], [c]]}}"


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "is empty"),
        ("- a\n- b", "must be a mapping of group, protocol"),
        ("members: {}", "has no topics"),
        (TOPICS, "has no members"),
        (f"{TOPICS}\nmember: {{}}", "member: unknown field"),
        ("topics: {t: 1}\nmembers: [a]", "members: must be a mapping of member id to member, not a list"),
        ("topics: {t: many}\nmembers: {}", "topics.t: must be an integer, not 'many'"),
        ("topics: {t: -1}\nmembers: {}", "topics.t: -1 is out of range: 0 to 10,000,000"),
        ("topics: {t: 99999999999}\nmembers: {}", "topics.t: 99,999,999,999 is out of range"),
        ("topics: {t: {}}\nmembers: {}", "topics.t: has no number of partitions"),
        ("topics: {t: {partition: 1}}\nmembers: {}", "topics.t.partition: unknown field"),
        ("topics: {t: {racks: a}}\nmembers: {}", "topics.t.racks: must be a list of lists of racks"),
        ("topics: {t: {racks: [a]}}\nmembers: {}", r"topics.t.racks\[0\]: must be a list of racks"),
        ("topics: {t: {racks: [[no]]}}\nmembers: {}", r"topics.t.racks\[0\]\[0\]: must be text, not False"),
        ("topics: {t: {racks: [[a]], replicas: [[1]]}}\nmembers: {}", "topics.t.replicas: racks are given, too"),
        (
            "topics: {t: {partitions: 1, racks: [[a], [b]]}}\nmembers: {}",
            "topics.t.racks: has 2 entries for 1 partitions",
        ),
        (
            "topics: {t: {replicas: [[1]]}}\nmembers: {}",
            r"topics.t.replicas\[0\]\[0\]: broker 1 is not among the brokers",
        ),
        ("brokers: {²: a}\ntopics: {}\nmembers: {}", "brokers.²: broker ids are numbers"),
        ("topics: {t: {partitions: 2, lag: {²: 1}}}\nmembers: {}", "topics.t.lag.²: ² is not a partition of t"),
        (
            "topics: {t: {partitions: 1, lag: 9223372036854775808}}\nmembers: {}",
            "topics.t.lag: 9,223,.* is out of range",
        ),
        (
            "topics: {t: {partitions: 1, numbers: [2147483648]}}\nmembers: {}",
            "numbers.0.: 2,147,483,648 is out of range",
        ),
        ("brokers: {x: a}\ntopics: {}\nmembers: {}", "brokers.x: broker ids are numbers"),
        ("topics: {t: {partitions: 2, numbers: [1, 1]}}\nmembers: {}", "topics.t.numbers: must be 2 different numbers"),
        ("topics: {t: {partitions: 1, id: xyz}}\nmembers: {}", "topics.t.id: a uuid has 22"),
        ("topics: {t: {partitions: 2, lag: [1]}}\nmembers: {}", "topics.t.lag: has 1 entries for 2 partitions"),
        ("topics: {t: {partitions: 2, lag: {2: 1}}}\nmembers: {}", "topics.t.lag.2: 2 is not a partition of t"),
        (
            "topics: {t: {partitions: 2, lag: [1, 0.5]}}\nmembers: {}",
            r"topics.t.lag\[1\]: must be an integer, not 0.5",
        ),
        (f"{TOPICS}\nprotocol: kraft\nmembers: {{}}", "protocol: unknown value 'kraft'"),
        (f"{TOPICS}\nmembers: {{m: {{rack: yes}}}}", "members.m.rack: must be text, not True"),
        (f"{TOPICS}\nmembers: {{m: {{topics: t}}}}", "members.m.topics: must be a list of topic names, not 't'"),
        (f"{TOPICS}\nmembers: {{m: {{owned: {{u: [0]}}}}}}", "members.m.owned.u: is not among the topics"),
        (f"{TOPICS}\nmembers: {{m: {{owned: {{t: [0, 3]}}}}}}", r"members.m.owned.t\[1\]: 3 is not a partition of t"),
        (f"{TOPICS}\nmembers: {{m: {{owned: {{t: [0, 0]}}}}}}", r"members.m.owned.t\[1\]: 0 is listed twice"),
        (f"{TOPICS}\nmembers: {{m: {{generation: -2}}}}", "members.m.generation: -2 is out of range"),
        (
            f"{TOPICS}\nmembers: {{m: {{instance_id: i}}, n: {{instance_id: i}}}}",
            "members.n.instance_id: 'i' is also that of m",
        ),
        (f"{TOPICS}\nmembers: {{true: {{}}}}", "members: the name True is not text"),
        ("topics: {t: 1, t: 2}", "line 1: duplicate name 't' in a mapping"),
        ("topics: {t: 1\nmembers", "is not YAML"),
        ("topics: !!python/object:os.system {}", "line 1, column 9: is not YAML"),
        ("? [a, b]\n: c", "is not YAML"),
        (b"\xff\xfe\x00", "is not text"),
    ],
)
def test_mistakes_in_yaml_name_their_place(read, text, complaint):
    with pytest.raises(InputError, match=complaint) as caught:
        read(text)
    assert "group.yaml" in caught.value.message
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("{", "line 1, column 2: is not JSON"),
        ('{"topics": {"t": 1, "t": 2}}', "duplicate name 't' in an object"),
        ('{"topics": {"t": 1.5}, "members": {}}', "topics.t: must be an integer, not 1.5"),
        ("[" * 100_000, "is nested too deeply"),
        ("null", "is empty"),
    ],
)
def test_mistakes_in_json_name_their_place(read, text, complaint):
    with pytest.raises(InputError, match=complaint):
        read(text, "group.json")


def test_an_endless_file_is_rejected(monkeypatch):
    monkeypatch.setattr(assign_describe, "MOST_BYTES", 1_000)
    with pytest.raises(InputError, match="/dev/zero: exceeds"):
        read_description("/dev/zero")


def test_close_names_are_suggested(read):
    with pytest.raises(InputError) as caught:
        read(f"{TOPICS}\nmembers: {{m: {{racks: a}}}}")
    assert (caught.value.message.rpartition(": ")[2], caught.value.remedy) == (
        "unknown field",
        ("did you mean rack?",),
    )


def test_yaml_anchors_and_merges_work(read):
    found = read("topics: {t: 2}\nmembers:\n  m1: &one {rack: a, topics: [t]}\n  m2:\n    <<: *one\n    rack: b\n")
    assert [member.rack for member in found.members.values()] == ["a", "b"]
