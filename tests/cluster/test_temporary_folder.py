"""Temporary folders: those of killed processes are removed, and nothing else."""

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.cluster.temporary_folder import TemporaryFolder


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


@contextmanager
def another_process(where: Path) -> Iterator[tuple[Path, "subprocess.Popen[str]"]]:
    code = (
        "from quorate.cluster.temporary_folder import TemporaryFolder; "
        "own = TemporaryFolder(); print(own.path, flush=True); input()"
    )
    with subprocess.Popen(
        [sys.executable, "-P", "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"TMPDIR": str(where)},
    ) as process:
        assert process.stdout is not None
        yield Path(process.stdout.readline().rstrip()), process


def test_a_folder_is_private_to_its_user_and_removed_on_close(temporary: Path) -> None:
    with TemporaryFolder() as own:
        (own.path / "ca.pem").write_text("")
        assert own.path.parent == temporary
        assert own.path.stat().st_mode & 0o777 == 0o700
    assert list(temporary.iterdir()) == []


def test_folders_of_killed_processes_are_removed_and_those_of_running_ones_remain(temporary: Path) -> None:
    with another_process(temporary) as (path, process):
        (path / "control").touch()
        with TemporaryFolder():
            assert (path / "control").exists()
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=300)
        assert path.exists()
        with TemporaryFolder():
            assert not path.exists()


def test_other_folders_are_not_removed(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    others = [temporary / "quorate-run-without-owner", temporary / "quorate-data", temporary / "quorate-run-of-another"]
    for other in others:
        other.mkdir()
    (temporary / "quorate-data" / "owner").touch()
    (temporary / "quorate-run-a-link").symlink_to(temporary / "quorate-data")
    with TemporaryFolder():
        assert all(other.exists() for other in others)
    (temporary / "quorate-run-of-another" / "owner").touch()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with TemporaryFolder():
        assert (temporary / "quorate-run-of-another" / "owner").exists()
