"""The pytest fixtures `oracle`, `oracle_4_3` and `oracle_4_0`, for the conftest.py of a folder.

Folders share the programs, and so do the workers of xdist: each starts once in a run, when a test
needs it.
"""

from pathlib import Path

import pytest

from tests.oracle.client import Oracle, missing_reason
from tests.oracle.shared import SharedOracle

RUNNING = pytest.StashKey[dict[str | None, Oracle]]()
"""The programs that run, by release."""


@pytest.fixture(scope="session")
def oracle(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Return a program with Kafka's own classes.

    If it is not built, the test is skipped with the remedy. In CI a skip is a failure
    (tests/conftest.py).
    """
    return running(pytestconfig, tmp_path_factory)


@pytest.fixture(scope="session")
def oracle_4_3(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Return a program with the classes of Kafka 4.3 (tests/oracle_4_3/README.md)."""
    return running(pytestconfig, tmp_path_factory, "4.3")


@pytest.fixture(scope="session")
def oracle_4_0(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Oracle:
    """Return a program with the coordinator of Kafka 4.0 (tests/oracle_4_0/README.md)."""
    return running(pytestconfig, tmp_path_factory, "4.0")


def running(config: pytest.Config, factory: pytest.TempPathFactory, release: str | None = None) -> Oracle:
    """Return the program of a release, which runs until pytest ends."""
    programs = config.stash.setdefault(RUNNING, {})
    if release not in programs:
        need_oracle(release)
        folder = shared_folder(config, factory)
        programs[release] = Oracle(release=release) if folder is None else SharedOracle(folder, release)
        config.add_cleanup(programs[release].close)
    return programs[release]


def shared_folder(config: pytest.Config, factory: pytest.TempPathFactory) -> Path | None:
    """Return the folder of the oracles that workers of xdist share; `None` without workers."""
    return factory.getbasetemp().parent if hasattr(config, "workerinput") else None  # the parent is that of the run


def need_oracle(release: str | None = None) -> None:
    """Skip the test if the oracle or its jars are missing."""
    reason = missing_reason(release)
    if reason is not None:
        pytest.skip(reason)
