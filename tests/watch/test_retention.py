"""What an observer keeps of its history."""

import secrets
from pathlib import Path

from quorate.watch.model import EventKind, WatchEvent
from quorate.watch.store import WatchStore

HOUR_MS = 3_600_000
T0 = 1_790_000_000_000
EVENTS = 3_000


def event(number: int) -> WatchEvent:
    return WatchEvent(
        id=0,
        at_ms=T0 + number * HOUR_MS,
        seen_ms=T0,
        group_id=f"group-{number % 7}",
        kind=EventKind.GROUP_CREATED,
        sentence=secrets.token_hex(500),  # which cannot be compressed well
    )


def filled(folder: Path) -> WatchStore:
    store = WatchStore(folder, "a cluster")
    with store.transaction():
        for number in range(EVENTS):
            store.put_event(event(number))
            store.put_lags(T0 + number * HOUR_MS, [(f"group-{number % 7}", number, number)])
    return store


def test_the_oldest_history_goes_first_when_the_size_is_reached(tmp_path):
    store = filled(tmp_path)
    try:
        most = store.size_bytes // 3
        store.retain(None, most)
        assert store.size_bytes <= most
        kept = store.events(newest_first=False, limit=EVENTS)
        assert 0 < len(kept) < EVENTS * 0.6
        assert [one.at_ms for one in kept] == [T0 + number * HOUR_MS for number in range(EVENTS - len(kept), EVENTS)]
        assert store.since_ms() >= kept[0].at_ms - HOUR_MS
        lags = store.lags("group-1", 0, T0 + EVENTS * HOUR_MS, 10 * EVENTS)
        assert lags[0].at_ms >= kept[0].at_ms - 7 * HOUR_MS
        store.retain(None, most)
        assert store.events(newest_first=False, limit=EVENTS) == kept
    finally:
        store.close()


def test_history_before_a_time_is_forgotten(tmp_path):
    store = filled(tmp_path)
    try:
        store.retain(T0 + 2_990 * HOUR_MS, None)
        assert [one.at_ms for one in store.events(newest_first=False)] == [
            T0 + number * HOUR_MS for number in range(2_990, EVENTS)
        ]
    finally:
        store.close()
