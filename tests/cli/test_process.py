"""The command as a process: imports, exit status, pipes, terminals, Ctrl-C."""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.metadata import entry_points, version
from pathlib import Path

import pytest

from quorate.cli.decode.output import show_summary
from tests.cli.conftest import COMMAND, PLAIN
from tests.cli.terminal import in_terminal

ROOT = Path(__file__).resolve().parents[2]

HEAVY = {"construct", "cramjam", "kafka", "numpy", "pyarrow", "quorate.codecs", "rich"}


def imported_by(*arguments):
    """Return the modules that the command imports."""
    code = (
        "import sys; sys.argv = ['quorate', *sys.argv[1:]]\n"
        "from quorate.cli.main import main\n"
        "try: main()\n"
        "except SystemExit as end: assert not end.code, end.code\n"
        "print(*sys.modules, file=sys.stderr)"
    )
    command = [sys.executable, "-P", "-c", code, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True, env=os.environ | PLAIN)
    return set(done.stderr.split())


@pytest.mark.parametrize("arguments", [["--help"], ["-h"], ["--version"]])
def test_help_and_version_import_no_heavy_module(arguments):
    assert imported_by(*arguments) & HEAVY == set()


@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["decode", "--help"],
        ["encode", "--help"],
        ["assign", "--help"],
        ["groups", "--help"],
        ["records", "--help"],
    ],
)
def test_examples_in_help_have_their_own_lines(arguments, quorate):
    shown = quorate(*arguments).out
    assert "\b" not in shown
    assert "\\b" not in shown
    assert any(line.strip().startswith("quorate ") for line in shown.splitlines() if "Usage" not in line)


@pytest.mark.parametrize("command", ["decode", "groups", "encode", "assign", "serve", "cluster", "records", "demo"])
def test_help_of_a_command_imports_no_heavy_module(command):
    assert imported_by(command, "--help") & (HEAVY - {"quorate.codecs"}) == set()


def test_jsonl_of_an_undamaged_log_needs_no_heavy_module(upgrade):
    assert (
        imported_by("decode", upgrade, "--format", "jsonl") & {"construct", "kafka", "numpy", "pyarrow", "rich"}
        == set()
    )


def test_the_demo_needs_no_extra():
    assert imported_by("demo", "decode") & {"construct", "kafka", "numpy", "pyarrow"} == set()
    code = (
        "import sys; from quorate.cli.demo import html, show; from quorate.integration import play\nprint(*sys.modules)"
    )
    command = [sys.executable, "-P", "-W", "ignore", "-c", code]
    imported = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()
    extras = {"pyarrow", "pyspark", "aiokafka", "confluent_kafka", "docker", "prometheus_client", "scramp", "trustme"}
    assert extras & set(imported) == set()


def test_version_is_that_of_the_package(quorate):
    assert quorate("--version").out == f"quorate {version('quorate')}\n"


def test_every_command_is_listed_and_has_help(quorate):
    shown = quorate("--help").out
    for command in ("decode", "groups", "encode", "assign", "serve", "cluster", "records", "demo"):
        assert f"  {command} " in shown
        assert quorate(command, "--help").status == 0


@pytest.mark.parametrize("arguments", [["frobnicate"], ["--frobnicate"], ["decode", "--frobnicate"]])
def test_usage_errors_end_with_status_1(quorate, arguments):
    ended = quorate(*arguments)
    assert (ended.status, ended.out) == (1, "")
    first, second = ended.err.splitlines()
    assert first.startswith("error: No such ")
    assert second.startswith("       for help: ")
    assert second.endswith(" --help")


@pytest.mark.parametrize(
    "command",
    [
        ["decode", "{log}"],
        ["decode", "{log}", "--format", "table"],
        ["decode", "{log}", "--format", "kafka", "--summary"],
        ["records"],
        ["demo", "decode"],
    ],
)
def test_a_closed_pipe_is_not_an_error(start, upgrade, command):
    arguments = [part.format(log=upgrade) for part in command]
    reader, writer = os.pipe()
    os.close(reader)
    process = start(*arguments, stdout=writer)
    os.close(writer)
    _, err = process.communicate(timeout=300)
    assert process.returncode == 0
    assert b"Traceback" not in err
    assert b"rror" not in err


