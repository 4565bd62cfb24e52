"""What an observer keeps: samples of lags over time."""

import pytest

from quorate.watch.model import LagSample
from quorate.watch.store import WatchStore

NOW_MS = 1_800_000_000_000


@pytest.mark.parametrize("minutes", [5, 25])
def test_lags_are_found_at_any_time_before_and_after_they_are_ordered(tmp_path, minutes):
    store = WatchStore(tmp_path, "a cluster")
    times = [NOW_MS + 10_000 * number for number in range(minutes * 6)]
    for number, at_ms in enumerate(times):
        with store.transaction():
            store.put_lags(at_ms, [("a", number, number * 7), ("b", None, number)])
    everything = store.lags("a", NOW_MS, times[-1], 10_000)
    assert everything == [
        LagSample(at_ms=at_ms, lag_records=number, lag_ms=number * 7) for number, at_ms in enumerate(times)
    ]
    assert store.lags("a", times[3], times[5], 100) == everything[3:6]
    for number in (0, 7, len(times) - 1):
        at_ms = times[number] + 9_000
        assert store.last_lags(at_ms) == {"a": (number, number * 7), "b": (None, number)}
        assert store.last_lags(at_ms, "b") == {"b": (None, number)}
    assert store.last_lags(times[-1] + 3_600_000) == {}
    middle = times[len(times) // 2]
    store.retain(middle, None)
    assert store.lags("a", NOW_MS, times[-1], 10_000) == [one for one in everything if one.at_ms >= middle]
    store.close()
