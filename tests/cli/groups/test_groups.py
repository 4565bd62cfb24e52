"""`quorate groups` on logs of real brokers."""

import json
from uuid import uuid4

import pytest

from quorate.cluster import FileLog
from quorate.codecs.api import OffsetCommitRequest
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.coordinator import GroupCoordinatorShard, PartitionRuntime
from quorate.coordinator.results import RequestContext
from tests.coordinator.captures import CAPTURES, checkpoints, folders

CONSUMER = CAPTURES / "consumer-4.3"


def test_groups_are_listed(quorate, upgrade):
    assert quorate("groups", "list", upgrade).lines == [
        "GROUP          TYPE      PROTOCOL  STATE   #MEMBERS  IN",
        "bill-orders    Consumer  consumer  Stable         2   1",
        "click-stream   Consumer  consumer  Stable         2   3",
        "legacy-coop    Classic   consumer  Stable         2   1",
        "legacy-java    Classic   consumer  Stable         2   2",
        "legacy-range   Classic   consumer  Stable         2   3",
        "legacy-rr      Classic   consumer  Stable         1   0",
        "legacy-static  Classic   consumer  Stable         2   2",
        "ship-orders    Consumer  consumer  Stable         4   2",
    ]


def test_describe_shows_the_cause_of_the_last_epoch_bump(quorate, upgrade):
    ended = quorate("groups", "describe", upgrade, "--group", "bill-*")
    assert ended.lines == [
        "GROUP        TYPE      ASSIGNMENT-STRATEGY  STATE   GROUP-EPOCH  TARGET-EPOCH  #MEMBERS",
        "bill-orders  Consumer  range                Stable            5             5         2",
        "",
        "bill-orders: epoch 5 (offset 84, 2026-11-21 08:01:13.158) "
        "because a broker before Kafka 4.1 took over, which keeps no metadata hash",
    ]


def test_at_shows_epoch_hash_and_cause_at_an_earlier_time(quorate, upgrade):
    for at in ("2026-11-21T08:00:12", "1795248012000", "1:60"):
        ended = quorate("groups", "describe", upgrade, "--group", "bill-orders", "--at", at)
        assert "0xee51ad666778b218" in ended.lines[1]
        assert "epoch 4 (offset 54" in ended.lines[-1]
    partition = upgrade / "__consumer_offsets-1"
    of_one = quorate("groups", "describe", partition, "--group", "bill-orders", "--at", "60")
    assert of_one.lines[0].endswith("METADATA-HASH")
    ended = quorate("groups", "describe", upgrade, "--group", "bill-orders", "--at", "1:58")
    assert " Reconciling " in ended.lines[1]
    assert ended.lines[1].split()[-2] == "2"  # members below the target epoch


def test_members_are_shown_with_rack_and_epochs(quorate, upgrade):
    ended = quorate("groups", "members", upgrade, "--group", "bill-orders", "--at", "1:58")
    assert [" ".join(line.split()) for line in ended.lines] == [
        "GROUP CONSUMER-ID GROUP-INSTANCE-ID HOST CLIENT-ID RACK PROTOCOL #PARTITIONS CURRENT-EPOCH CURRENT-ASSIGNMENT"
        " TO-GIVE-UP TARGET-EPOCH TARGET-ASSIGNMENT STATE",
        "bill-orders xfgFzHx6Rs+m234T6Qszjw - /172.19.0.1 r0 rack-a consumer 2 3 clicks.eu 2, orders 5"
        " orders 3-4 4 clicks.eu 2, orders 5-8 revoking",
        "bill-orders KGdYfLNnR+KHA/B9H+T41w inst-1 /172.19.0.1 r1 rack-b consumer 5 3 clicks.eu 0-1, orders 0-2"
        " - 4 clicks.eu 0-1, orders 0-4 stable",
    ]


def test_a_topology_provides_racks_and_locality(quorate, upgrade, tmp_path):
    path = tmp_path / "topology.yaml"
    path.write_text(
        "topics: {clicks.eu: {partitions: 3, racks: [[rack-a, rack-b], [rack-b, rack-c], [rack-c, rack-a]]}}"
    )
    ended = quorate("groups", "members", upgrade, "--group", "bill-orders", "--topology", path, "--json")
    assert all(row["local"] is None for row in json.loads(ended.out)), "orders are not in the topology"
    rows = json.loads(quorate("groups", "offsets", upgrade, "--group", "bill-orders", "--topology", path, "--json").out)
    result = [(row["topic"], row["partition"], row["rack"], row["racks"], row["locality"]) for row in rows[:4]]
    assert result == [
        ("clicks.eu", 0, "rack-b", ["rack-a", "rack-b"], "local"),
        ("clicks.eu", 1, "rack-b", ["rack-b", "rack-c"], "local"),
        ("clicks.eu", 2, "rack-a", ["rack-c", "rack-a"], "local"),
        ("orders", 0, "rack-b", None, None),
    ]
    path.write_text(
        "topics: {clicks.eu: {partitions: 3, racks: [[a], [a], [rack-a]]}, orders: {partitions: 9, racks: ["
        + "[rack-b]," * 9
        + "]}}"
    )
    rows = json.loads(quorate("groups", "members", upgrade, "--group", "bill-orders", "--topology", path, "--json").out)
    assert [(row["rack"], row["local"], row["remote"]) for row in rows] == [("rack-a", 1, 4), ("rack-b", 5, 2)]


