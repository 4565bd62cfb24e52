"""The tables in the reference of the source and in the how-to are up to date."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_of_the_reference_are_up_to_date() -> None:
    command = [sys.executable, "-P", ROOT / "scripts" / "fill_spark_tables.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_the_table_of_releases_has_the_pinned_one_and_no_failure() -> None:
    """Run `make test-spark-matrix` after a change of the pin."""
    pins = (ROOT / "constraints.txt").read_text("utf-8").split()
    (pinned,) = (pin.removeprefix("pyspark==") for pin in pins if pin.startswith("pyspark=="))
    page = (ROOT / "docs" / "how-to" / "spark.md").read_text("utf-8")
    table = page.partition("<!-- releases -->")[2].partition("<!-- end of releases -->")[0]
    assert f"| {pinned} |" in table
    assert "fail" not in table
