"""Random histories of every kind of group, with the answers that Kafka's own coordinator gave: ours are the same.

Needs no Java.
"""

import pytest

from tests.coordinator.recorded import Recorded, recorded


@pytest.mark.parametrize("history", recorded(), ids=lambda one: one.name)
def test_records_responses_and_timers_equal_kafkas(history: Recorded) -> None:
    history.play()
