"""`quorate assign`: output for a described group, and errors."""

import json
import re
import subprocess

import pytest
import yaml

from quorate.cli.assign import EXAMPLES
from quorate.cli.assign.comparison import percent
from tests.cli.assign.fixtures import described as described
from tests.cli.assign.fixtures import figures
from tests.cli.assign.fixtures import outcomes as outcomes
from tests.cli.conftest import COMMAND, PLAIN
from tests.cli.terminal import in_terminal


def test_assignors_are_shown_next_to_the_current_assignment(quorate, described):
    ended = quorate("assign", described(), "--assignor", "range", "--assignor", "roundrobin")
    assert (ended.status, ended.err) == (0, "")
    assert ended.lines[0] == "web: 2 members in 2 racks; 4 partitions of 1 topic"
    assert re.split(r"\s*│\s*", ended.lines[2])[1:] == ["current", "range (client)", "roundrobin"]
    assert figures(ended.lines, "member") == [
        ["parts", "local", "lag"],
        ["parts", "local", "lag", "moved"],
        ["parts", "local", "lag", "moved"],
    ]
    assert figures(ended.lines, "m1") == [["2", "50%", "12"], ["2", "100%", "5", "+1", "-1"], ["2", "50%", "12"]]
    assert figures(ended.lines, "m2") == [["2", "50%", "0"], ["2", "100%", "7", "+1", "-1"], ["2", "50%", "0"]]
    assert figures(ended.lines, "a, 1 member") == [["2", "50%", "12"], ["2", "100%", "5"], ["2", "50%", "12"]]
    assert figures(ended.lines, "sum") == [["4", "50%", "12"], ["4", "100%", "12", "2"], ["4", "50%", "12", "0"]]
    assert figures(ended.lines, "least") == [["2", "0"], ["2", "5"], ["2", "0"]]
    assert figures(ended.lines, "most") == [["2", "12"], ["2", "7"], ["2", "12"]]
    assert ended.lines[-1] == "lag: that of 1 partition is unknown and not in the sums"


def test_columns_without_figures_are_omitted(quorate, described):
    ended = quorate("assign", described(topics={"t": 4}, members={"m1": {}, "m2": {}}), "--assignor", "range")
    assert figures(ended.lines, "member") == [["parts"]]
    assert figures(ended.lines, "m1") == [["2"]]
    assert "current" not in ended.out
    assert "racks" not in ended.out
    assert "rack" not in next(line for line in ended.lines if line.startswith("member"))


def test_json_has_figures_assignments_and_the_input(quorate, described, outcomes, tmp_path):
    result = outcomes(described(), "--assignor", "range", "--without", "m2")
    assert set(result) == {"current", "range", "result"}
    assert result["result"]["changes"] == ["without m2"]
    assert result["range"]["assignment"] == {"m1": {"t": [0, 1, 2, 3]}}
    assert (result["range"]["moved"], result["range"]["side"], result["current"]["side"]) == (2, "client", None)
    assert "remote" not in result["range"]
    # The input is the group before the changes, in a form that the command reads.
    again = tmp_path / "again.json"
    again.write_text(json.dumps(result["result"]["input"]))
    assert outcomes(again, "--assignor", "range", "--without", "m2")["range"]["members"] == result["range"]["members"]
    assert outcomes(again)["current"]["members"] == outcomes(described())["current"]["members"]


def test_explain_lists_remote_partitions_with_reasons(quorate, described, outcomes):
    ended = quorate("assign", described(), "--assignor", "roundrobin", "--explain")
    after = ended.lines[ended.lines.index("why partitions are remote") :]
    assert "roundrobin: 2 of 4" in after
    assert "  t-2 (b) read by m1 in a: swap possible" in after
    assert outcomes(described(), "--assignor", "roundrobin", "--explain")["roundrobin"]["remote"][0] == {
        "topic": "t",
        "partition": 2,
        "member": "m1",
        "rack": "a",
        "replica_racks": ["b"],
        "reason": "swap_possible",
    }


def test_explain_without_racks_reports_that_racks_are_missing(quorate, described):
    ended = quorate("assign", described(topics={"t": 4}, members={"m1": {}}), "--assignor", "range", "--explain")
    assert "unknown: the racks of the replicas" in ended.lines[-1]


