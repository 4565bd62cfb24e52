"""What an observer keeps, in a SQLite database: events, states at any moment, lags, and positions.

Positions and what was read up to them are written in one transaction, so that a restart loses and
repeats nothing. States are key frames, with the changed members in between. One thread writes; any
thread reads (`quorate.watch.store_reader`).
"""

import fcntl
import json
import sqlite3
from collections.abc import Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pyarrow as pa

from quorate.codecs.errors import InputError
from quorate.watch.kept import chunks_to_merge, last_of_keys, pack_rows
from quorate.watch.model import WatchEvent, as_json
from quorate.watch.partition import PendingRow
from quorate.watch.states import Header, Members, delta, pack
from quorate.watch.store_reader import FILE, StoreReader

FORMAT = 3
KEY_FRAME_EVERY = 32
"""Changes between two key frames of a group: reading a moment applies at most so many."""

_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
CREATE TABLE groups (no INTEGER PRIMARY KEY, group_id TEXT UNIQUE);
CREATE TABLE topics (id TEXT PRIMARY KEY, name TEXT) WITHOUT ROWID;
CREATE TABLE positions (topic TEXT, partition INTEGER, next INTEGER, PRIMARY KEY (topic, partition)) WITHOUT ROWID;
CREATE TABLE chunks (seq INTEGER PRIMARY KEY, topic TEXT, partition INTEGER, rows INTEGER, body BLOB);
CREATE TABLE pending (topic TEXT, partition INTEGER, key BLOB, producer INTEGER, value BLOB, offset INTEGER,
    ms INTEGER, PRIMARY KEY (topic, partition, key, producer)) WITHOUT ROWID;
CREATE TABLE trackers (group_no INTEGER PRIMARY KEY, body TEXT);
CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, at_ms INTEGER, group_no INTEGER, kind TEXT, body BLOB);
CREATE INDEX events_by_group ON events (group_no, id);
CREATE INDEX events_by_time ON events (at_ms);
CREATE INDEX events_by_kind ON events (kind, group_no, at_ms);
CREATE TABLE states (group_no INTEGER, at_ms INTEGER, seq INTEGER, key_frame INTEGER, header TEXT, members BLOB,
    PRIMARY KEY (group_no, at_ms, seq)) WITHOUT ROWID;
CREATE TABLE lags (group_no INTEGER, at_s INTEGER, records INTEGER, ms INTEGER,
    PRIMARY KEY (group_no, at_s)) WITHOUT ROWID;
CREATE TABLE recent_lags (at_s INTEGER, group_no INTEGER, records INTEGER, ms INTEGER,
    PRIMARY KEY (at_s, group_no)) WITHOUT ROWID;
