"""The filters of `quorate decode`."""

import json
import re
from datetime import UTC, datetime, timedelta

import pytest

from quorate.cli.errors import UserError
from quorate.cli.times import read_time
from quorate.codecs import RECORD_TYPES

NOW = datetime(2026, 11, 21, 12, 0, tzinfo=UTC)


@pytest.fixture
def shown(quorate, upgrade):
    """The records of the upgrade that these options show."""

    def call(*options):
        ended = quorate("decode", upgrade, "--format", "jsonl", *options)
        assert ended.status == 0, ended.err
        return [json.loads(line) for line in ended.lines]

    return call


def group_of(shown):
    return shown["key"].get("group") or shown["key"].get("group_id")


def test_group_accepts_globs_and_may_be_repeated(shown):
    everything = shown()
    assert {group_of(o) for o in shown("--group", "legacy-*")} == {
        "legacy-rr",
        "legacy-coop",
        "legacy-static",
        "legacy-java",
        "legacy-range",
    }
    both = shown("--group", "bill-orders", "--group", "?hip-orders")
    assert both == [o for o in everything if group_of(o) in ("bill-orders", "ship-orders")]
    assert shown("--group", "BILL-orders") == []


@pytest.mark.parametrize(("glob", "names"), [("web-[1]", ["web-[1]", "web-1"]), ("[", ["["]), ("a*?", ["a*?", "a*c"])])
def test_a_group_with_the_name_of_a_glob_is_found(quorate, glob, names):
    groups = "web-[1]", "web-1", "web-[1]x", "[", "a*?", "a*c"
    lines = "".join(f"0002{len(group):04x}{group.encode().hex()} null\n" for group in groups)
    found = quorate("decode", "-", "--group", glob, stdin=lines)
    assert [group_of(json.loads(line)) for line in found.lines] == names


@pytest.mark.parametrize(
    ("types", "ids"),
    [
        (["OffsetCommit"], {1}),
        (["offsetcommit"], {1}),
        (["2"], {2}),
        (["3", "ConsumerGroupPartitionMetadata"], {3, 4}),
        (["ConsumerGroup*Member*"], {5, 7, 8}),
    ],
)
def test_type_accepts_names_and_ids(shown, types, ids):
    options = [option for one in types for option in ("--type", one)]
    assert shown(*options) == [o for o in shown() if o["type"] in ids] != []


def test_topic_names_are_learnt_from_filtered_records(quorate, upgrade):
    def assignments(*options):
        table = quorate("decode", upgrade, "--format", "table", *options)
        rows = [re.split(" {2,}", line.strip()) for line in table.lines]
        return [row for row in rows if len(row) > 3 and row[3] == "8"]

    alone = assignments("--type", "8")
    assert alone == assignments()
    assert any("assigned orders 0-5, clicks.eu 0-2" in row[-1] for row in alone)


def test_an_unknown_type_suggests_close_matches(quorate, upgrade):
    ended = quorate("decode", upgrade, "--type", "OffsetCommits")
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.splitlines() == [
        "error: --type OffsetCommits: unknown record type",
        "       did you mean OffsetCommit, LegacyOffsetCommit?",
        "       `quorate records` lists them all",
    ]


def test_a_type_name_matches_one_topic_and_an_id_every_topic(quorate):
    lines = "0000000167" + "00" * 20 + "\n"  # type 0 in each of the topics
    for topic in RECORD_TYPES:
        by_number = quorate("decode", "-", "--topic", topic, "--type", "0", stdin=lines)
        by_name = quorate("decode", "-", "--topic", topic, "--type", "ShareSnapshot", stdin=lines)
        assert len(by_number.lines) == 1
        assert len(by_name.lines) == (topic == "__share_group_state")


def test_type_accepts_ids_that_no_release_knows(quorate):
    assert len(quorate("decode", "-", "--type", "99", stdin="0063 00\n0002000167\n").lines) == 1


