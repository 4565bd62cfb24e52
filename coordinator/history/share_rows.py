"""Rows of the state of share-partitions (KIP-932).

The state is what share coordinators store: records that a member has acquired and not yet
acknowledged are known to the leader of the partition only.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from quorate.assignors import TopicPartition
from quorate.codecs.messages.share_state import StateBatch
from quorate.coordinator.history.replay import ReplayedGroup, ReplayedGroups, ReplayedShare
from quorate.coordinator.history.share_events import ARCHIVED

Row = dict[str, Any]

_NAMES = {0: "available", 1: "acquired", 2: "acknowledged", 3: "archiving", 4: "archived"}


def share_rows(found: ReplayedGroups, group_id: str) -> Iterator[tuple[tuple[str, int], Row]]:
    """Yield topic and number of each share-partition of a group, with the fields of its state."""
    shares = found.shares.get(group_id, {})
    for at, one in sorted((found.at(place), one) for place, one in shares.items()):
        state, counts = one.state, _counts(one)
        batches = state.state_batches
        end = None if found.ends is None else found.ends.get(TopicPartition(*at))
        done = state.delivery_complete_count
        known = end is not None and state.start_offset >= 0 and done >= 0
        yield (
            at,
            {
                "start_offset": None if state.start_offset < 0 else state.start_offset,
                "state_epoch": state.state_epoch,
                "leader_epoch": state.leader_epoch,
                "snapshot_epoch": state.snapshot_epoch,
                "in_flight": batches[-1].last_offset + 1 - max(0, state.start_offset) if batches else 0,
                **counts,
                "max_delivery_count": max((batch.delivery_count for batch in batches), default=0),
                "delivery_complete_count": None if done < 0 else done,
                "lag": max(0, end - state.start_offset - done) if known and end is not None else None,
                "written_ms": one.written_ms,
                "log_partition": one.log_partition,
                "batches": [_batch(batch) for batch in batches],
            },
        )


def _counts(one: ReplayedShare) -> dict[str, int]:
    counts: Counter[str] = Counter()
    for batch in one.state.state_batches:
        name = "archived" if batch.delivery_state in ARCHIVED else _NAMES.get(batch.delivery_state, "unknown")
        counts[name] += batch.last_offset - batch.first_offset + 1
    return {name: counts[name] for name in ("available", "acknowledged", "archived")}


def _batch(batch: StateBatch) -> Row:
    return {
        "first_offset": batch.first_offset,
        "last_offset": batch.last_offset,
        "state": _NAMES.get(batch.delivery_state, str(batch.delivery_state)),
        "delivery_count": batch.delivery_count,
    }


def share_summary(found: ReplayedGroups, one: ReplayedGroup) -> Row | None:
    """Return the sums over a group's share-partitions; `None` if no share state was read."""
    rows = [row for _, row in share_rows(found, one.view.group_id)]
    if not rows:
        return None
    lags = [row["lag"] for row in rows]
    return {
        "partitions": len(rows),
        **{name: sum(row[name] for row in rows) for name in ("in_flight", "available", "acknowledged", "archived")},
        "max_delivery_count": max(row["max_delivery_count"] for row in rows),
        "lag": None if None in lags else sum(lags),
    }


def share_text(summary: Row) -> str:
    """Return a summary as a sentence, without a full stop."""
    lag = "" if summary["lag"] is None else f"lag {summary['lag']:,}, "
    most = summary["max_delivery_count"]
    deliveries = f"; at most {most:,} deliver{'y' if most == 1 else 'ies'}" if most else ""
    return (
        f"{summary['partitions']:,} share-partition{'s' * (summary['partitions'] != 1)}, {lag}"
        f"{summary['in_flight']:,} in flight: {summary['available']:,} available again, "
        f"{summary['acknowledged']:,} acknowledged, {summary['archived']:,} archived{deliveries}"
    )
