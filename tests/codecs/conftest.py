"""The fixtures `oracle`, `oracle_4_3` (Kafka's own classes), `broker`, and `write` for segments."""

from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.broker.fixtures import broker_of_group as broker_of_group
from tests.oracle.fixtures import oracle as oracle
from tests.oracle.fixtures import oracle_4_3 as oracle_4_3


@pytest.fixture
def write(tmp_path):
    """Return a function that writes segments into a partition's folder, named by base offsets."""

    def write(*segments: bytes, folder: str = "__consumer_offsets-0", bases: Iterable[int] | None = None) -> Path:
        place = tmp_path / folder
        place.mkdir(parents=True, exist_ok=True)
        for base, data in zip(bases or range(0, 100 * len(segments), 100), segments, strict=True):
            (place / f"{base:020}.log").write_bytes(data)
        return place

    return write
