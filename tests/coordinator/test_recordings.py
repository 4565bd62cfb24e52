"""Recorded histories of all kinds of groups: our responses equal those of Kafka's coordinator."""

import pytest

from tests.coordinator.recordings import Recording, read_recordings


@pytest.mark.parametrize("history", read_recordings(), ids=lambda one: one.name)
def test_records_responses_and_timers_equal_kafkas(history: Recording) -> None:
    history.play()
