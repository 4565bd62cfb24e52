"""Recorded histories of all kinds of groups: our responses equal those of Kafka's coordinator."""

import pytest

from tests.coordinator.recorded import Recorded, recorded


@pytest.mark.parametrize("history", recorded(), ids=lambda one: one.name)
def test_records_responses_and_timers_equal_kafkas(history: Recorded) -> None:
    history.play()
