"""Recorded histories: our responses equal those of the coordinators of Kafka 4.1.2 and 4.2.1."""

import pytest

from tests.coordinator.recordings import Recording, read_recordings
from tests.coordinator.versions.older_recordings import FILE_OLDER


@pytest.mark.parametrize("history", read_recordings(FILE_OLDER), ids=lambda one: one.name)
def test_records_responses_and_timers_equal_those_of_the_release(history: Recording) -> None:
    assert not history.play().is_newest