@pytest.mark.parametrize(
    ("protocol", "side", "expected"),
    [
        ("classic", None, ["range", "cooperative-sticky", "lag-aware"]),
        ("classic", "client", ["range", "cooperative-sticky", "lag-aware"]),
        ("consumer", None, ["uniform", "range", "rack-aware-uniform"]),
        (None, None, ["range", "cooperative-sticky", "uniform", "rack-aware-uniform", "lag-aware"]),
        (None, "server", ["uniform", "range", "rack-aware-uniform"]),
    ],
)
def test_default_assignors_are_those_of_the_protocol(described, protocol, side, expected):
    from quorate.assignors.what_if.description import read_description
    from quorate.cli.assign.options import choices

    situation = read_description(str(described(protocol=protocol)))
    assert [choice.name for choice in choices([], side, situation)] == expected


def test_the_current_assignor_comes_first(described):
    from quorate.assignors.what_if.description import read_description
    from quorate.cli.assign.options import choices

    situation = read_description(str(described(protocol="classic", assignor="roundrobin")))
    assert next(choice.name for choice in choices([], None, situation)) == "roundrobin"
    ours = read_description(str(described(protocol="classic", assignor="of-their-own")))
    assert next(choice.name for choice in choices([], None, ours)) == "range"


@pytest.mark.parametrize(
    ("assignor", "first"),
    [
        ("lag-aware", ("lag-aware", "client")),
        ("cooperative-lag-aware", ("lag-aware", "client")),
        ("cooperative-rack-aware-uniform", ("rack-aware-uniform", "server")),
        ("rack-aware-uniform", ("rack-aware-uniform", "server")),
        ("cooperative-range", ("range", "client")),  # unknown: the defaults
        ("cooperative-uniform", ("range", "client")),
    ],
)
def test_names_of_quorate_adapters_are_recognised(described, assignor, first):
    from quorate.assignors.what_if.description import read_description
    from quorate.cli.assign.options import choices

    situation = read_description(str(described(protocol="classic", assignor=assignor)))
    chosen = [(choice.name, choice.side) for choice in choices([], None, situation)]
    assert chosen[0] == first
    assert len(chosen) == len(set(chosen))


def test_range_is_that_of_the_protocol_unless_side_is_given(described):
    from quorate.assignors.what_if.description import read_description
    from quorate.cli.assign.options import choices

    def side(protocol, requested):
        (choice,) = choices(["range"], requested, read_description(str(described(protocol=protocol))))
        return choice.label

    assert side("consumer", None) == "range (server)"
    assert side("classic", None) == side(None, None) == "range (client)"
    assert side("classic", "server") == "range (server)"


def test_server_side_assignors_are_shown_side_by_side(quorate):
    ended = quorate("assign", "examples/uneven")
    assert (ended.status, ended.err) == (0, "")
    titles = ["current", "uniform", "range (server)", "rack-aware-uniform"]
    assert re.split(r"\s*│\s*", ended.lines[2])[1:] == titles
    now, uniform, by_range, rack_aware = figures(ended.lines, "sum")
    assert (now, uniform[1], by_range[1]) == (["14", "50%"], "50%", "57%")
    assert int(rack_aware[1].rstrip("%")) > int(uniform[1].rstrip("%"))


def test_balance_is_reported_as_the_reason_for_remote_partitions(outcomes):
    result = outcomes("examples/uneven", "--assignor", "rack-aware-uniform", "--explain")
    assert result["rack-aware-uniform"]["reasons"] == {"local_members_full": 1}


def test_topics_without_ids_give_the_same_assignment_each_time(outcomes, described):
    topics = dict.fromkeys("abcdef", 5)
    path = described(topics=topics, members={f"m{number}": {} for number in range(4)})
    first, again = (outcomes(path, "--assignor", "uniform")["uniform"]["assignment"] for _ in range(2))
    assert first == again
    assert sorted(sum(len(numbers) for numbers in one.values()) for one in first.values()) == [7, 7, 8, 8]


def test_kafka_version_selects_the_assignment_of_that_release(outcomes, quorate, described):
    """KAFKA-18688: since 4.0.1 a member with one partition more than others keeps it.

    Before, the first member in the coordinator's order got it.
    """
    moved = {"4.0.0": [], "4.0.1": []}
    for first in (6, 7):
        members = {"m1": {"owned": {"t": [*range(first)]}}, "m2": {"owned": {"t": [*range(first, 13)]}}}
        path = described(topics={"t": 13}, members=members)
        for version, found in moved.items():
            found.append(outcomes(path, "--assignor", "uniform", "--kafka-version", version)["uniform"]["moved"])
    assert (sorted(moved["4.0.0"]), moved["4.0.1"]) == ([0, 1], [0, 0])
    refused = quorate("assign", path, "--assignor", "uniform", "--kafka-version", "3.0")
    assert refused.status == 1
    assert "uniform supports Kafka 4.0.0 to" in refused.err
    assert refused.err.splitlines()[-1].strip() == "--kafka-version 3.0.0 was given"
    newer = quorate("assign", path, "--assignor", "uniform", "--kafka-version", "99.0")
    assert newer.status == 0
    assert newer.err.startswith("note: Kafka 99.0.0 is newer than quorate supports")


