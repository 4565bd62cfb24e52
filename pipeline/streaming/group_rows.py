"""Rows of a group that a stream keeps between micro-batches: those that determine its state.

Which these are is defined in `quorate.codecs.log.state_records`. Their replay gives the same state
as the replay of all records. A tombstone is kept only while a record that it deletes is kept, so a
deleted group leaves no rows. Rows are packed as in the jobs.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple

from pyspark.sql.streaming.stateful_processor import MapState

from quorate.codecs.log.model import LogEntry
from quorate.codecs.log.state_records import COMMIT_TYPES, GROUP_TYPES
from quorate.pipeline.jobs.records import PACKED, entry_of

KEY = "type string, text string, number int"
VALUE = "offset long, ms long, version int, tombstone boolean, packed string"

CREATED = "made"
"""In place of a record type: the last commit of a group whose offset was deleted later. The commit
created the group, which continues to exist without offsets.
"""

MapKey = tuple[str, str, int]


class Packed(NamedTuple):
    """A row: type, rest of the key (`text`, `number`), and the fields as JSON (`packed`).

    `ms`: the time of the record, -1 for none.
    """

    type: str
    text: str
    number: int
    offset: int
    ms: int
    version: int
    tombstone: bool
    packed: str

    @property
    def key(self) -> MapKey:
        """The key in the state store."""
        return self.type, self.text, self.number


def entry(row: Packed, partition: int | None, group: str) -> LogEntry:
    """Return a row as an entry of its log."""
    fields: dict[str, Any] = {
        "partition": partition,
        "offset": row.offset,
        "group": group,
        "type": row.type,
        "value_version": row.version,
        "tombstone": row.tombstone,
        PACKED: row.packed,
    }
    return entry_of(fields, row.ms)


class GroupRows:
    """The rows of one group.

    `changed` and `gone`: keys to write to, and to remove from, the state store.
    """

    def __init__(self, rows: Iterable[Packed] = ()) -> None:
        self.rows: dict[MapKey, Packed] = {row.key: row for row in rows}
        self.stored = set(self.rows)
        self.changed: set[MapKey] = set()
        self.gone: set[MapKey] = set()

    @classmethod
    def load(cls, state: MapState) -> "GroupRows":
        """Load the rows from Spark's state store."""
        return cls(Packed(*key, *value) for key, value in state.iterator())

    def store(self, state: MapState) -> None:
        """Write the changes to Spark's state store."""
        for key in self.gone & self.stored:
            state.removeKey(key)
        for key in self.changed:
            state.updateValue(key, tuple(self.rows[key])[3:])
        self.stored = set(self.rows)
        self.changed.clear()
        self.gone.clear()

    def take(self, row: Packed) -> None:
        """Add the next row of the group in the log."""
        live = [self.rows.get((name, row.text, row.number)) for name in COMMIT_TYPES]
        before = max(
            (one for one in live if one is not None and not one.tombstone), key=lambda one: one.offset, default=None
        )
        if row.type in COMMIT_TYPES:
            if not row.tombstone:
                self._remove((CREATED, "", -1))
            elif before is not None and before.offset > self._removed_at():
                created = self.rows.get((CREATED, "", -1))
                if created is None or created.offset < before.offset:
                    self._put((CREATED, "", -1), before._replace(type=CREATED, text="", number=-1))
        elif row.type in GROUP_TYPES and row.tombstone:
            self._remove((CREATED, "", -1))
        self._put(row.key, row)
        if row.tombstone and row.text:
            self._drop_dead(row)

    def in_order(self) -> list[tuple[bool, Packed]]:
        """Return rows in the order of the log; True for one that only creates its group."""
        found = [(key[0] == CREATED, row) for key, row in self.rows.items()]
        return sorted(found, key=lambda one: one[1].offset)

    @property
    def is_dead(self) -> bool:
        """Whether all rows are tombstones."""
        return all(row.tombstone for row in self.rows.values())

    def clear(self) -> None:
        """Remove all rows."""
        for key in list(self.rows):
            self._remove(key)

    def _drop_dead(self, row: Packed) -> None:
        """Remove tombstones of a member, regex or offset if no other record of it is kept."""
        commits = row.type in COMMIT_TYPES
        of_same = [
            key
            for key in self.rows
            if key[1:] == row.key[1:] and key[0] != CREATED and (key[0] in COMMIT_TYPES) == commits
        ]
        if commits or all(self.rows[key].tombstone for key in of_same):  # either type of commit deletes both
            for key in of_same:
                self._remove(key)

    def _removed_at(self) -> int:
        deleted = [row.offset for row in self.rows.values() if row.type in GROUP_TYPES and row.tombstone]
        return max(deleted, default=-1)

    def _put(self, key: MapKey, row: Packed) -> None:
        self.rows[key] = row
        self.changed.add(key)
        self.gone.discard(key)

    def _remove(self, key: MapKey) -> None:
        if self.rows.pop(key, None) is not None:
            self.changed.discard(key)
            self.gone.add(key)
