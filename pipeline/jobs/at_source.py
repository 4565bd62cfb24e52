"""Telling the source what a job needs, as Spark tells its own sources: it hands neither columns nor aggregates down to one that is written in Python.

A DataFrame that is just what `load()` gave is loaded anew with an option that nobody else sets
(`quorate.pipeline.push_down`). The results are the same; they come sooner.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from pyspark.sql import DataFrame

from quorate.codecs.log.model import LogError
from quorate.pipeline.files import find_files
from quorate.pipeline.jobs.columns import FORMAT, AsOf, last_offsets, membership, moment_of, until
from quorate.pipeline.options import PUSH_DOWN, Options, parse_options
from quorate.pipeline.push_down import Log, PushDown, What
from quorate.pipeline.schema import OptionError

__all__ = ["AtSource", "loaded", "of_groups"]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class AtSource:
    """Rows of a source that was told what is needed, and its options."""

    rows: DataFrame
    options: Options

    def isolation_level(self, given: str | None) -> str | None:
        """The level that a job has to go by, if it can be told without looking for markers."""
        return "read_committed" if given is None and self.options.read_committed else given


def of_groups(df: DataFrame, as_of: AsOf | None) -> DataFrame:
    """The rows up to a moment that tell of groups other than by offsets.

    Raises `OptionError` for columns that are missing, and for what is not a moment.
    """
    rows = membership(until(df, as_of))
    source = loaded(df, "groups", as_of)
    return rows if source is None else membership(until(source.rows, as_of))


def loaded(
    df: DataFrame, what: What, as_of: AsOf | None, times_ms: Callable[[], tuple[int, ...]] = tuple
) -> AtSource | None:
    """The rows of `df` that are needed up to a moment, or some more.

    `times_ms` is only asked if that can be had.

    `None` where it cannot: for streams, for what is cached, for anything but the result of
    `load()`, and where two folders have the same partition, because then it has to be seen whether
    these are copies. Raises `OptionError` for what is not a moment.
    """
    plan = getattr(df, "_jdf", None)  # Spark Connect has none
    if plan is None or df.isStreaming or df.storageLevel.useMemory or df.storageLevel.useDisk:
        return None
    push_down = _push_down(what, as_of)
    relation = plan.queryExecution().analyzed()
    if relation.getClass().getSimpleName() != "DataSourceV2Relation" or relation.table().name() != FORMAT:
        return None
    given = dict(relation.options().asCaseSensitiveMap())
    try:
        options = parse_options(given)
        # In the other modes even what is decoded may count for nothing, or end the job.
        if options.mode != "PERMISSIVE" or (not options.kafka and _has_copies(options)):
            return None
    except (OptionError, LogError, OSError):
        return None  # whoever reads it says so
    push_down = replace(push_down, times_ms=times_ms())
    rows = (
        df.sparkSession.read.format(FORMAT)
        .options(**{**given, "pushFilters": "false", PUSH_DOWN: push_down.text()})
        .load()
    )
    return AtSource(rows, options) if rows.schema == df.schema else None


def _has_copies(options: Options) -> bool:
    files = find_files(options)
    return len({(one.topic, one.partition) for one in files}) < len(files)


def _push_down(what: What, as_of: AsOf | None) -> PushDown:
    if as_of is None:
        return PushDown(what=what)
    if not isinstance(as_of, Mapping):
        return PushDown(what=what, until_ms=(moment_of(as_of) - _EPOCH) // timedelta(milliseconds=1))
    ends: dict[Log, int] = {
        (None if len(where) == 1 else where[0], where[-1]): offset for *where, offset in last_offsets(as_of)
    }
    return PushDown(what=what, until_offsets=ends)