def test_the_table_of_a_large_group_is_limited(quorate, described):
    members = {f"m{number:03}": {} for number in range(300)}
    path = described(topics={"t": 600}, members=members)
    short = quorate("assign", path, "--assignor", "range")
    assert sum(line.startswith("m0") for line in short.lines) == 20
    assert "280 more members; --limit 0 shows all" in short.lines
    assert figures(short.lines, "sum") == [["600"]]
    assert (
        sum(line.startswith("m0") for line in quorate("assign", path, "--assignor", "range", "--limit", 3).lines) == 3
    )
    everything = quorate("assign", path, "--assignor", "range", "--limit", 0)
    assert sum(bool(re.match(r"m\d", line)) for line in everything.lines) == 300
    assert "more members" not in everything.out


def test_a_narrow_terminal_shows_assignors_below_each_other(quorate, described):
    ended = quorate("assign", described(), "--width", 64, "--assignor", "range", "--assignor", "roundrobin")
    assert max(map(len, ended.lines)) <= 64
    assert [line.strip().split("│")[1:] for line in ended.lines if "roundrobin" in line] == [[" roundrobin"]]
    assert sum(line.startswith("m1") for line in ended.lines) == 2


def test_long_member_ids_are_cut_in_the_middle_on_terminals(described):
    name = "consumer-of-a-very-long-application-name-0123456789abcdef-the-end"
    path = described(members={name: {}})
    command = [COMMAND, "assign", str(path), "--assignor", "range"]
    _, shown, _, _ = in_terminal(command, streams=("stdout",), env=dict(PLAIN), columns=80)
    (line,) = [line for line in shown.splitlines() if line.startswith("consumer-of")]
    assert len(line) <= 80
    assert "…" in line
    assert "the-end" in line.split("│")[0]


def test_control_characters_in_names_are_escaped(quorate, described):
    evil = "m\x1b[31m1"
    topics = {"t\x1b]0;x\x07": {"racks": [["a\x1b[2J"]]}}
    ended = quorate(
        "assign", described(topics=topics, members={evil: {"rack": "b\x1b[1m"}}), "--assignor", "range", "--explain"
    )
    assert ended.status == 0
    assert "\x1b" not in ended.out
    assert "\x07" not in ended.out
    assert "m\\x1b[31m1" in ended.out


def test_examples_are_listed_and_run(quorate):
    listed = quorate("assign", "examples")
    names = sorted(path.stem for path in EXAMPLES.glob("*.yaml"))
    assert [line.split()[2] for line in listed.lines] == [f"examples/{name}" for name in names]
    for name in names:
        ended = quorate("assign", f"examples/{name}", "--assignor", "range", "--side", "client")
        assert (ended.status, ended.err) == (0, "")
        assert "── racks ──" in ended.out
    assert "no such file or example" in quorate("assign", "examples/none").err


