"""The source reads from files what `read_log` reads, whatever the tasks are."""

from pathlib import Path

import pytest

from tests.pipeline.conftest import CAPTURES
from tests.pipeline.reading import by_place, expected, rows_of

LOGS = sorted(path for path in CAPTURES.iterdir())


@pytest.mark.parametrize("isolation_level", ["read_committed", "read_uncommitted"])
@pytest.mark.parametrize("log", LOGS, ids=lambda path: path.name)
def test_rows_of_real_brokers_are_the_entries_of_read_log_field_for_field(log: Path, isolation_level: str) -> None:
    wanted = expected(log, topics=["__consumer_offsets"], isolation_level=isolation_level)
    assert wanted
    assert by_place(rows_of(log, isolation_level=isolation_level)) == by_place(wanted)