def test_offsets_have_the_columns_of_kafkas_tool(quorate, upgrade):
    ended = quorate("groups", "offsets", upgrade, "--group", "bill-orders")
    assert ended.lines[0].split() == [
        *("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "COMMITTED", "CONSUMER-ID", "HOST", "CLIENT-ID", "RACK")
    ]
    assert " ".join(ended.lines[3].split()) == (
        "bill-orders clicks.eu 2 3 2026-11-21 08:01:58.980 xfgFzHx6Rs+m234T6Qszjw /172.19.0.1 r0 rack-a"
    )


@pytest.mark.parametrize("capture", ["consumer-4.3", "classic-3.9", "share-4.3", "streams-4.3", "transactions-4.3"])
def test_states_epochs_and_offsets_match_the_brokers_responses(quorate, capture):
    """Compared at the last checkpoint of the capture."""
    last = list(checkpoints(capture))[-1]
    path = CAPTURES / capture
    shown = {row["group"]: row for row in json.loads(quorate("groups", "describe", path, "--json").out)}
    offsets = {}
    for row in json.loads(quorate("groups", "offsets", path, "--json").out):
        if row["current_offset"] is not None:
            offsets.setdefault(row["group"], {})[f"{row['topic']}-{row['partition']}"] = row["current_offset"]
    compared = 0
    for group in last.groups:
        row = shown.get(group["groupId"])
        if row is None:
            continue
        compared += 1
        assert row["type"].lower() == group["type"].lower()
        assert row["members"] == len(group.get("members", ())) or capture == "streams-4.3"  # no members reported
        if group["groupEpoch"] is not None:
            assert (row["group_epoch"], row["target_epoch"]) == (group["groupEpoch"], group["targetAssignmentEpoch"])
        if group.get("offsets") and group["type"] != "Share":  # those are in __share_group_state
            assert offsets[group["groupId"]] == {at: one["offset"] for at, one in group["offsets"].items()}
    assert compared >= 2


def test_history_is_in_order_of_time(quorate, upgrade):
    ended = quorate("groups", "history", upgrade, "--group", "bill-orders", "--no-offsets")
    assert ended.lines[:3] == [
        "2026-11-21 07:58:52.252  1:0  bill-orders",
        "    consumer group created",
        "    member xfgFzHx6Rs+m234T6Qszjw joined (client r0, rack rack-a)",
    ]
    assert "committed" not in ended.out
    rows = json.loads(quorate("groups", "history", upgrade, "--json").out)
    assert [row["timestamp_ms"] for row in rows] == sorted(row["timestamp_ms"] for row in rows)
    assert {row["group"] for row in rows} >= {"bill-orders", "legacy-coop", "ship-orders"}
    (bump,) = (
        one
        for row in rows
        if (row["group"], row["offset"]) == ("bill-orders", 54)
        for one in row["what"]
        if one["fact"] == "EpochBumped"
    )
    assert (bump["before"], bump["after"], bump["reasons"]) == (3, 4, [{"cause": "hash", "fact": None}])
    (moved,) = (
        one
        for row in rows
        if (row["group"], row["offset"]) == ("bill-orders", 54)
        for one in row["what"]
        if one["fact"] == "TargetChanged"
    )
    assert moved["moves"][0] == {
        "partition": ["orders", 3],
        "before": ["xfgFzHx6Rs+m234T6Qszjw"],
        "after": ["KGdYfLNnR+KHA/B9H+T41w"],
    }
    assert {one["fact"] for row in rows for one in row["what"]} >= {"EpochBumped", "HashChanged", "GenerationBegan"}


def test_a_group_without_members_so_far_is_not_reported_as_one_for_offsets(quorate):
    """Kafka writes an empty group before its first member joins."""
    ended = quorate("groups", "history", CONSUMER, "--group", "cg-migrates", "--at", "3:90")
    assert [line.strip() for line in ended.lines if not line.startswith("2026")][:2] == [
        "group created, without members",
        "classic group created",
    ]


def test_groups_that_an_upgrade_affects(quorate, upgrade):
    rows = json.loads(quorate("groups", "upgrade-check", upgrade, "--json").out)
    assert [(row["group"], row["finding"]) for row in rows] == [
        ("bill-orders", "will-bump"),
        ("bill-orders", "topic-record"),
        ("click-stream", "will-bump"),
        ("click-stream", "topic-record"),
        ("legacy-coop", "not-convertible"),
        ("legacy-java", "convertible"),
        ("legacy-range", "convertible"),
        ("legacy-rr", "convertible"),
        ("legacy-static", "convertible"),
        ("ship-orders", "will-bump"),
        ("ship-orders", "topic-record"),
    ]
    disabled = quorate("groups", "upgrade-check", upgrade, "--group", "legacy-rr", "--migration-policy", "disabled")
    assert "group.consumer.migration.policy is disabled" in disabled.out
    crowded = quorate("groups", "upgrade-check", upgrade, "--group", "legacy-java", "--max-size", "1")
    assert "2 members, and group.consumer.max.size is 1" in crowded.out


def test_groups_that_a_downgrade_affects(quorate):
    rows = json.loads(quorate("groups", "upgrade-check", CAPTURES / "share-4.3", "--to", "4.0.2", "--json").out)
    assert [(row["group"], row["finding"], row["log_partition"]) for row in rows] == [
        ("share-b", "not-loadable", 0),
        ("share-c", "not-loadable", 1),
        ("share-console", "not-loadable", 1),
        ("share-a", "not-loadable", 3),
        ("plain", "will-bump", 2),
    ]
    of_one = quorate("groups", "upgrade-check", CAPTURES / "share-4.3", "--to", "4.0.2", "--group", "share-c")
    assert [line.split()[0] for line in of_one.lines[1:]] == ["share-c", "share-console"], "they are in one partition"
    streams = quorate("groups", "upgrade-check", CAPTURES / "streams-4.3", "--to", "4.0")
    assert streams.out.count("will-be-lost") == 2


def test_an_upgrade_without_effects_prints_a_note(quorate):
    ended = quorate("groups", "upgrade-check", CAPTURES / "streams-4.3")
    assert (ended.status, ended.out, ended.err) == (0, "", "Kafka 4.4.0 affects none of 2 groups\n")


@pytest.mark.parametrize(("version", "complaint"), [("3.9.2", "from 4.0"), ("5.0", "to 4.4.0"), ("x", "not a version")])
def test_unsupported_releases_are_errors(quorate, upgrade, version, complaint):
    ended = quorate("groups", "upgrade-check", upgrade, "--to", version)
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("error: --to ")
    assert complaint in ended.err


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((), "nothing to read"),
        (("-b", "localhost:1", "LOG"), "either -b or a SOURCE"),
        (("LOG", "--client-id", "me"), "--client-id is for a live cluster"),
        (("-b", "localhost:1", "--topology", "x"), "--topology is for a SOURCE"),
        (("LOG", "--watch", "5"), "--watch needs a live cluster"),
        (("-b", "localhost:1", "--watch", "5", "--at", "2h"), "--watch and --at exclude each other"),
        (("-b", "localhost:1", "--watch", "1e300"), "1e+300 is not in the range"),
        (("-b", "localhost:1", "--connect-timeout-ms", "99999999999999999999"), "is not in the range"),
        (("LOG", "--at", "yesterday"), "--at 'yesterday' is not a time"),
        (("LOG", "--at", "60"), "there are several partitions"),
        (("LOG", "--at", "99:5"), "--at 99:5: what is read has no partition 99 of __consumer_offsets"),
        (("LOG", "--at", "1:60,99:5"), "--at 99:5: what is read has no partition 99 of __consumer_offsets"),
        (("LOG", "--group", "unknown"), "no group matches unknown"),
        (("LOG", "--group", ""), "no group matches ''"),
        (("LOG", "--group", "legacyjava"), "existing groups: legacy-java, "),
        (("LOG", "--group", "unknown"), ", … (8 in all)"),
        (("LOG", "--at", "2020-01-01"), "no groups found"),
    ],
)
def test_wrong_options_are_an_error(quorate, upgrade, arguments, complaint):
    ended = quorate("groups", "list", *(upgrade if argument == "LOG" else argument for argument in arguments))
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert complaint in ended.err


