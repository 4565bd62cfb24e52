"""`quorate pipeline` in this process and in one session of Spark: output, engines, errors."""

import csv
import json
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from quorate.pipeline.local import read
from quorate.pipeline.session import PY4J_LOGGERS, own_interrupts
from tests.extent import is_full
from tests.pipeline.helpers.command import CONSUMER, UPGRADE, Run, check_error
from tests.pipeline.helpers.command import inputs as inputs
from tests.pipeline.helpers.command import run as run
from tests.pipeline.helpers.command import run_in_spark as run_in_spark


def test_state_is_shown_as_a_table_now_and_earlier(run: Run) -> None:
    status, out, _ = run("state", UPGRADE)
    assert status == 0
    lines = {line.split()[2]: line for line in out.splitlines()}
    assert lines["ship-orders"].split()[3:8] == ["Consumer", "consumer", "Stable", "8", "8"]
    _, before, _ = run("state", UPGRADE, "--as-of", "2026-11-21T08:00:12", "--option", "partitions=1")
    assert [line.split()[6] for line in before.splitlines() if "bill-orders" in line] == ["4"]
    assert "ship-orders" not in before


def test_rebalances_are_shown_as_json_with_all_columns(run: Run) -> None:
    status, out, err = run("rebalances", UPGRADE, "--json", "--limit", "3")
    rows = json.loads(out)
    assert (status, len(rows)) == (0, 3)
    assert "--limit 3 was reached" in err
    assert rows[0]["started_at"] < rows[1]["started_at"] <= rows[2]["started_at"]
    assert rows[0]["started_at"].endswith("Z")
    assert {"causes", "joined", "superseded_at"} <= rows[0].keys()


@pytest.mark.parametrize(("engine", "job"), [("local", "state"), ("local", "locality"), ("spark", "locality")])
def test_tables_are_written_and_read_again(
    engine: str, job: str, request: pytest.FixtureRequest, inputs: list[object], tmp_path: Path
) -> None:
    run = request.getfixturevalue("run" if engine == "local" else "run_in_spark")
    command = [job, CONSUMER, "--output", tmp_path / "out", "--engine", engine]
    command += [] if job == "state" else ["--topology", tmp_path / "topics.json", "--assignor", "range"]
    first, second = ("groups", "members") if job == "state" else ("summary", "pairs")
    status, out, err = run(*command)
    assert (status, out) == (0, ""), err
    assert f"{second}: {tmp_path}/out/{second}" in err
    assert pq.read_table(tmp_path / "out" / first).num_rows == {"groups": 7, "summary": 12}[first]
    status, _, err = run(*command)
    assert (status, err.splitlines()) == (
        1,
        [
            f"error: {tmp_path}/out/{first} already exists",
            "       give --overwrite to replace it, or another --output",
        ],
    )


def test_output_is_replaced_only_if_it_is_a_table(run: Run, tmp_path: Path) -> None:
    command = ["rebalances", UPGRADE, "--output", tmp_path / "out", "--overwrite"]
    assert run(*command)[0] == 0
    assert run(*command, "--option", "partitions=1")[0] == 0
    assert set(pq.read_table(tmp_path / "out").column("log_partition").to_pylist()) == {1}
    (tmp_path / "out" / "notes.txt").write_text("mine")
    status, _, err = run(*command)
    assert (status, err.splitlines()[0]) == (
        1,
        f"error: {tmp_path}/out/notes.txt: is not part of a table and would be deleted",
    )
    assert (tmp_path / "out" / "notes.txt").read_text() == "mine"
    status, _, err = run("audit", UPGRADE, "--output", "/dev/null/x")
    assert (status, err.splitlines()) == (1, ["error: /dev/null/x: Not a directory"])
    for job in ("audit", "report"):
        status, _, err = run(job, UPGRADE, "--output", "")
        assert (status, err.splitlines()[0]) == (1, "error: --output is empty")


