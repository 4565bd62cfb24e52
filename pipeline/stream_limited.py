"""Streams with limits and `Trigger.AvailableNow`: needs the classes of Spark 4.2 or newer."""

from typing import Any

from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from quorate.pipeline.stream import StreamReader


class LimitedReader(StreamReader, SupportsTriggerAvailableNow):
    """A stream with `maxOffsetsPerTrigger` and `Trigger.AvailableNow`."""

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802  # Spark's name
        """Return the limit of the option, in Spark's class for rows: it has none for offsets."""
        limit = self.options.max_offsets_per_trigger
        return ReadAllAvailable() if limit is None else ReadMaxRows(limit)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802  # Spark's name
        """Return the end of the next micro-batch. Raises `DataLoss`."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return self.written(self.ends_from(self.parsed(start), most))

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802  # Spark's name
        """Set the current end offsets as the target of the query."""
        self.target = self.log.ends({})
