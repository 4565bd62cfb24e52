"""The reference of the source has the options and columns that there are."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_of_the_reference_are_those_of_the_code() -> None:
    command = [sys.executable, "-P", ROOT / "scripts" / "fill_spark_tables.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_release_that_is_pinned_is_in_the_table_of_releases_and_no_test_failed() -> None:
    """Whoever moves the pin runs `make test-spark-matrix`.

    It was first run on 2026-11-21, on 4.0.5, 4.1.4 and 4.3.0.
    """
    pins = (ROOT / "constraints.txt").read_text("utf-8").split()
    (pinned,) = (pin.removeprefix("pyspark==") for pin in pins if pin.startswith("pyspark=="))
    page = (ROOT / "docs" / "how-to" / "spark.md").read_text("utf-8")
    table = page.partition("<!-- releases -->")[2].partition("<!-- end of releases -->")[0]
    assert f"| {pinned} |" in table
    assert "fail" not in table