def test_a_pipe_into_head_exits_with_0(upgrade):
    line = f"set -o pipefail; {COMMAND} decode {upgrade} | head -2"
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=os.environ | PLAIN, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 2


def test_lines_of_a_pipe_are_decoded_as_they_arrive_until_ctrl_c(start):
    process = start("decode", "-", "--summary", stdin=subprocess.PIPE)
    for offset in range(3):
        process.stdin.write(b"0002000167 null\n")
        process.stdin.flush()
        assert json.loads(process.stdout.readline())["name"] == "GroupMetadata", offset
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert process.returncode == 130
    assert out == b""
    assert b"Traceback" not in err
    assert b"3 shown" in err


def test_ctrl_c_while_waiting_for_input(start):
    process = start("encode", stdin=subprocess.PIPE)
    process.stdin.write(b'{"name":"GroupMetadata","key":{"group":"g"},"value":null}\n')
    process.stdin.flush()
    assert process.stdout.readline() == b"0002000167 null\n"  # it has started, and waits for more
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=300)
    assert (process.returncode, out, err) == (130, b"", b"")


@pytest.mark.parametrize("imported", ["click", "quorate.cli.main", "quorate.cli.output", "quorate.cli.decode"])
def test_ctrl_c_during_imports(imported):
    """The first import of the module sends the signal."""
    code = (
        "import signal, sys\n"
        "from quorate.cli.start import main\n"
        "class Finder:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name == {imported!r}: signal.raise_signal(signal.SIGINT)\n"
        "sys.meta_path.insert(0, Finder())\n"
        "sys.argv = ['quorate', 'decode', '--help']\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, env=os.environ | PLAIN, timeout=300)
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"")


def test_a_dropped_ctrl_c_is_sent_again():
    """Python drops exceptions in destructors and callbacks of weak references."""
    code = (
        "import signal, sys, time, weakref\n"
        "from quorate.cli import interrupts\n"
        "signal.signal(signal.SIGINT, interrupts._end)\n"
        "interrupts.raise_interrupts()\n"
        "class Module: pass\n"
        "module = Module()\n"
        "noticed = weakref.ref(module, lambda _: signal.raise_signal(signal.SIGINT))\n"
        "try:\n"
        "    del module\n"
        "    time.sleep(300)\n"
        "except KeyboardInterrupt: print('ended')\n"
    )
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=300)
    assert (done.stdout, done.stderr) == ("ended\n", "")


def test_the_entry_point_is_cli_start():
    (command,) = entry_points(group="console_scripts", name="quorate")
    assert command.value == "quorate.cli.start:main"


def test_an_ignored_ctrl_c_stays_ignored():
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "from quorate.cli.start import main; sys.argv = ['quorate', '--version']\n"
        "try: main()\n"
        "except SystemExit: assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN"
    )
    subprocess.run([sys.executable, "-P", "-c", code], check=True, capture_output=True, timeout=300)


@pytest.mark.parametrize("closed", ["at once", "later"])
def test_ctrl_c_together_with_the_end_of_input(start, closed):
    """Ctrl-C also ends the program that writes into our standard input."""
    with start("decode", "-", "--summary", stdin=subprocess.PIPE) as process:
        process.stdin.write(b"0002000167 null\n")
        process.stdin.flush()
        assert process.stdout.readline()
        process.send_signal(signal.SIGINT)
        if closed == "at once":
            process.stdin.close()
        assert process.wait(timeout=300) == 130
        err = process.stderr.read()
    assert b"1 shown" in err
    assert b"Traceback" not in err


def test_ctrl_c_after_the_last_record_still_prints_the_summary(quorate, monkeypatch):
    def interrupted(*arguments, **how):
        signal.raise_signal(signal.SIGINT)
        show_summary(*arguments, **how)

    monkeypatch.setattr("quorate.cli.decode.show_summary", interrupted)
    ended = quorate("decode", "-", "--summary", stdin="0002000167 null\n")
    assert (ended.status, len(ended.lines)) == (130, 1)
    assert ended.err.endswith("1 shown\n")