CREATE TABLE offsets (group_no INTEGER, at_s INTEGER, body BLOB, PRIMARY KEY (group_no, at_s)) WITHOUT ROWID;
"""


class WatchStore(StoreReader):
    """The database in a folder, which is created if missing.

    `source`: the cluster or the log that it belongs to. Raises `InputError` if the folder belongs
    to another one, is in use, or cannot be read.
    """

    def __init__(self, folder: Path, source: str) -> None:
        super().__init__(folder)
        with ExitStack() as opened:
            try:
                folder.mkdir(parents=True, exist_ok=True)
                self._held = opened.enter_context(self._hold())
                self._db = self._connect()
                opened.callback(self._db.close)
                self._open(source)
            except (OSError, sqlite3.Error) as error:
                reason = getattr(error, "strerror", None) or error
                raise InputError(f"--state {folder}: {reason}", "use another folder") from error
            opened.pop_all()
        self._groups = dict(self._db.execute("SELECT group_id, no FROM groups"))
        self._frames: dict[str, tuple[Members, int]] = {}
        self._last_ms: dict[int, int] = dict(self._db.execute("SELECT group_no, max(at_ms) FROM states GROUP BY 1"))
        self._seq = 1 + int(self._db.execute("SELECT coalesce(max(seq), 0) FROM states").fetchone()[0])

    def _hold(self) -> IO[str]:
        held = (self.folder / "lock").open("a")
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            held.close()
            raise InputError(
                f"--state {self.folder}: another observer uses this folder", "stop it, or use another folder"
            ) from None
        return held

    def _open(self, source: str) -> None:
        db = self._db
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        db.execute("PRAGMA journal_mode = WAL")
        db.execute("PRAGMA synchronous = NORMAL")
        db.execute("PRAGMA cache_size = -32768")
        if not db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            db.executescript(f"BEGIN; {_SCHEMA} COMMIT;")
            self._set("format", str(FORMAT))
            self._set("source", source)
        if (found := self.meta("format")) != str(FORMAT):
            raise InputError(f"--state {self.folder}: has format {found}, not {FORMAT}", "use another folder")
        if (found := self.meta("source")) != source:
            raise InputError(f"--state {self.folder}: belongs to {found}, not to {source}", "use another folder")

    def close(self) -> None:
        """Close all connections."""
        with self._lock:
            for db in self._readers:
                db.close()
            self._db.close()
            self._held.close()

    @property
    def size_bytes(self) -> int:
        """The size of the database."""
        return sum(path.stat().st_size for name in (FILE, f"{FILE}-wal") if (path := self.folder / name).exists())

    def meta(self, name: str) -> str | None:
        """Return a value of `_set`."""
        row = self._db.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
        return None if row is None else str(row[0])

    def _set(self, name: str, value: str) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (name, value))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Write everything in the block, or nothing."""
        with self._lock:
            self._db.execute("BEGIN IMMEDIATE")
            frames, seq, groups = dict(self._frames), self._seq, dict(self._groups)
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                self._frames, self._seq, self._groups = frames, seq, groups
                raise
            self._db.execute("COMMIT")

    def group_no(self, group_id: str) -> int:
        """Return the number of a group, a new one for a new group."""
        found = self._groups.get(group_id)
        if found is None:
            # A group id in a record need not be UTF-8, and a text in SQLite must be.
            text = group_id.encode("utf-8", "backslashreplace").decode()
            self._db.execute("INSERT OR IGNORE INTO groups (group_id) VALUES (?)", (text,))
            row = self._db.execute("SELECT no FROM groups WHERE group_id = ?", (text,)).fetchone()
            found = self._groups[group_id] = int(row[0])
        return found

    def put_position(self, topic: str, partition: int, next_offset: int) -> None:
        """Set the next offset to read."""
        self._db.execute("INSERT OR REPLACE INTO positions VALUES (?, ?, ?)", (topic, partition, next_offset))

    def put_rows(self, topic: str, partition: int, rows: pa.Table) -> None:
        """Append a chunk: the last record of each key that was read since the last one."""
        older = self._db.execute(
            "SELECT seq, rows FROM chunks WHERE topic = ? AND partition = ? ORDER BY seq DESC", (topic, partition)
        ).fetchall()
        count = chunks_to_merge([len(rows), *(size for _, size in older)]) - 1
        merged = [seq for seq, _ in older[:count]]
        parts = [part for seq in reversed(merged) for part in self._chunk(self._db, seq)]
        if count or not older:
            rows = last_of_keys([*parts, *rows.to_batches()], drop_deleted=count == len(older))
            self._db.executemany("DELETE FROM chunks WHERE seq = ?", [(seq,) for seq in merged])
        if len(rows):
            self._db.execute(
                "INSERT INTO chunks (topic, partition, rows, body) VALUES (?, ?, ?, ?)",
                (topic, partition, len(rows), pack_rows(rows)),
            )

    def put_pending(self, topic: str, partition: int, pending: Iterable[PendingRow]) -> None:
        """Set the records of open transactions."""
        self._db.execute("DELETE FROM pending WHERE topic = ? AND partition = ?", (topic, partition))
        rows = [(topic, partition, *row) for row in pending]
        self._db.executemany("INSERT INTO pending VALUES (?, ?, ?, ?, ?, ?, ?)", rows)

    def forget(self, topic: str, partition: int) -> None:
        """Remove position and records of a partition whose log was created again."""
        for table in ("positions", "chunks", "pending"):
            self._db.execute(f"DELETE FROM {table} WHERE topic = ? AND partition = ?", (topic, partition))

    def put_names(self, names: Mapping[str, str]) -> None:
        """Keep names of topic ids."""
        self._db.executemany("INSERT OR REPLACE INTO topics VALUES (?, ?)", list(names.items()))

    def put_event(self, event: WatchEvent) -> int:
        """Append an event, and return its id."""
        body = as_json(event)
        for name in ("id", "at_ms", "group_id", "kind"):
            del body[name]
        group_no = self.group_no(event.group_id)
        cursor = self._db.execute(
            "INSERT INTO events (at_ms, group_no, kind, body) VALUES (?, ?, ?, ?)",
            (event.at_ms, group_no, event.kind.value, pack({k: v for k, v in body.items() if v not in (None, [])})),
        )
        return int(cursor.lastrowid or 0)

    def put_tracker(self, group_id: str, body: dict[str, Any]) -> None:
        """Keep the state of a group's tracker."""
        self._db.execute("INSERT OR REPLACE INTO trackers VALUES (?, ?)", (self.group_no(group_id), json.dumps(body)))

    def put_state(self, group_id: str, at_ms: int, header: Header | None, members: Members) -> None:
        """Append a state of a group; `header` is `None` if it does not exist any more."""
        known, count = self._frames.get(group_id, ({}, 0))
        is_key = group_id not in self._frames or count >= KEY_FRAME_EVERY
        body = members if is_key else delta(known, members)
        self._frames[group_id] = (members, 0 if is_key else count + 1)
        if header is None:
            del self._frames[group_id]
        group_no = self.group_no(group_id)
        # Clocks of coordinators may differ; changes are applied in the order of the records.
        at_ms = self._last_ms[group_no] = max(at_ms, self._last_ms.get(group_no, at_ms))
        self._db.execute(
            "INSERT INTO states VALUES (?, ?, ?, ?, ?, ?)",
            (
                group_no,
                at_ms,
                self._seq,
                int(is_key),
                None if header is None else json.dumps(header, separators=(",", ":")),
                pack(body) if body else None,
            ),
        )
        self._seq += 1

    def put_lags(self, at_ms: int, lags: Iterable[tuple[str, int | None, int | None]]) -> None:
        """Append a sample: group id, lag in records and in time.

        Samples are ordered by time at first. Ordered by group, each one would change a page per
        group: they are moved there together.
        """
        at_s = at_ms // 1000
        rows = [(at_s, self.group_no(group_id), records, ms) for group_id, records, ms in lags]
        self._db.executemany("INSERT OR REPLACE INTO recent_lags VALUES (?, ?, ?, ?)", rows)
        first = self._db.execute("SELECT min(at_s) FROM recent_lags").fetchone()[0]
        if first is not None and at_s - first >= _MOVE_LAGS_S:
            self._db.execute(
                "INSERT OR REPLACE INTO lags "
                "SELECT group_no, at_s, records, ms FROM recent_lags ORDER BY group_no, at_s"
            )
            self._db.execute("DELETE FROM recent_lags")

    def put_offsets(self, at_ms: int, offsets: Iterable[tuple[str, bytes]]) -> None:
        """Append copies of groups' offsets, packed: topic → the columns that `offsets` returns."""
        rows = [(self.group_no(group_id), at_ms // 1000, body) for group_id, body in offsets]
        self._db.executemany("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", rows)

    # ---- retention

    def retain(self, before_ms: int | None, most_bytes: int | None) -> None:
        """Delete what is older, and the oldest tenth of the time while the file is too large."""
        if before_ms is not None:
            self._delete_before(before_ms)
        for _ in range(_MOST_STEPS):
            if most_bytes is None or self._used_bytes() <= most_bytes:
                break
            first, last = self._span()
            if first is None or last is None or last - first < 60_000:
                break
            self._delete_before(first + (last - first) // 10)
        # A script runs to its end; `execute` would free one page.
        self._db.executescript("PRAGMA incremental_vacuum; PRAGMA wal_checkpoint(TRUNCATE);")

    def _used_bytes(self) -> int:
        pages, free, size = (
            int(self._db.execute(f"PRAGMA {name}").fetchone()[0])
            for name in ("page_count", "freelist_count", "page_size")
        )
        return (pages - free) * size

    def _span(self) -> tuple[int | None, int | None]:
        rows = [
            self._db.execute(f"SELECT min({column}) * {factor}, max({column}) * {factor} FROM {table}").fetchone()
            for table, column, factor in (
                ("events", "at_ms", 1),
                ("lags", "at_s", 1000),
                ("recent_lags", "at_s", 1000),
                ("offsets", "at_s", 1000),
            )
        ]
        firsts, lasts = ([row[part] for row in rows if row[part] is not None] for part in (0, 1))
        return min(firsts, default=None), max(lasts, default=None)

    def _delete_before(self, before_ms: int) -> None:
        with self.transaction():
            self._db.execute("DELETE FROM events WHERE at_ms < ?", (before_ms,))
            for table in ("lags", "recent_lags", "offsets"):
                self._db.execute(f"DELETE FROM {table} WHERE at_s < ?", (before_ms // 1000,))
            # A state counts until the next one: keep the last key frame before, with its changes.
            for (group_no,) in self._db.execute("SELECT no FROM groups").fetchall():
                row = self._db.execute(
                    "SELECT at_ms, seq FROM states WHERE group_no = ? AND at_ms <= ? AND key_frame = 1 "
                    "ORDER BY at_ms DESC, seq DESC LIMIT 1",
                    (group_no, before_ms),
                ).fetchone()
                if row is not None:
                    self._db.execute(
                        "DELETE FROM states WHERE group_no = ? AND (at_ms, seq) < (?, ?)", (group_no, *row)
                    )
            self._set("since_ms", str(before_ms))


_MOVE_LAGS_S = 600
"""Time of the samples that are ordered by group together."""

_MOST_STEPS = 20
"""Deletions in one call of `retain`."""