def test_since_is_inclusive_and_until_is_exclusive(shown):
    everything = shown()
    middle = everything[len(everything) // 2]["timestamp_ms"]
    assert shown("--since", middle) == [o for o in everything if o["timestamp_ms"] >= middle]
    assert shown("--until", middle) == [o for o in everything if o["timestamp_ms"] < middle]
    assert len(shown("--since", middle)) + len(shown("--until", middle)) == len(everything)


def test_times_can_be_written_as_iso(shown):
    early, late = "2026-11-21T08:00:00Z", "2026-11-21T09:01:00+01:00"
    between = shown("--since", early, "--until", late)
    assert between == [o for o in shown() if 1795248000000 <= o["timestamp_ms"] < 1795248060000] != []


@pytest.mark.parametrize(
    ("text", "ms_before_now"),
    [
        ("90s", 90_000),
        ("15m", 900_000),
        ("2h", 7_200_000),
        ("7d", 604_800_000),
        ("2w", 1_209_600_000),
        ("2026-11-21", 12 * 3_600_000),
        ("2026-11-21 11:59:59.750", 250),
        ("2026-11-21T13:00:00+01:00", 0),
        ("1795262400000", 0),
    ],
)
def test_times(text, ms_before_now):
    assert read_time("--since", text, NOW) == (NOW - timedelta(milliseconds=ms_before_now)).timestamp() * 1000


@pytest.mark.parametrize("text", ["yesterday", "2 hours", "2026-13-01", "12", "-2h", "99999999999w", "9" * 19])
def test_an_invalid_time_is_an_error_with_examples(text):
    with pytest.raises(UserError, match="is not a time") as refused:
        read_time("--until", text, NOW)
    assert "2h" in refused.value.remedy[0]


def test_tombstones(shown):
    everything = shown()
    assert shown("--tombstones") == [o for o in everything if o["value"] is None] != []
    assert shown("--no-tombstones") == [o for o in everything if o["value"] is not None]


def test_problems_shows_records_that_cannot_be_decoded(quorate):
    lines = [
        "0002000167 null",
        "0063 00",
        "0002000167 0009",
        "0003000167 00000000000500beef",
        "0003000167ff null",
        "null 00",
        "0003000167 0000",
    ]
    ended = quorate("decode", "-", "--problems", stdin="\n".join(lines))
    assert [json.loads(line)["error"]["reason"] for line in ended.lines] == [
        "unknown record type",
        "unknown value version",
        "trailing bytes",
        "trailing bytes",
        "null key",
        "truncated",
    ]


def test_filters_are_combined_and_limit_counts_shown_records(quorate, upgrade):
    options = ("--group", "legacy-*", "--type", "GroupMetadata", "--limit", "3", "--summary")
    ended = quorate("decode", upgrade, *options)
    assert [json.loads(line)["name"] for line in ended.lines] == ["GroupMetadata"] * 3
    assert "3 shown" in ended.err
    assert "more may follow: --limit was reached" in ended.err


def test_the_summary_counts_types_tombstones_and_omitted_records(quorate):
    lines = "0002000167 null\n0002000167 null\n0063 00\n0003000167 00000000000500\n0003000168 null\n"
    ended = quorate("decode", "-", "--summary", "--group", "g", "--type", "2", stdin=lines)
    words = [line.split() for line in ended.err.splitlines()]
    assert ["GroupMetadata", "2", "2"] in words
    assert "2 shown; 3 omitted by filters" in ended.err
    everything = quorate("decode", "-", "--summary", stdin=lines)
    words = [line.split() for line in everything.err.splitlines()]
    assert ["ConsumerGroupMetadata", "2", "1"] in words
    assert ["unknown", "record", "type", "1"] in words


def test_without_a_terminal_only_data_is_printed(quorate, upgrade):
    assert quorate("decode", upgrade).err == ""