LOG = "cli/demo/data/kafka-logs"


@pytest.mark.parametrize(
    ("line", "status", "out", "err"),
    [
        (f"decode {LOG} --limit 1 >&-", 1, 0, "error: standard output: Bad file descriptor"),
        ("records >&-", 1, 0, "error: standard output: Bad file descriptor"),
        ("demo >&-", 1, 0, "error: standard output: Bad file descriptor"),
        ('encode "$RECORD" >&-', 1, 0, "error: standard output: Bad file descriptor"),
        ("--help >&-", 1, 0, "error: standard output: Bad file descriptor"),
        ("--version >&-", 1, 0, "error: standard output: Bad file descriptor"),
        ("decode - <&-", 1, 0, "error: standard input: cannot be read: Bad file descriptor"),
        ("encode <&-", 1, 0, "error: standard input: cannot be read: Bad file descriptor"),
        (f"decode {LOG} --limit 1 <&-", 0, 1, ""),
        ('encode "$RECORD" <&-', 0, 1, ""),
        (f"decode {LOG} --limit 1 --summary 2>&-", 0, 1, ""),
        (f"decode {LOG} --limit 1 --format kafka 2>&-", 0, 1, ""),
        ('encode "$RECORD" 2>&-', 0, 1, ""),
        ("encode nonsense 2>&-", 1, 0, ""),
        ("decode nonsense 2>&-", 1, 0, ""),
        (f"decode {LOG} --limit 1 <&- >&- 2>&-", 1, 0, ""),
    ],
)
def test_closed_streams(line, status, out, err):
    record = '{"type": 2, "key": {"group": "g"}, "value": null}'
    env = os.environ | PLAIN | {"RECORD": record}
    done = subprocess.run(
        ["bash", "-c", f"{COMMAND} {line}"], cwd=ROOT, capture_output=True, text=True, env=env, timeout=300
    )
    assert (done.returncode, len(done.stdout.splitlines()), done.stderr.strip()) == (status, out, err)


@pytest.mark.parametrize(
    "command", [["demo", "decode"], ["records"], ["records", "OffsetCommit"], ["decode", "--help"]]
)
def test_characters_that_the_encoding_lacks_become_question_marks(start, monkeypatch, command):
    encodings = ["latin-1", "cp1252", "cp437"]
    started = []
    for encoding in encodings:
        monkeypatch.setenv("PYTHONIOENCODING", encoding)
        started.append(start(*command))
    for process, encoding in zip(started, encodings, strict=True):
        out, err = process.communicate(timeout=300)
        assert (process.returncode, err) == (0, b"")
        assert len(out.decode(encoding).splitlines()) > 5


@pytest.mark.skipif(sys.platform != "linux", reason="/dev/full")
@pytest.mark.parametrize("command", [["decode", "{log}"], ["records"], ["demo"], ["--help"], ["--version"]])
def test_a_full_disk_is_an_error_of_one_line(start, upgrade, command):
    with Path("/dev/full").open("wb") as full:
        process = start(*(part.format(log=upgrade) for part in command), stdout=full)
        _, err = process.communicate(timeout=300)
    assert (process.returncode, err) == (1, b"error: standard output: No space left on device\n")


# ---- terminals


