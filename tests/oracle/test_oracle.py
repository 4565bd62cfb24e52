"""Every op of the oracle, compared with bytes and texts of real brokers."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.oracle.client import HERE, Oracle, OracleError
from tests.oracle.fixtures import need_oracle
from tests.oracle.shared import SharedOracle

pytestmark = pytest.mark.oracle

METADATA_V0 = {"type": "ConsumerGroupMetadata", "key": {"groupId": "cg"}, "value": {"epoch": 5, "metadataHash": 9}}


def test_versions_has_the_release_and_apis(oracle: Oracle) -> None:
    response = oracle.call("versions")
    assert response["kafka"] == "4.4.0"
    assert response["apis"]["ConsumerGroupHeartbeat"] == [0, 1]


def test_encodes_and_decodes_records_of_each_topic(oracle: Oracle) -> None:
    encoded = oracle.call("encode", **METADATA_V0)
    assert (encoded["key"], encoded["value"]) == ("000300026367", "0000000000050100080000000000000009")
    decoded = oracle.call("decode", key=encoded["key"], value="00000000000502000800000000000000090503aabbcc")
    assert (decoded["type"], decoded["version"], decoded["v"]) == (
        "ConsumerGroupMetadata",
        0,
        {"epoch": 5, "metadataHash": 9},
    )
    assert decoded["unknownTags"] == [{"tag": 5, "hex": "aabbcc"}]
    assert decoded["rewritten"] == "00000000000502000800000000000000090503aabbcc"

    share = oracle.call(
        "encode",
        topic="__share_group_state",
        type="ShareSnapshot",
        key={"groupId": "sg", "topicId": "AQIDBAUGBwgREhMUFRYXGA", "partition": 3},
        value=None,
    )
    assert (share["key"], share["value"]) == ("0000000273670102030405060708111213141516171800000003", None)

    log = oracle.call("decode", topic="__transaction_state", key="0000000574786e2d31", value=None)
    assert (log["type"], log["k"], log["v"]) == ("TransactionLog", {"transactionalId": "txn-1"}, None)


def test_undecodable_bytes_are_kafkas_errors(oracle: Oracle) -> None:
    assert oracle.call("decode", key="006300", value=None)["error"]["class"] == "UnknownRecordTypeException"
    assert oracle.call("decode", key="000300026367", value="0001")["error"]["class"] == "UnknownRecordVersionException"


def test_records_are_printed_as_by_the_console_consumer_and_dump_log_segments(oracle: Oracle) -> None:
    key, value = "0001000767726f75702d61000374c3a900000007", "0003000000000000002a0000000500026d640000018bcfe56800"
    text = oracle.call("consoleFormat", formatter="OffsetsMessageFormatter", key=key, value=value)["text"]
    data = {"offset": 42, "leaderEpoch": 5, "metadata": "md", "commitTimestamp": 1700000000000}
    assert json.loads(text) == {
        "key": {"type": 1, "data": {"group": "group-a", "topic": "té", "partition": 7}},
        "value": {"version": 3, "data": data},
    }
    assert oracle.call("consoleFormat", formatter="GroupMetadataMessageFormatter", key=key, value=value)["text"] == ""
    dumped = oracle.call("dumpRecord", key=key, value=value)
    assert json.loads(dumped["payload"]) == {"version": "3", "data": data}


@pytest.mark.parametrize("magic", [0, 1, 2])
@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_writes_and_reads_batches(oracle: Oracle, tmp_path: Path, magic: int, compression: str) -> None:
    if compression == "zstd" and magic < 2:
        with pytest.raises(OracleError, match="ZStandard"):
            oracle.call("writeBatch", magic=magic, compression=compression, records=[])
        return
    records = [{"timestamp": 17, "key": "00", "value": "0102"}, {"timestamp": 18, "key": None, "value": None}]
    data = bytes.fromhex(
        oracle.call("writeBatch", magic=magic, compression=compression, records=records, baseOffset=40)["hex"]
    )
    path = tmp_path / "00000000000000000040.log"
    path.write_bytes(data + data[:20])
    from_file = oracle.call("readSegment", path=str(path))
    from_hex = oracle.call("readSegment", hex=(data + data[:20]).hex())
    for response in (from_file, from_hex):
        assert response["validBytes"] == len(data)
        read = [record for batch in response["batches"] for record in batch["records"]]
        expected = [(40, 17 if magic else -1, "00", "0102"), (41, 18 if magic else -1, None, None)]
        assert [(r["offset"], r["timestamp"], r["key"], r["value"]) for r in read] == expected
        assert {batch["compression"] for batch in response["batches"]} == {compression}


def test_writes_transaction_markers(oracle: Oracle) -> None:
    data = oracle.call(
        "writeBatch", control="ABORT", coordinatorEpoch=7, transactional=True, producerId=5, producerEpoch=1
    )["hex"]
    (batch,) = oracle.call("readSegment", hex=data)["batches"]
    assert (batch["control"], batch["transactional"], batch["valid"]) == (True, True, True)
    assert [(r["control"], r["coordinatorEpoch"]) for r in batch["records"]] == [("ABORT", 7)]


def test_reads_and_writes_protocol_messages_and_sticky_user_data(oracle: Oracle) -> None:
    hexes = oracle.call("subscription", version=3, value={"topics": ["foo"], "userData": None, "rackId": "a"})["hex"]
    read = oracle.call("subscription", hex="0009" + hexes[4:] + "ff")
    assert (read["version"], read["remaining"], read["value"]["rackId"]) == (9, 1, "a")
    assert oracle.call("subscription", hex="ffff")["error"]["class"] == "SchemaException"
    sticky = oracle.call("stickyUserData", partitions=["foo-2"], generation=7)["hex"]
    assert oracle.call("stickyUserData", hex=sticky)["partitions"] == [{"topic": "foo", "partition": 2}]


def test_many_continues_after_a_failed_op(oracle: Oracle) -> None:
    responses = oracle.call("many", ops=[{"op": "nope"}, {"op": "groupHash", "topics": {}}])["answers"]
    assert responses[0]["error"]["driver"]
    assert responses[1]["hash"] == 0


def test_heartbeat_returns_records_and_an_assignment(oracle: Oracle) -> None:
    topic = {"name": "t", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": [[0], [0]]}
    body: dict[str, Any] = {
        "groupId": "g",
        "memberId": "m",
        "memberEpoch": 0,
        "rebalanceTimeoutMs": 1000,
        "subscribedTopicNames": ["t"],
        "topicPartitions": [],
    }
    _, _, response = oracle.call_many(
        [
            {"op": "config", "decode": True, "group.consumer.assignment.interval.ms": 0},
            {"op": "image", "brokers": [{"id": 0, "rack": "a"}], "topics": [topic]},
            {"op": "request", "api": "ConsumerGroupHeartbeat", "version": 1, "body": body},
        ]
    )
    assert response["response"]["assignment"] == {"topicPartitions": [{"topicId": topic["id"], "partitions": [0, 1]}]}
    assert [record["type"] for record in response["records"]] == [
        "ConsumerGroupMemberMetadata",
        "ConsumerGroupMetadata",
        "ConsumerGroupTargetAssignmentMember",
        "ConsumerGroupTargetAssignmentMetadata",
        "ConsumerGroupCurrentMemberAssignment",
    ]


def test_rejected_line_is_an_error_with_a_reason_and_the_oracle_continues(oracle: Oracle) -> None:
    with pytest.raises(OracleError, match="no record type Nope"):
        oracle.call("encode", type="Nope", key={}, value=None)
    assert oracle.call("groupHash", topics={})["hash"] == 0


def test_more_lines_than_the_pipes_hold_are_exchanged(oracle: Oracle) -> None:
    responses = oracle.call_many({"op": "groupHash", "topics": {"t" * 1000: n}} for n in range(3000))
    assert len({response["hash"] for response in responses}) == 3000


def test_ended_program_is_reported_with_its_stderr() -> None:
    with Oracle(["sh", "-c", "echo broken >&2"]) as broken, pytest.raises(OracleError, match="broken"):
        broken.call("versions")


def test_workers_share_a_program_and_have_a_shard_each(tmp_path: Path) -> None:
    need_oracle()
    topic = {"name": "t", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": [[0]]}
    member = {"groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []}
    request = {"api": "ConsumerGroupHeartbeat", "body": {**member, "subscribedTopicRegex": "t"}}
    with SharedOracle(tmp_path) as one, SharedOracle(tmp_path) as other:
        assert one.process_id == other.process_id
        one.call("config", decode=True, denied={"User:ANONYMOUS": ["t"]})
        other.call("config", decode=True)
        for program in (one, other):
            program.call("image", topics=[topic])
            program.call("load", records=[])  # a new coordinator
            program.call("request", **request)
        logs = [program.call("log")["records"] for program in (one, other)]
    regexes = [[each["v"]["topics"] for each in log if "RegularExpression" in each["type"]] for log in logs]
    assert regexes == [[[]], [["t"]]]


def test_a_shared_program_ends_with_the_last_connection(tmp_path: Path) -> None:
    need_oracle()
    with SharedOracle(tmp_path) as first:
        with SharedOracle(tmp_path):
            pass
        assert first.call("groupHash", topics={})["hash"] == 0
    deadline = time.monotonic() + 30
    while (later := SharedOracle(tmp_path)).process_id == first.process_id:  # not yet ended
        later.close()
        assert time.monotonic() < deadline
    with later:
        later._kill()
        with pytest.raises(OracleError, match="the program ended"):
            later.call("groupHash", topics={})


@pytest.mark.parametrize("mode", ["decode", "encode", "segment"])
def test_serde_benchmark_covers_all_records(oracle: Oracle, tmp_path: Path, mode: str) -> None:
    pairs: list[tuple[bytes, bytes | None]] = [
        (bytes.fromhex("000300026367"), n.to_bytes(6, "big") + b"\x00") for n in range(50)
    ]
    pairs.append((bytes.fromhex("000300026367"), None))
    path = tmp_path / "records"
    if mode == "segment":
        records = [
            {"timestamp": 0, "key": key.hex(), "value": None if value is None else value.hex()} for key, value in pairs
        ]
        batch = bytes.fromhex(oracle.call("writeBatch", records=records)["hex"])
        marker = bytes.fromhex(
            oracle.call(
                "writeBatch", control="COMMIT", transactional=True, producerId=1, producerEpoch=0, baseOffset=51
            )["hex"]
        )
        unknown = bytes.fromhex(
            oracle.call("writeBatch", records=[{"timestamp": 0, "key": "006300", "value": None}], baseOffset=52)["hex"]
        )
        path.write_bytes(batch + marker + unknown + batch[:30])
    else:
        path.write_bytes(b"".join(_with_length(part) for pair in pairs for part in pair))
    options = "-Xmx256m -Dserde.warmUpMs=0 -Dserde.roundMs=1"
    command = [str(HERE / "serde-bench"), str(path), mode]
    done = subprocess.run(
        command, env={**os.environ, "ORACLE_JAVA_OPTS": options}, capture_output=True, encoding="utf-8", check=True
    )
    measured = json.loads(done.stdout)
    assert (measured["records"], measured["skipped"]) == ((52, 1) if mode == "segment" else (51, 0))
    assert measured["records_per_s"] == pytest.approx(1e9 / measured["ns_per_record"])


def _with_length(data: bytes | None) -> bytes:
    return b"\xff" * 4 if data is None else len(data).to_bytes(4, "big") + data


def test_oracle_of_kafka_4_0_writes_topics_instead_of_hashes() -> None:
    need_oracle("4.0")
    topics = [{"name": "t", "id": "AAAAAAAAAAEAAAAAAAAAAQ", "partitions": [[0]]}]
    with Oracle(release="4.0") as older:
        assert older.call("versions")["kafka"] == "4.0.2"
        older.call("image", topics=topics)
        beat = {"groupId": "g", "memberId": "m", "memberEpoch": 0, "rebalanceTimeoutMs": 1000, "topicPartitions": []}
        response = older.call("request", api="ConsumerGroupHeartbeat", body={**beat, "subscribedTopicNames": ["t"]})
    assert [record["key"][:4] for record in response["records"]] == ["0005", "0004", "0003", "0007", "0006", "0008"]