def test_damage_is_reported_and_the_rest_is_shown(quorate, tmp_path):
    folder = tmp_path / "__consumer_offsets-1"
    folder.mkdir()
    (log,) = folders("upgrade-4.0-to-4.3-and-back")[1].glob("*.log")
    data = bytearray(log.read_bytes())
    data[-20] ^= 0xFF
    (folder / log.name).write_bytes(data)
    ended = quorate("groups", "list", folder)
    assert ended.status == 1
    assert "bill-orders" in ended.out
    assert "error:" in ended.err


def test_a_name_as_long_as_kafka_allows_leaves_the_table_readable(quorate, tmp_path):
    long = "x" * 32_767
    commit(tmp_path, long, "short")
    assert max(map(len, quorate("groups", "list", tmp_path).lines)) < 200
    assert max(map(len, quorate("groups", "offsets", tmp_path).lines)) < 300
    assert json.loads(quorate("groups", "list", tmp_path, "--json").out)[1]["group"] == long
    assert len(quorate("groups", "list", tmp_path, "--group", "y").err) < 300


def test_a_group_with_the_name_of_a_glob_is_found(quorate, tmp_path):
    commit(tmp_path, "web-[x]", "web-x", "web-y")
    rows = json.loads(quorate("groups", "list", tmp_path, "--json", "--group", "web-[x]").out)
    assert [row["group"] for row in rows] == ["web-[x]", "web-x"]


