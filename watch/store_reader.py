"""Reads what an observer keeps, from any thread: each one has a connection of its own.

Writing, and the tables, are in `quorate.watch.store`.
"""

import json
import sqlite3
import threading
from collections.abc import Collection, Iterator
from contextlib import closing
from functools import lru_cache
from itertools import repeat
from pathlib import Path
from typing import Any

import pyarrow as pa

from quorate.watch.causes import fact_from_json
from quorate.watch.kept import unpack_rows
from quorate.watch.model import EventKind, LagSample, MovedPartition, WatchEvent
from quorate.watch.partition import PendingRow
from quorate.watch.states import Header, Members, unpack

FILE = "watch.sqlite"


class StoreReader:
    """Reads the database in a folder. Thread-safe."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._local = threading.local()
        self._lock = threading.RLock()
        self._readers: list[sqlite3.Connection] = []
        self._groups: dict[str, int] = {}

    def _connect(self) -> sqlite3.Connection:
        db = sqlite3.connect(self.folder / FILE, isolation_level=None, check_same_thread=False, timeout=30)
        db.execute("PRAGMA busy_timeout = 30000")
        return db

    def _reader(self) -> sqlite3.Connection:
        db: sqlite3.Connection | None = getattr(self._local, "db", None)
        if db is None:
            db = self._local.db = self._connect()
            with self._lock:
                self._readers.append(db)
        return db

    def positions(self) -> dict[tuple[str, int], int]:
        """Return the next offset by topic and partition."""
        return {(topic, number): at for topic, number, at in self._reader().execute("SELECT * FROM positions")}

    def chunks(self, topic: str, partition: int) -> Iterator[pa.RecordBatch]:
        """Yield the kept records of a log, the last record of a key last."""
        db = self._reader()
        found = db.execute("SELECT seq FROM chunks WHERE topic = ? AND partition = ? ORDER BY seq", (topic, partition))
        for (seq,) in found.fetchall():
            yield from self._chunk(db, seq)

    def pending(self, topic: str, partition: int) -> list[PendingRow]:
        """Return the records of open transactions, by offset."""
        return (
            self._reader()
            .execute(
                "SELECT key, producer, value, offset, ms FROM pending WHERE topic = ? AND partition = ? "
                "ORDER BY offset",
                (topic, partition),
            )
            .fetchall()
        )

    @staticmethod
    def _chunk(db: sqlite3.Connection, seq: int) -> Iterator[pa.RecordBatch]:
        return unpack_rows(db.execute("SELECT body FROM chunks WHERE seq = ?", (seq,)).fetchone()[0])

    def names(self) -> dict[str, str]:
        """Return topic id → name."""
        return dict(self._reader().execute("SELECT id, name FROM topics"))

    def tracker(self, group_id: str) -> dict[str, Any] | None:
        """Return the kept state of a group's tracker."""
        row = (
            self._reader()
            .execute("SELECT body FROM trackers WHERE group_no = ?", (self._groups.get(group_id, -1),))
            .fetchone()
        )
        return None if row is None else json.loads(row[0])

    def events(
        self,
        *,
        group_id: str | None = None,
        kinds: Collection[EventKind] | None = None,
        from_ms: int | None = None,
        to_ms: int | None = None,
        after_id: int | None = None,
        limit: int = 500,
        newest_first: bool = True,
    ) -> list[WatchEvent]:
        """See `Watched.events`."""
        conditions: list[tuple[str, list[Any]]] = []
        if group_id is not None:
            conditions.append(("group_no = ?", [self._groups.get(group_id, -1)]))
        if kinds is not None:
            conditions.append((f"kind IN ({','.join('?' * len(kinds))})", [kind.value for kind in kinds]))
        for text, value in (("at_ms >= ?", from_ms), ("at_ms <= ?", to_ms), ("id > ?", after_id)):
            if value is not None:
                conditions.append((text, [value]))
        where = " AND ".join(text for text, _ in conditions) or "1"
        order = "DESC" if newest_first else "ASC"
        by = f"at_ms {order}, id {order}" if after_id is None else f"id {order}"
        rows = self._reader().execute(
            "SELECT id, at_ms, group_id, kind, body FROM events JOIN groups ON no = group_no "
            f"WHERE {where} ORDER BY {by} LIMIT ?",
            [*(value for _, values in conditions for value in values), max(0, limit)],
        )
        return [_event(*row) for row in rows]

    def last_event_id(self) -> int:
        """Return the id of the newest event, 0 without one."""
        return int(self._reader().execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])

    def rebalances(self, at_ms: int | None = None, group_id: str | None = None) -> dict[str, tuple[int, int]]:
        """Return group id → number of rebalances that ended up to a time, and the last time."""
        ended = "FROM events WHERE kind = ? AND group_no = no AND at_ms <= ?"
        only = "" if group_id is None else "WHERE group_id = ?"
        rows = self._reader().execute(
            f"SELECT group_id, (SELECT count(*) {ended}), (SELECT max(at_ms) {ended}) FROM groups {only}",
            [*(EventKind.REBALANCE_ENDED.value, _END if at_ms is None else at_ms) * 2, *([group_id] if only else ())],
        )
        return {found: (count, last) for found, count, last in rows if count}

    def headers(self, at_ms: int) -> dict[str, Header]:
        """Return the fields of all groups that existed at a time."""
        rows = self._reader().execute(
            "SELECT group_id, (SELECT header FROM states WHERE group_no = no AND at_ms <= ? "
            "ORDER BY at_ms DESC, seq DESC LIMIT 1) FROM groups",
            (at_ms,),
        )
        return {group_id: _header(header) for group_id, header in rows if header is not None}

    def state(self, group_id: str, at_ms: int) -> tuple[Header, Members] | None:
        """Return a group as it was at a time; `None` if it did not exist."""
        last = None
        for _, header, members in self.states(group_id, at_ms, at_ms):
            last = header, members
        return None if last is None or last[0] is None else (last[0], last[1])

    def states(self, group_id: str, from_ms: int, to_ms: int) -> Iterator[tuple[int, Header | None, Members]]:
        """Yield the states of a group from the last one at `from_ms`, with their times."""
        group_no = self._groups.get(group_id, -1)
        db = self._reader()
        key = db.execute(
            "SELECT at_ms, seq FROM states WHERE group_no = ? AND at_ms <= ? AND key_frame = 1 "
            "ORDER BY at_ms DESC, seq DESC LIMIT 1",
            (group_no, from_ms),
        ).fetchone()
        rows = db.execute(
            "SELECT at_ms, key_frame, header, members FROM states WHERE group_no = ? AND (at_ms, seq) >= (?, ?) "
            "AND at_ms <= ? ORDER BY at_ms, seq",
            (group_no, *(key or (from_ms, 0)), to_ms),
        ).fetchall()
        members: Members = {}
        waiting: tuple[int, Header | None, Members] | None = None
        for at_ms, is_key, header, body in rows:
            changed = {} if body is None else unpack(body)
            members = changed if is_key else {k: v for k, v in (members | changed).items() if v is not None}
            if waiting is not None and at_ms > from_ms:
                yield waiting
            waiting = at_ms, None if header is None else json.loads(header), members
        if waiting is not None:
            yield waiting

    def lags(self, group_id: str, from_ms: int, to_ms: int, points: int) -> list[LagSample]:
        """See `Watched.lag`."""
        step = max(1, -((from_ms - to_ms) // 1000) // max(1, points))
        where = "WHERE group_no = ? AND at_s BETWEEN ? AND ?"
        which = self._groups.get(group_id, -1), from_ms // 1000, to_ms // 1000
        rows = self._reader().execute(
            f"SELECT max(at_s), max(records), max(ms) FROM (SELECT at_s, records, ms FROM lags {where} "
            f"UNION ALL SELECT at_s, records, ms FROM recent_lags {where}) GROUP BY at_s / ? ORDER BY 1",
            (*which, *which, step),
        )
        return [LagSample(at_ms=at * 1000, lag_records=records, lag_ms=ms) for at, records, ms in rows]

    def last_lags(self, at_ms: int, group_id: str | None = None) -> dict[str, tuple[int | None, int | None]]:
        """Return the lag of each group, or of one, at a time: the last sample, if it is recent."""
        only, which = ("", []) if group_id is None else ("group_id = ?", [group_id])
        within = at_ms // 1000 - _RECENT_S, at_ms // 1000
        db = self._reader()
        older = db.execute(
            # CROSS JOIN: one search per group. SQLite would go through all samples first.
            "SELECT group_id, records, ms FROM groups CROSS JOIN lags ON group_no = no AND at_s = "
            "(SELECT at_s FROM lags WHERE group_no = no AND at_s BETWEEN ? AND ? ORDER BY at_s DESC LIMIT 1) "
            f"{only and 'WHERE'} {only}",
            [*within, *which],
        )
        recent = db.execute(
            "SELECT group_id, records, ms FROM recent_lags JOIN groups ON no = group_no WHERE at_s = "
            f"(SELECT max(at_s) FROM recent_lags WHERE at_s BETWEEN ? AND ?) {only and 'AND'} {only}",
            [*within, *which],
        )
        return {found: (records, ms) for rows in (older, recent) for found, records, ms in rows}

    def offsets(self, group_id: str, at_ms: int) -> list[tuple[str, int, int, int, int | None, int | None]]:
        """Return the last copy of a group's offsets at a time.

        Topic, partition, offset, time of the commit, end offset and lag in time of each partition.
        """
        row = (
            self._reader()
            .execute(
                "SELECT body FROM offsets WHERE group_no = ? AND at_s <= ? ORDER BY at_s DESC LIMIT 1",
                (self._groups.get(group_id, -1), at_ms // 1000),
            )
            .fetchone()
        )
        topics: dict[str, list[list[Any] | None]] = {} if row is None else unpack(row[0])
        return [
            (topic, *values)
            for topic, columns in topics.items()
            for values in zip(*(repeat(None) if column is None else column for column in columns), strict=False)
        ]

    def since_ms(self) -> int | None:
        """Return the begin of the kept history."""
        with closing(self._reader().execute("SELECT min(at_ms) FROM events")) as cursor:
            first = cursor.fetchone()[0]
        kept = self._reader().execute("SELECT value FROM meta WHERE name = 'since_ms'").fetchone()
        return max((int(one) for one in (first, kept and kept[0]) if one is not None), default=None)


_RECENT_S = 600
_END = 1 << 62


@lru_cache(1 << 12)
def _header(text: str) -> Header:
    """Return the fields of a group, which callers only read; many groups have the same."""
    header: Header = json.loads(text)
    return header


def _event(event_id: int, at_ms: int, group_id: str, kind: str, body: bytes) -> WatchEvent:
    fields: dict[str, Any] = unpack(body)
    for name in ("cause",):
        if name in fields:
            fields[name] = fact_from_json(fields[name])
    if "more_causes" in fields:
        fields["more_causes"] = tuple(map(fact_from_json, fields["more_causes"]))
    if "facts" in fields:
        fields["facts"] = tuple(fields["facts"])
    if "moved" in fields:
        fields["moved"] = tuple(
            MovedPartition(
                topic=move["topic"],
                partition=move["partition"],
                before=tuple(move["before"]),
                after=tuple(move["after"]),
            )
            for move in fields["moved"]
        )
    return WatchEvent(id=event_id, at_ms=at_ms, group_id=group_id, kind=EventKind(kind), **fields)
