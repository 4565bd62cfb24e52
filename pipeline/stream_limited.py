"""Streams that Spark can limit and end, as it does from 4.2 on: older versions do not have what is imported here."""

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from quorate.pipeline.stream import StreamReader

__all__ = ["LimitedReader"]


class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream with `maxOffsetsPerTrigger` and `Trigger.AvailableNow`."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """What the option says; Spark's own limits have no offsets, but rows."""
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Where the next micro-batch ends."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self.written(self.ends_from(self.parsed(start), most))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Remember where everything ends now."""
        self.target = self.log.ends({})