def commit(folder, *groups):
    """Write a log in which these groups commit an offset."""
    with FileLog(folder) as log:
        runtime = PartitionRuntime(GroupCoordinatorShard(new_id=uuid4), log, now_ms=1_700_000_000_000)
        partition = OffsetCommitRequestPartition(partition_index=0, committed_offset=5)
        for group in groups:
            request = OffsetCommitRequest(
                group_id=group, topics=(OffsetCommitRequestTopic(name="t", partitions=(partition,)),)
            )
            runtime.request(request, RequestContext(api_version=9, now_ms=runtime.now_ms))


# ---- streams groups


def test_tasks_are_shown_by_subtopology_role_and_process(quorate):
    path = CAPTURES / "streams-4.3"
    rows = json.loads(quorate("groups", "tasks", path, "--group", "word-count", "--json").out)
    one, two = "d3c6ded1-0902-47a1-a3a7-6826abb8d707", "f1782f48-bbab-424a-bceb-072c3c420f88"
    assert [(row["subtopology"], row["role"], row["process_id"], row["tasks"]) for row in rows] == [
        ("0", "active", one, [2]),
        ("0", "active", two, [0, 1]),
        ("1", "active", one, [1, 2]),
        ("1", "active", two, [0]),
        ("1", "standby", one, [0]),
        ("1", "standby", two, [1, 2]),
    ]
    assert all(row["tasks"] == row["target_tasks"] and row["state"] == "stable" for row in rows)
    assert rows[0]["repartition_sinks"] == rows[2]["topics"] == ["word-count-regroup-repartition"]
    assert rows[2]["changelogs"] == ["word-count-counts-changelog"]
    table = quorate("groups", "tasks", path, "--group", "word-count")
    assert table.lines[0].split()[:7] == [
        *("GROUP", "SUBTOPOLOGY", "TOPICS", "REPARTITION-SINKS", "CHANGELOGS", "ROLE", "TASKS")
    ]
    assert len(table.lines) == 7


def test_tasks_that_members_wait_for_are_targets_only(quorate):
    rows = json.loads(quorate("groups", "tasks", CAPTURES / "streams-4.3", "--at", "0:16", "--json").out)
    (row,) = (row for row in rows if row["subtopology"] == "0" and row["state"] == "stable")
    assert row["tasks"] == row["target_tasks"] == [0, 1, 2]


def test_members_of_streams_groups_have_processes_and_standby_tasks(quorate):
    rows = json.loads(quorate("groups", "members", CAPTURES / "streams-4.3", "--group", "word-count", "--json").out)
    assert [(row["process_id"][:8], row["standby_tasks"], row["warmup_tasks"]) for row in rows] == [
        ("f1782f48", {"subtopology 1": [1, 2]}, {}),
        ("d3c6ded1", {"subtopology 1": [0]}, {}),
    ]


def test_history_says_when_the_topology_of_a_streams_group_became_ready(quorate):
    ended = quorate("groups", "history", CAPTURES / "streams-4.3", "--group", "word-count")
    assert (
        "    group epoch 2 → 3 because the topology can run: all of its topics exist, with the required partitions"
        in ended.lines
    )
    assert any(line.startswith("    member lC9GghNzTVufNh6yvif7mg must revoke subtopology 0 2") for line in ended.lines)


def test_without_streams_groups_there_are_no_tasks(quorate):
    ended = quorate("groups", "tasks", CAPTURES / "consumer-4.3")
    assert (ended.out, ended.err.strip()) == ("", "no streams group has a topology")


def test_a_topology_that_is_a_log_names_the_command_that_reads_logs(quorate, upgrade, tmp_path):
    (log := tmp_path / "00000000000000000000.log").write_bytes(b"\xff\xfe\x00")
    ended = quorate("groups", "offsets", upgrade, "--topology", log)
    assert (ended.status, ended.out) == (1, "")
    said, remedy = ended.err.splitlines()
    assert said == f"error: {log}: is not text (UTF-8)"
    assert remedy.strip() == "give a log with --log of `quorate assign`"
