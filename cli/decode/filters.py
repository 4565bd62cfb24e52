"""The filter options of `quorate decode`, combined into one predicate."""

import fnmatch
import re
from collections.abc import Callable, Sequence
from typing import TypeAlias

from quorate.cli.errors import UserError
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.globs import matcher
from quorate.codecs.json_lines import RecordEntry, group_of
from quorate.codecs.json_records import close_types
from quorate.codecs.records import RECORD_TYPES, CoordinatorRecord, MalformedRecord, UnknownRecord

Predicate: TypeAlias = Callable[[RecordEntry], bool]
"""Returns whether to show a record. Damaged batches (`LogProblem`) are always shown, as they may
have held any record.
"""


def predicate(
    *, groups: Sequence[str], types: Sequence[str], tombstones: bool | None, problems: bool
) -> Predicate | None:
    """Return all filters as one function, or `None` if there are no filters.

    Raises `UserError` for a type that does not exist.
    """
    tests: list[Predicate] = []
    if groups:
        tests.append(_of_groups(groups))
    if types:
        tests.append(_of_types(types))
    if tombstones is not None:
        tests.append(_is_tombstone if tombstones else _is_no_tombstone)
    if problems:
        tests.append(is_problem)
    if not tests:
        return None
    if len(tests) == 1:
        return tests[0]
    return lambda entry: all(test(entry) for test in tests)


def is_problem(entry: RecordEntry) -> bool:
    """Return whether the record is unknown or malformed, or has trailing bytes."""
    record = entry.record
    if isinstance(record, CoordinatorRecord):
        return bool(record.key_trailing or record.value_trailing)
    return isinstance(record, UnknownRecord | MalformedRecord)


def _is_tombstone(entry: RecordEntry) -> bool:
    return isinstance(entry.record, CoordinatorRecord) and entry.record.value is None


def _is_no_tombstone(entry: RecordEntry) -> bool:
    return not _is_tombstone(entry)


def _of_groups(globs: Sequence[str]) -> Predicate:
    matches = matcher(globs)

    def test(entry: RecordEntry) -> bool:
        group = group_of(entry)
        return group is not None and matches(group)

    return test


def _of_types(names: Sequence[str]) -> Predicate:
    wanted = {pair for name in names for pair in _type_ids(name)}
    anywhere = {int(name) for name in names if _is_number(name)}  # including unknown types

    def test(entry: RecordEntry) -> bool:
        record = entry.record
        if isinstance(record, ControlRecord):
            return False
        return record.type_id in anywhere or (record.topic, record.type_id) in wanted

    return test


def _is_number(text: str) -> bool:
    return re.fullmatch(r"-?\d{1,5}", text) is not None


def _type_ids(name: str) -> list[tuple[str, int]]:
    """Return topic and id of the record types whose name matches a glob, ignoring case.

    Returns nothing for a number, which means that id in every topic. Raises `UserError` if no type
    matches.
    """
    if _is_number(name):
        return []
    known = [(t.name, t.topic, t.type_id) for types in RECORD_TYPES.values() for t in types.values()]
    found = [
        (topic, type_id)
        for known_name, topic, type_id in known
        if fnmatch.fnmatchcase(known_name.lower(), name.lower())
    ]
    if not found:
        raise UserError(f"--type {name}: unknown record type", *close_types(name))
    return found
