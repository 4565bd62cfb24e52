"""The reference of the source has the options and columns that there are."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_the_tables_of_the_reference_are_those_of_the_code() -> None:
    command = [sys.executable, "-P", ROOT / "scripts" / "fill_spark_tables.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")