def screen(*arguments, streams=("stdout",), columns=100, **environment):
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "NO_COLOR", "FORCE_COLOR")}
    env |= {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"} | environment
    return in_terminal([COMMAND, *map(str, arguments)], streams=streams, env=env, columns=columns)


def plain(text):
    return re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", text)


@pytest.mark.parametrize("columns", [60, 80, 100, 130, 200])
def test_the_table_fits_the_terminal(upgrade, columns):
    status, shown, _, err = screen("decode", upgrade, columns=columns)
    assert (status, err) == (0, "")
    lines = plain(shown).splitlines()
    names = ["part", "offset", "time", "(UTC)", "id", "type", "group", "what"]
    assert lines[0].split() == [name for name in names if name != "type" or columns >= 110]
    assert lines[1] == f"── __consumer_offsets{'' if columns >= 110 else ', 2026-11-21'} ──"
    assert max(map(len, lines)) <= columns
    rows = [line for line in lines[2:] if line[:4].strip()]
    assert len(rows) == 672
    assert all(line.isprintable() and line.lstrip() for line in lines)
    assert "\x1b[31m" in shown  # a tombstone


def test_the_last_column_wraps(upgrade):
    text = (
        "xfgFzHx6…: epoch 1, unrevoked partitions, assigned orders 3-5, clicks.eu 2, "
        "pending revocation orders 0-2, clicks.eu 0-1"
    )
    _, shown, _, _ = screen("decode", upgrade, "--group", "bill-orders", columns=80)
    lines = plain(shown).splitlines()
    first = next(number for number, line in enumerate(lines) if "unrevoked" in line)
    assert " ".join(line[43:].strip() for line in lines[first : first + 4]) == text
    _, wide, _, _ = screen("decode", upgrade, "--group", "bill-orders", "--wide", columns=80)
    assert text.partition("…: ")[2] + "\n" in plain(wide)


def test_text_that_is_cut_has_a_mark(upgrade):
    _, shown, _, _ = screen("decode", upgrade, "--group", "bill-orders", "--type", "OffsetCommit", columns=80)
    assert 'clicks.eu-2 → 3, metadata "on 4.3.1\\…\n' in plain(shown)  # metadata of a commit does not wrap
    assert len(plain(shown).splitlines()) == 2 + 54
    _, shown, _, _ = screen("decode", upgrade, "--type", "GroupMetadata", columns=60)
    lines = plain(shown).splitlines()
    assert any(line.endswith(" …") for line in lines)
    assert not any("".join(line[:4] for line in lines[i : i + 4]).isspace() for i in range(len(lines) - 3))


@pytest.mark.parametrize("environment", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_a_terminal_without_colour(upgrade, environment):
    _, shown, _, _ = screen("decode", upgrade, "--limit", "5", **environment)
    assert "\x1b" not in shown


def test_format_overrides_the_default_for_terminals(upgrade):
    _, shown, _, _ = screen("decode", upgrade, "--format", "jsonl", "--limit", "1", "--type", "3")
    assert json.loads(plain(shown).replace("\n", ""))["name"] == "ConsumerGroupMetadata"


def test_a_terminal_shows_a_summary_and_no_progress_bar_between_rows(upgrade):
    _, shown, _, _ = screen("decode", upgrade, streams=("stdout", "stderr"))
    assert "672 shown" in shown
    assert "━" not in shown
    _, shown, _, _ = screen("decode", upgrade, "--no-summary", streams=("stdout", "stderr"))
    assert "shown" not in shown


def test_a_progress_bar_is_shown_if_stdout_is_not_the_terminal(upgrade):
    status, shown, out, _ = screen("decode", upgrade, streams=("stderr",))
    assert status == 0
    assert "━" in shown
    assert len(out.splitlines()) == 672
    assert "672 shown" in shown


def test_encode_does_not_read_from_a_terminal(upgrade):
    status, shown, _, _ = screen("encode", streams=("stdin", "stdout", "stderr"))
    assert status == 1
    assert "error: nothing to encode" in plain(shown)


def test_control_characters_in_records_are_escaped():
    group = b"\x1b[31mred\x07\xc2\x9b".hex()
    line = f"0002{len(group) // 2:04x}{group} null".encode()
    with subprocess.Popen(["printf", line.decode()], stdout=subprocess.PIPE) as source:
        env = os.environ | {"TERM": "xterm-256color", "LC_ALL": "C.UTF-8"}
        _, shown, _, _ = in_terminal([COMMAND, "decode", "-"], streams=("stdout",), env=env, stdin=source.stdout)
    assert "\x1b[31mred" not in shown
    assert r"\x1b[31mred\x07\x9b" in shown
