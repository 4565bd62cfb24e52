"""Clusters in which each step of a large request takes a turn."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, turns
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.large_requests import SampleTurns


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, short_turns: None) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties=QUICK, data=tmp_path if request.param else None) as cluster:
        yield cluster


@pytest.fixture
def sample_turns(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> SampleTurns:
    """Call a function before each turn of large requests; return its results."""

    def start(sample: Callable[[], Any]) -> list[Any]:
        samples: list[Any] = []
        original = turns.Turns._next

        def next_turn(self: turns.Turns) -> None:
            samples.append(sample())
            original(self)

        monkeypatch.setattr(turns.Turns, "_next", next_turn)
        return samples

    return start
