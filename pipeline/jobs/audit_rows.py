"""The rows of `upgrade_audit` for one group: findings in its history, and at its end."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import pyarrow as pa

from quorate.assignors import Topic
from quorate.codecs import Uuid
from quorate.codecs.log.model import LogEntry
from quorate.codecs.record_text import learn_names
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.history import Event, History, Labels
from quorate.coordinator.history.facts import Cause, EpochBumped, Fact, GroupConverted, HashChanged, TopicRecordChanged
from quorate.coordinator.history.upgrade import findings
from quorate.coordinator.state import GroupKind
from quorate.pipeline.schema import BOOL, INT, LONG, TEXT, TIME

AUDIT: pa.Schema = pa.schema(
    {
        "log_topic": TEXT,
        "log_partition": INT,
        "group": TEXT,
        "kind": TEXT,
        "finding": TEXT,
        "at_end": BOOL,
        "timestamp": TIME,
        "log_offset": LONG,
        "epoch": INT,
        "sentence": TEXT,
    }
)
"""A row per finding. A past event has its time, its offset and the `epoch` of the group after it.

* `converted`: a classic group was converted to a consumer group, or another kind;
  `converted-back`: a consumer group was converted to a classic one;
* `upgraded`: a broker of Kafka 4.1 or later stored the first metadata hash (KIP-1101);
* `downgraded`: a broker before 4.1 became coordinator: it dropped the hash, or wrote a record of
  type 4 for a group with a hash.

Findings at the end (`at_end`) have the time and offset of the group's last record: the kinds of
`quorate.coordinator.history.upgrade.FindingKind`: `will-bump` (no hash), `topic-record` (type 4
without a tombstone), `hash-differs` (from the topology's), `convertible`, `not-convertible`.
"""

CONVERTED, CONVERTED_BACK, UPGRADED, DOWNGRADED = "converted", "converted-back", "upgraded", "downgraded"


def rows_of_group(
    records: Iterable[LogEntry], group_id: str, config: CoordinatorConfig, topics: Mapping[str, Topic] | None
) -> Iterator[dict[str, Any]]:
    """Yield the findings of one group, without the columns that identify it.

    `records` are those of the group, in the order of the log.
    """
    history = History()
    names: dict[Uuid, str] = {}
    labels = Labels(names=names)
    last: LogEntry | None = None
    events = _EventFindings(labels)
    for entry in records:
        learn_names(names, entry.record)
        kind = _kind(history, group_id)
        for event in history.take(entry):
            yield from events.of(event, kind)
        last = entry
    for event in history.finish():
        yield from events.of(event, _kind(history, group_id))
    group = history.state.groups.get(group_id)
    if group is None or last is None:
        return
    for finding in findings(group, config, topics):
        yield {
            "kind": group.kind.value,
            "finding": finding.kind.value,
            "at_end": True,
            "timestamp": _time(last.timestamp_ms),
            "log_offset": last.offset,
            "epoch": getattr(group, "epoch", getattr(group, "generation", None)),
            "sentence": str(finding),
        }


def _kind(history: History, group_id: str) -> str | None:
    group = history.state.groups.get(group_id)
    return None if group is None else group.kind.value


class _EventFindings:
    """Findings in the events of a group, in order.

    Keeps the group's epoch, and whether its last coordinator was of Kafka 4.1 or later.
    """

    def __init__(self, labels: Labels) -> None:
        self._labels = labels
        self._epoch: int | None = None
        self._keeps_hash = False

    def of(self, event: Event, kind: str | None) -> Iterator[dict[str, Any]]:
        """Yield the findings in one event; `kind` is that of the group after it."""
        found: dict[str, str] = {}
        for fact in event.facts:
            if isinstance(fact, EpochBumped):
                self._epoch = fact.after
            if (finding := self._finding(fact)) is not None:
                found.setdefault(finding, fact.sentence(self._labels))
        if DOWNGRADED in found or UPGRADED in found:
            self._keeps_hash = UPGRADED in found
        elif any(isinstance(fact, HashChanged) and fact.after for fact in event.facts):
            self._keeps_hash = True
        for finding, sentence in found.items():
            yield {
                "kind": kind,
                "finding": finding,
                "at_end": False,
                "timestamp": _time(event.timestamp_ms),
                "log_offset": event.offset,
                "epoch": self._epoch,
                "sentence": sentence,
            }

    def _finding(self, fact: Fact) -> str | None:
        match fact:
            case GroupConverted(after=after):
                return CONVERTED_BACK if after is GroupKind.CLASSIC else CONVERTED
            case TopicRecordChanged(there=there) if there is self._keeps_hash:
                return DOWNGRADED if there else UPGRADED
            case EpochBumped(reasons=reasons):
                causes = {reason.cause for reason in reasons}
                if Cause.HASH_FIRST in causes and not self._keeps_hash:
                    return UPGRADED
                if Cause.HASH_DROPPED in causes:
                    return DOWNGRADED
        return None


def _time(timestamp_ms: int) -> int | None:
    return timestamp_ms * 1000 if timestamp_ms >= 0 else None
