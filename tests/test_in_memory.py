"""`scripts/in-memory`: the temporary folder of tests, in memory if there is enough."""

import os
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "scripts" / "in-memory"
SHOW = 'cd "${TMPDIR:-/tmp}" && pwd; exit "$0"'


def run(status: int, **environment: str) -> tuple[int, Path]:
    """Run a command that prints its temporary folder; return its status and that folder."""
    without = {name: value for name, value in os.environ.items() if name != "TMPDIR"}
    command = [SCRIPT, "sh", "-c", SHOW, str(status)]
    done = subprocess.run(command, env=without | environment, stdout=subprocess.PIPE, text=True, check=False)
    return done.returncode, Path(done.stdout.strip())


@pytest.mark.parametrize("status", [0, 3])
def test_a_chosen_folder_is_used_and_kept(status: int, tmp_path: Path) -> None:
    assert run(status, TMPDIR=str(tmp_path)) == (status, tmp_path)
    assert tmp_path.exists()


def test_a_folder_in_memory_is_kept_after_a_failure_until_the_next_run() -> None:
    status, kept = run(3)
    assert status == 3
    assert kept.exists()
    status, removed = run(0)
    assert status == 0
    if kept.parent == Path("/dev/shm"):  # else memory is scarce, and both are the usual folder
        assert not kept.exists()
        assert not removed.exists()