def test_a_report_is_written_to_standard_output_and_tables_are_not(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    status, out, err = run("report", UPGRADE, "--output", "-", "--title", "Gruppen für März")
    assert (status, err) == (0, "")
    assert out.startswith("<!doctype html>")
    assert out.endswith("</html>\n")
    assert "Gruppen für März" in out
    check_error(run("state", UPGRADE, "--output", "-"), "--output -: files cannot be written to standard output")
    assert not any(tmp_path.iterdir())


@pytest.mark.parametrize("form", ["parquet", "json", "csv"])
def test_both_engines_write_the_same_files(run_in_spark: Run, spark: SparkSession, tmp_path: Path, form: str) -> None:
    found = {}
    for engine in ("local", "spark"):
        status, _, err = run_in_spark(
            "rebalances", CONSUMER, "--output", tmp_path / engine, "--format", form, "--engine", engine
        )
        assert status == 0, err
        if form == "parquet":
            rows = spark.read.parquet(str(tmp_path / engine))
            found[engine] = rows.schema, sorted(rows.collect(), key=str)
        else:
            files = sorted((tmp_path / engine).glob(f"*.{form}"))
            found[engine] = sorted("".join(file.read_text("utf-8") for file in files).splitlines())
    assert found["local"] == found["spark"]
    # Spark reads what this process has written. Its own files have the same lines: the same rows.
    rows = spark.read.format(form).options(header="true").load(str(tmp_path / "local"))
    assert len(rows.collect()) > 40


def test_as_of_takes_offsets_of_several_partitions(run: Run) -> None:
    _, out, _ = run("state", UPGRADE, "--table", "offsets", "--json", "--as-of", "1:54,2:60")
    last: dict[int, int] = {}
    for row in json.loads(out):
        last[row["log_partition"]] = max(row["log_offset"], last.get(row["log_partition"], -1))
    assert last.keys() == {1, 2}
    assert last[1] <= 54
    assert last[2] <= 60


def test_nested_columns_are_json_in_csv(run: Run, tmp_path: Path) -> None:
    status, _, err = run(
        "rebalances", UPGRADE, "--option", "partitions=1", "--output", tmp_path / "csv", "--format", "csv"
    )
    assert status == 0, err
    (file,) = (tmp_path / "csv").glob("*.csv")
    rows = list(csv.DictReader(file.read_text("utf-8").splitlines(), escapechar="\\"))
    assert {"joined"} in [set(json.loads(row["causes"])) for row in rows]


def test_written_rows_can_replace_the_log_as_a_source(run_in_spark: Run, spark: SparkSession, tmp_path: Path) -> None:
    rows = spark.read.format("consumer-offsets").load(str(UPGRADE))
    rows.write.parquet(str(tmp_path / "rows"))
    found = run_in_spark("audit", tmp_path / "rows", "--from", "parquet", "--json")
    assert found[0] == 0
    assert found == run_in_spark("audit", UPGRADE, "--json")
    if is_full():  # test_audit.py compares the engines
        assert found == run_in_spark("audit", UPGRADE, "--json", "--engine", "spark")


def test_an_offset_of_a_partition_that_written_rows_lack_is_an_error(run_in_spark: Run, tmp_path: Path) -> None:
    rows = tmp_path / "rows.parquet"
    pq.write_table(read(UPGRADE).table(), rows)
    command = ["state", rows, "--from", "parquet", "--json", "--as-of"]
    found = run_in_spark(*command, "0:5,9:5")
    check_error(found, "--as-of 9:5: what is read has no partition 9 of __consumer_offsets")
    assert found[2].splitlines()[1] == "       it has 0 to 3"
    status, out, err = run_in_spark(*command, "1:54")
    assert (status, {row["log_partition"] for row in json.loads(out)}) == (0, {1}), err
    pq.write_table(read(UPGRADE).table().drop_columns(["partition"]), rows)
    check_error(run_in_spark(*command, "1:54"), "the DataFrame has no column partition")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--conf", "spark.ui.enabled=false"], "--conf"),
        (["--master", "local"], "--master"),
        (["--from", "parquet"], "--from parquet"),
        (["--output", "out", "--format", "delta"], "--format delta"),
        (["--output", "s3a://bucket/groups"], "--output s3a://bucket/groups"),
        (["--end-offsets", "s3a://bucket/ends.csv"], "--end-offsets s3a://bucket/ends.csv"),
    ],
)
def test_the_local_engine_refuses_options_that_need_spark(run: Run, arguments: list[str], reason: str) -> None:
    job = "lag" if "--end-offsets" in arguments else "state"
    status, out, err = run(job, UPGRADE, "--engine", "local", *arguments)
    assert (status, out) == (1, "")
    assert err.splitlines() == [
        f"error: --engine local: {reason} needs Spark",
        "       omit it, or use --engine spark",
    ]