def test_a_file_takes_precedence_over_an_example_of_the_same_name(quorate, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    (tmp_path / "examples" / "three-racks").write_text("group: mine\ntopics: {t: 1}\nmembers: {m1: }\n")
    assert quorate("assign", "examples/three-racks", "--assignor", "range").lines[0].startswith("mine: 1 member;")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "no group given: name a FILE"),
        (["FILE", "-b", "x:1", "--group", "g"], "FILE and -b exclude each other"),
        (["-b", "x:1"], "-b needs --group"),
        (["--log", "x"], "--log needs --group"),
        (["FILE", "--group", "g"], "--group works only with -b or --log"),
        (["FILE", "--topology", "x"], "--topology works only with --log"),
        (["-b", "x:1", "--group", "g", "--until", "2h"], "--until works only with --log"),
        (["FILE", "--ssl-cafile", "x"], "--ssl-cafile is for a live cluster"),
        (["FILE", "--assignor", "rnage"], "did you mean range?"),
        (["FILE", "--assignor", "zzz"], "use one of range, roundrobin"),
        (["FILE", "--assignor", "range:5=x"], "is not OPTION=VALUE"),
        (["FILE", "--assignor", "range:speed=9"], "range has no option speed"),
        (["FILE", "--kafka-version", "new"], "--kafka-version: 'new' is not a version"),
        (["FILE", "--without", "m3"], "members are m1, m2"),
        (["FILE", "--add", "worker-1", "--rack", "wroker-1=a"], "did you mean worker-1?"),
        (["FILE", "--without", "zzzz*"], "members are m1, m2"),
        (["FILE", "--without", "m"], "2 member ids start with this: m1, m2"),
        (["FILE", "--without", "m1", "--without", "m2"], "no member is left"),
        (["FILE", "--add", ":a"], "has no member id"),
        (["FILE", "--add", "m1"], "member m1 exists already"),
        (["FILE", "--add", "m9:a:zz"], "topic zz does not exist"),
        (["FILE", "--rack", "m1"], "is not MEMBER=RACK"),
        (["FILE", "--add-partitions", "t"], "is not TOPIC=N"),
        (["FILE", "--add-partitions", "t=0"], "is not TOPIC=N"),
        (["FILE", "--add-partitions", "t=²"], "is not TOPIC=N"),
        (["FILE", "--add-partitions", "t=99999999999"], "is not TOPIC=N"),
        (["FILE", "--add-partitions", "u=1"], "unknown topic u"),
        (
            ["FILE", "--html", "/nowhere/at/all.html", "--assignor", "range"],
            "--html /nowhere/at/all.html: folder /nowhere/at does not exist",
        ),
        (["FILE", "--html", "-"], "--html -: standard output has the results"),
        (["gone.yaml"], "gone.yaml: cannot be read: No such file"),
        (["."], ".: is a directory, not a description"),
    ],
)
def test_wrong_options_are_one_error_with_a_remedy(quorate, described, arguments, complaint):
    ended = quorate("assign", *[described() if argument == "FILE" else argument for argument in arguments])
    assert (ended.status, ended.out) == (1, "")
    assert ended.err.startswith("error: ")
    assert sum(line.startswith("error: ") for line in ended.err.splitlines()) == 1
    assert complaint in ended.err


def test_adding_to_a_group_with_different_subscriptions_needs_topics(quorate, described):
    members = {"m1": {"topics": ["t"]}, "m2": {"topics": ["u"]}}
    ended = quorate("assign", described(topics={"t": 1, "u": 1}, members=members), "--add", "m3:a")
    assert "have different subscriptions" in ended.err
    assert "--add m3:a:TOPIC,TOPIC" in ended.err


def test_subscribed_topics_that_are_missing_are_reported(quorate, described):
    members = {"m1": {"topics": ["t", "elsewhere"]}}
    ended = quorate("assign", described(members=members), "--assignor", "range")
    assert "subscribed but not among the topics, so not assigned: elsewhere" in ended.lines


@pytest.mark.parametrize(
    ("share", "text"), [(None, "–"), (0.0, "0%"), (0.001, "1%"), (0.5, "50%"), (0.999, "99%"), (1.0, "100%")]
)
def test_percentages_do_not_round_to_0_or_100(share, text):
    assert percent(share) == text


def test_ten_thousand_members_take_seconds(outcomes, described):
    """Racks, lags, owned partitions, JSON output; the generous limit detects quadratic time."""
    import time

    racks = [[a, b] for a, b in ("ab", "bc", "ca")]
    members = {
        f"m{number:05}": {
            "topics": ["t"],
            "rack": "abc"[number % 3],
            "owned": {"t": [number * 5 + k for k in range(5)]},
        }
        for number in range(10_000)
    }
    topics = {"t": {"partitions": 50_000, "racks": racks, "lag": 3}}
    path = described(topics=topics, members=members)
    began = time.process_time()
    result = outcomes(path, "--assignor", "roundrobin", "--without", "m00007", "--explain")
    assert result["roundrobin"]["partitions"] == 50_000
    assert sum(result["roundrobin"]["reasons"].values()) == len(result["roundrobin"]["remote"])
    assert time.process_time() - began < 60


def test_a_description_is_read_from_standard_input(quorate):
    group = {"group": "web", "topics": {"t": 4}, "members": {"m1": {"rack": "a"}, "m2": {"rack": "b"}}}
    for text in (yaml.safe_dump(group), json.dumps(group)):
        ended = quorate("assign", "-", "--assignor", "range", "--side", "client", stdin=text)
        assert (ended.status, ended.err) == (0, "")
        assert ended.lines[0].startswith("web: 2 members in 2 racks; 4 partitions of 1 topic")


@pytest.mark.parametrize("text", ["[" * 100_000, "{a: " * 100_000, "- " * 100_000])
def test_yaml_that_is_nested_too_deeply_is_refused(tmp_path, text):
    """Issue 14: libyaml crashed with a segmentation fault, so the command runs in a process."""
    path = tmp_path / "group.yaml"
    path.write_text(text)
    done = subprocess.run([COMMAND, "assign", str(path)], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert done.stderr == f"error: {path}: is nested too deeply\n"
