"""Push the needs of a job down to the source.

Spark pushes neither columns nor aggregates down to a source in Python. A DataFrame that is the
unchanged result of `load()` is therefore loaded again with an internal option
(`quorate.pipeline.push_down`). The results are the same, with less work.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

from pyspark.sql import DataFrame

from quorate.codecs.log.model import LogError
from quorate.pipeline.files import find_files, has_copies
from quorate.pipeline.jobs.columns import membership, until
from quorate.pipeline.jobs.moments import AsOf, push_down_of
from quorate.pipeline.options import FORMAT, PUSH_DOWN, Options, parse_options
from quorate.pipeline.push_down import What
from quorate.pipeline.schema import OptionError


@dataclass(frozen=True, slots=True)
class AtSource:
    """Rows of the source with pushed-down needs, and the source's options."""

    rows: DataFrame
    options: Options

    def isolation_level(self, given: str | None) -> str | None:
        """Return the isolation level for a job; `None` if it must look for transaction markers."""
        return "read_committed" if given is None and self.options.read_committed else given


def of_groups(df: DataFrame, as_of: AsOf | None) -> DataFrame:
    """Return the rows of groups up to a moment, except committed offsets.

    Raises `OptionError` for missing columns and an invalid moment.
    """
    rows = membership(until(df, as_of))
    source = loaded(df, "groups", as_of)
    return rows if source is None else membership(until(source.rows, as_of))


def loaded(
    df: DataFrame, what: What, as_of: AsOf | None, times_ms: Callable[[], tuple[int, ...]] = tuple
) -> AtSource | None:
    """Load at least those rows of `df` that a job needs up to a moment.

    Returns `None` if push-down is not possible: for streams, for cached DataFrames, for anything
    but the result of `load()`, and if two folders have the same partition, as these may be copies.
    `times_ms` is only called if it is possible. Raises `OptionError` for an invalid moment.
    """
    plan = getattr(df, "_jdf", None)  # Spark Connect has none
    if plan is None or df.isStreaming or df.storageLevel.useMemory or df.storageLevel.useDisk:
        return None
    push_down = push_down_of(what, as_of)
    relation = plan.queryExecution().analyzed()
    if relation.getClass().getSimpleName() != "DataSourceV2Relation" or relation.table().name() != FORMAT:
        return None
    given = dict(relation.options().asCaseSensitiveMap())
    try:
        options = parse_options(given)
        # The other modes drop rows or fail the job, which depends on all rows.
        if options.mode != "PERMISSIVE" or (not options.kafka and has_copies(find_files(options))):
            return None
    except (OptionError, LogError, OSError):
        return None  # reported when the DataFrame is read
    push_down = replace(push_down, times_ms=times_ms())
    rows = (
        df.sparkSession.read.format(FORMAT)
        .options(**{**given, "pushFilters": "false", PUSH_DOWN: push_down.text()})
        .load()
    )
    return AtSource(rows, options) if rows.schema == df.schema else None