def test_spark_is_chosen_for_large_logs(run_in_spark: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.cli.pipeline.engine.LOCAL_BYTES", 1000)
    monkeypatch.setattr("quorate.pipeline.local.group_state", None)
    status, out, err = run_in_spark("state", UPGRADE)
    assert (status, "ship-orders" in out) == (0, True), err
    assert re.search(r"^using Spark for 0\.\d GB; --engine local uses this process, and its memory$", err, re.MULTILINE)


def test_the_local_engine_needs_neither_pyspark_nor_java(tmp_path: Path, inputs: list[object]) -> None:
    hidden = (
        "import sys\n"
        "for name in ('pyspark', 'py4j'):\n"
        "    sys.modules[name] = None\n"
        "from quorate.cli.main import main\n"
        f"main(['pipeline', 'state', {str(CONSUMER)!r}, '--json'], standalone_mode=False)\n"
        f"main(['pipeline', 'report', {str(CONSUMER)!r}, *sys.argv[1:]])\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "JAVA_HOME"} | {"PATH": str(tmp_path)}
    command = [sys.executable, "-P", "-c", hidden, "--output", tmp_path / "report.html", *map(str, inputs)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "cg-migrates" in done.stdout
    assert 'class="matrix"' in (tmp_path / "report.html").read_text()


@pytest.fixture(scope="module")
def damaged(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of two partitions: one has a batch with a wrong byte, the other ends inside a batch."""
    folder = tmp_path_factory.mktemp("damaged")
    for number in (1, 2):
        name = f"__consumer_offsets-{number}"
        shutil.copytree(UPGRADE / name, folder / name)
        (segment,) = (folder / name).glob("*.log")
        data = bytearray(segment.read_bytes())
        if number == 1:
            second = 12 + int.from_bytes(data[8:12])
            data[second + 61] ^= 0xFF  # the first byte after the header of the second batch
        segment.write_bytes(data if number == 1 else data[:-5])
    return folder


@pytest.mark.parametrize(("engine", "source"), [("local", "log"), ("spark", "log"), ("spark", "rows")])
def test_damage_is_reported_once_and_ends_with_status_1(
    request: pytest.FixtureRequest, damaged: Path, tmp_path: Path, engine: str, source: str
) -> None:
    run = request.getfixturevalue("run" if engine == "local" else "run_in_spark")
    command: list[object] = ["--engine", engine]
    if source == "log":
        command.append(damaged)
    else:
        pq.write_table(read(damaged).table(), tmp_path / "rows.parquet")
        command += [tmp_path / "rows.parquet", "--from", "parquet"]
    place = f"error: {damaged}/__consumer_offsets-1/00000000000000000000.log, position "
    report = ["report", "--output", tmp_path / "report.html"]
    for job in (["state", "--json"], *([report] if engine == "local" else [])):  # which reads the log more than once
        status, out, err = run(*job, *command)
        lines = [line for line in err.splitlines() if not line.startswith("report: ")]
        assert (status, len(lines)) == (1, 2), err
        assert lines[0].startswith(place)
        assert "CRC" in lines[0]
        assert "the result may lack" in lines[1]
        assert job[0] == "report" or len(json.loads(out)) > 2
    if engine == "local":
        found = run("state", *command, "--option", "mode=DROPMALFORMED", "--json")
        assert (found[0], found[2]) == (0, "")
        assert run("state", *command, "--option", "partitions=2")[0] == 0, "a torn tail is not damage"


@pytest.mark.parametrize("engine", ["local", "spark"])
def test_partitions_with_an_open_transaction_are_named(request: pytest.FixtureRequest, engine: str) -> None:
    run = request.getfixturevalue("run" if engine == "local" else "run_in_spark")
    log = UPGRADE.parent / "transactions-4.3"
    command = ("state", log, "--engine", engine, "--json")
    status, out, err = run(*command)
    assert (status, err) == (
        0,
        "not read because of open transactions: __consumer_offsets-1 from offset 21 on; "
        "--option isolation.level=read_uncommitted reads it\n",
    )
    assert "tx-two" not in out
    status, out, err = run(*command, "--option", "isolation.level=read_uncommitted")
    assert (status, err) == (0, "")
    assert "tx-two" in out


def test_an_offset_needs_files_of_a_known_partition(run: Run, tmp_path: Path) -> None:
    shutil.copy(UPGRADE / "__consumer_offsets-1" / "00000000000000000000.log", tmp_path / "copy.log")
    check_error(run("state", tmp_path / "copy.log", "--as-of", "1:5"), "--as-of: an offset needs files of a known")


def test_a_log_without_segments_is_an_error(run: Run, tmp_path: Path) -> None:
    (tmp_path / "__consumer_offsets-3").mkdir()
    check_error(run("state", tmp_path), f"{tmp_path}: has no segments; it has __consumer_offsets-3 without segments")


def test_a_folder_of_another_topic_is_an_error_without_the_option_topic(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "orders-0"
    for name in ("orders", "__share_group_state"):
        segment = tmp_path / f"{name}-0" / f"{0:020}.log"
        segment.parent.mkdir()
        segment.write_bytes(next((UPGRADE / "__consumer_offsets-1").glob("*.log")).read_bytes())
    for place in (segment.parent, segment):
        check_error(run("state", place), f"{place}: is of __share_group_state, not of __consumer_offsets; name another")
        assert run("state", place, "--option", "topic=__consumer_offsets")[0] == 0
    assert run("state", folder)[0] == 0, "any folder may have a name like that of a partition"
    (tmp_path / "meta.properties").touch()
    check_error(run("state", folder), f"{folder}: is of orders, not of __consumer_offsets; name another folder")


@pytest.mark.parametrize("engine", ["auto", "spark"])
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["state"], "nothing to read"),
        (["state", "-b", "x:1", "y"], "either -b or a SOURCE"),
        (["state", UPGRADE, "--option", "types"], "--option types: is not NAME=VALUE"),
        (["state", UPGRADE, "--option", "mode=LOOSE"], "mode"),
        (["state", UPGRADE / "nowhere"], "nowhere"),
        (["state", UPGRADE, "--as-of", "12"], "--as-of 12: name the partition"),
        (["state", UPGRADE, "--as-of", "0:5,soon"], "--as-of 0:5,soon: neither a time nor offsets of partitions"),
        (["state", UPGRADE, "--as-of", "0:5,9:5"], "--as-of 9:5: what is read has no partition 9 of"),
        (["rebalances", UPGRADE, "--as-of", "1:5", "--option", "partitions=2"], "has no partition 1"),
        (["state", UPGRADE, "--as-of", "0:5,0:6"], "--as-of 0:5,0:6: partition 0 is given twice"),
        (["state", UPGRADE, "--as-of", "soon"], "--as-of 'soon' is not a time"),
        (["state", UPGRADE, "--limit", "2147483647"], "'--limit': 2147483647 is not in the range"),
        (["state", UPGRADE, "--format", "csv"], "--format is for results that are written"),
        (["audit", UPGRADE, "--overwrite"], "--overwrite is for results that are written"),
        (["state", UPGRADE, "--output", "x", "--table", "members"], "--table is for results that are printed"),
        (["state", UPGRADE, "--output", "x", "--json"], "--json is for results that are printed"),
        (["audit", UPGRADE, "--output", "x", "--limit", "5"], "--limit is for results that are printed"),
        (["lag", UPGRADE], "--end-offsets is required"),
        (["lag", UPGRADE, "--end-offsets", "ends.xls"], "is not a .csv, .jsonl or .parquet file"),
        (["locality", UPGRADE], "--topology is required"),
    ],
)
def test_errors_are_one_line(
    request: pytest.FixtureRequest, engine: str, arguments: list[object], message: str
) -> None:
    run = request.getfixturevalue("run" if engine == "auto" else "run_in_spark")
    check_error(run(*arguments, "--engine", engine), message)


@pytest.mark.parametrize("form", ["csv", "jsonl"])
def test_an_offset_of_more_than_64_bits_is_an_error(run: Run, tmp_path: Path, form: str) -> None:
    ends = tmp_path / f"ends.{form}"
    row = {"topic": "orders", "partition": 0, "timestamp": "2026-11-21", "end_offset": 1 << 65}
    ends.write_text(
        json.dumps(row) if form == "jsonl" else "\n".join(",".join(map(str, one)) for one in (row, row.values()))
    )
    check_error(
        run("lag", UPGRADE, "--end-offsets", ends), f"end_offset is '{1 << 65}', which is larger than an offset"
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["audit", UPGRADE, "--output", "/dev/null/x", "--format", "delta"],
            "--format delta: this Spark has no such format",
        ),
        (["rebalances", UPGRADE, "--from", "no-such-format"], "no-such-format"),
    ],
)
def test_errors_of_spark_are_one_line(run_in_spark: Run, arguments: list[object], message: str) -> None:
    check_error(run_in_spark(*arguments), message)


def test_an_error_at_the_start_of_spark_is_printed_alone(tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "quorate.pipeline", "state", str(UPGRADE), "--engine", "spark"]
    clean = {name: value for name, value in os.environ.items() if name not in ("JAVA_HOME", "PYSPARK_GATEWAY_PORT")}
    done = subprocess.run(command, env=clean | {"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines()[0] == "error: pipeline needs Java: neither JAVA_HOME nor PATH has it"
    # If Spark starts, the JVM's messages of the start are not printed.
    command = [sys.executable, "-P", "-m", "quorate.pipeline", "audit", str(UPGRADE), "--from", "no-such"]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout, len(done.stderr.splitlines())) == (1, "", 1)
    assert done.stderr.startswith("error: Failed to find the data source: no-such.")
    command += ["--conf", "spark.driver.memory=lots"]
    done = subprocess.run(command, env=clean, capture_output=True, text=True, timeout=300)
    assert done.stderr == "error: Spark does not start: Invalid maximum heap size: -Xmxlots\n"
    hidden = (
        "import sys; sys.modules['pyspark'] = None; from quorate.cli.main import main; "
        "main(['pipeline', 'state', 'x', '--engine', 'spark'])"
    )
    done = subprocess.run([sys.executable, "-P", "-c", hidden], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.splitlines() == [
        "error: pipeline needs Spark, and pyspark is not installed",
        "       pip install 'quorate[spark]'",
    ]


@pytest.mark.parametrize(
    ("missing", "imported", "needed"),
    [
        ("pyarrow", "local", "quorate.pipeline needs pyarrow: pip install 'quorate[arrow]'"),
        ("pyspark", "register", "quorate.pipeline.register needs pyspark: pip install 'quorate[spark]'"),
    ],
)
def test_imports_name_the_extra(missing: str, imported: str, needed: str) -> None:
    code = f"import sys; sys.modules[{missing!r}] = None; from quorate.pipeline import {imported}"
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300)
    assert done.stderr.splitlines()[-1] == f"ModuleNotFoundError: {needed}"


def test_ctrl_c_during_a_call_of_spark_prints_nothing() -> None:
    """The program sends the signal to its process group, as a terminal does."""
    code = f"""
import os, signal, sys, threading, time
from quorate.cli.start import main

def call():
    frame, call, is_reading = sys._current_frames()[threading.main_thread().ident], None, False
    while frame is not None:
        call = call or (frame.f_code.co_name == "send_command" and id(frame)) or None
        is_reading = is_reading or frame.f_code.co_name == "read_rows"
        frame = frame.f_back
    return call if is_reading else None

def interrupt():
    while (before := call()) is None or (time.sleep(0.1), call())[1] != before:
        time.sleep(0.001)
    os.killpg(0, signal.SIGINT)

threading.Thread(target=interrupt, daemon=True).start()
sys.argv = ["quorate", "pipeline", "state", {str(UPGRADE)!r}, "--engine", "spark"]
main()
"""
    command = [sys.executable, "-P", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, start_new_session=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_only_log_messages_of_py4j_are_dropped(caplog: pytest.LogCaptureFixture) -> None:
    before = signal.getsignal(signal.SIGINT)
    filters = {name: logging.getLogger(name).filters[:] for name in PY4J_LOGGERS}
    try:
        with own_interrupts():
            signal.signal(signal.SIGINT, lambda *_: None)  # as SparkContext does
        assert signal.getsignal(signal.SIGINT) is before
        logging.getLogger().error("of a program")
        exec(compile("import logging; logging.error('of py4j')", "/lib/py4j/java_gateway.py", "exec"))
        code = "import logging; logging.getLogger('py4j.clientserver').error('Exception occurred while shutting down')"
        exec(compile(code, "/lib/py4j/clientserver.py", "exec"))
    finally:
        for name, before_it in filters.items():
            logging.getLogger(name).filters[:] = before_it
    assert caplog.messages == ["of a program"]


def test_the_local_engine_does_not_import_pandas() -> None:
    code = (
        "import sys; from quorate.cli.main import main; before = list(sys.meta_path); "
        f"main(['pipeline', 'state', {str(UPGRADE)!r}, '--engine', 'local'], standalone_mode=False); "
        "assert 'pandas' not in sys.modules; assert sys.meta_path == before; import pandas"
    )
    done = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout
