"""Client-side assignors of earlier releases, as for an older Java leader or `--kafka-version`."""

import json
from pathlib import Path

import pytest

from quorate.assignors import AssignorError, Member, Topology
from quorate.assignors.registry import client_assignor
from quorate.codecs.releases import KafkaVersion
from tests.assignors.read_cases import read_case

FILE = Path(__file__).resolve().parents[1] / "data" / "assignor_vectors_older.jsonl"
VECTORS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]


def result(case, **options):
    members, topology = read_case(case)
    assignment = client_assignor(case["assignor"], **options).assign(members, topology)
    return {member: [f"{topic}-{number}" for topic, number in given] for member, given in assignment.items()}


CHANGED = [("3.4.1", "range"), ("3.4.1", "sticky"), ("3.4.1", "cooperative-sticky")]
CHANGED += [("3.6.2", "sticky"), ("3.6.2", "cooperative-sticky")]


@pytest.mark.parametrize(("kafka", "name"), CHANGED)
def test_recorded_results_of_earlier_releases(kafka, name):
    """No result is that of 4.3.1."""
    vectors = [one for one in VECTORS if (one["kafka"], one["case"]["assignor"]) == (kafka, name)]
    assert len(vectors) > 10
    for vector in vectors:
        assert result(vector["case"], version=KafkaVersion.parse(kafka)) == vector["assignment"]
        assert result(vector["case"]) != vector["assignment"]


@pytest.mark.parametrize("name", ["range", "sticky", "cooperative-sticky"])
def test_racks_count_since_3_5(name):
    topology = Topology.of({"t": [["b"], ["a"]], "u": [["b"], ["a"], ["a"]]})
    members = {"m1": Member(topics=["t", "u"], rack="a"), "m2": Member(topics=["t", "u"], rack="b")}
    without = {member: Member(topics=one.topics) for member, one in members.items()}
    versions = [KafkaVersion(3, 4), KafkaVersion(3, 5)]
    before, since = (dict(client_assignor(name, version=version).assign(members, topology)) for version in versions)
    assert before == dict(client_assignor(name, version=versions[0]).assign(without, topology)) != since


@pytest.mark.parametrize("name", ["sticky", "cooperative-sticky"])
def test_an_unsupported_release_is_rejected(name):
    assignor = client_assignor(name, version=KafkaVersion(2, 8))
    with pytest.raises(AssignorError, match=f"{name} supports Kafka 3.0.0 to 4.4.0, not 2.8.0; leave `version` out"):
        assignor.assign({"m": Member(topics=["t"])}, Topology.of({"t": 1}))
