"""Runs `quorate pipeline` in this process, or in the session of Spark."""

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from quorate.cli.main import main
from quorate.pipeline.jobs.columns import PUSHDOWN
from tests.coordinator.captures import CAPTURES

UPGRADE = CAPTURES / "upgrade-4.0-to-4.3-and-back"
CONSUMER = CAPTURES / "consumer-4.3"


Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `quorate pipeline`, which must not start Spark."""
    monkeypatch.setitem(sys.modules, "quorate.pipeline.session", None)
    return invoke


@pytest.fixture
def run_in_spark(spark: SparkSession) -> Iterator[Run]:
    """Run `quorate pipeline` in the existing session, where Spark is needed or selected."""
    yield invoke
    spark.conf.unset(PUSHDOWN)  # as in conftest: Spark 4.0 does not have it


def invoke(*arguments: object) -> tuple[int, str, str]:
    result = CliRunner(catch_exceptions=False).invoke(main, ["pipeline", *map(str, arguments)])
    return result.exit_code, result.stdout, result.stderr


def check_error(done: tuple[int, str, str], message: str) -> None:
    status, out, err = done
    assert (status, out) == (1, "")
    assert message in err.splitlines()[0]
    assert err.startswith("error: ")
    assert "Traceback" not in err
    assert len(err.splitlines()[0]) < 400


@pytest.fixture
def inputs(tmp_path: Path) -> list[object]:
    """Return the options of a report with all charts."""
    topology = {
        "topics": {
            "t-alpha": {"partitions": 6, "racks": [["rack-a"], ["rack-b"], ["rack-c"]] * 2},
            "t-gamma": {"partitions": 3, "racks": [["rack-a"], ["rack-b"], ["rack-c"]]},
        }
    }
    (tmp_path / "topics.json").write_text(json.dumps(topology))
    lines = ["topic,partition,timestamp,end_offset"]
    lines += [
        f"t-alpha,{number},2026-11-21T08:{minute}:00Z,{100 * minute}" for number in range(6) for minute in range(14, 22)
    ]
    (tmp_path / "ends.csv").write_text("\n".join(lines))
    rates = [{"topic": "t-alpha", "partition": number, "bytes_per_second": 1e6 * number} for number in range(6)]
    (tmp_path / "rates.jsonl").write_text("\n".join(map(json.dumps, rates)))
    return [
        *("--end-offsets", tmp_path / "ends.csv", "--topology", tmp_path / "topics.json"),
        *("--throughput", tmp_path / "rates.jsonl", "--price-per-gb", "0.02", "--title", "Captured <groups>"),
    ]
