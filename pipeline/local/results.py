"""The tables of a report without Spark."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.assignors import Topology
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.local.histories import rebalances, storms, upgrade_audit
from quorate.pipeline.local.lag import lag
from quorate.pipeline.local.locality import LocalLocality
from quorate.pipeline.local.log import Source
from quorate.pipeline.local.output import Order, ordered
from quorate.pipeline.local.state import group_state
from quorate.pipeline.report_data import Results, Row


@dataclass(frozen=True)
class ArrowRows:
    """An Arrow table as `ResultRows`."""

    table: pa.Table

    def first(self, most: int | None, *order: Order, within: tuple[str, Sequence[Any]] | None = None) -> list[Row]:
        """Return the first rows in an order."""
        table = self.table
        if within is not None:
            name, values = within
            table = table.filter(pc.is_in(table.column(name), pa.array(values, table.schema.field(name).type)))
        rows: list[Row] = ordered(table, *order).slice(0, most).to_pylist()
        return rows

    def grouped(self, by: Sequence[str], *aggregates: tuple[str, str]) -> "ArrowRows":
        """Return a row per group with aggregates."""
        return ArrowRows(
            self.table.group_by(list(by)).aggregate([(name or [], function) for name, function in aggregates])
        )


def local_results(
    rows: Source,
    *,
    end_offsets: pa.Table | None,
    topology: Topology | None,
    locality: LocalLocality | None,
    as_of: AsOf | None,
) -> Results:
    """Run all jobs."""
    state = group_state(rows, as_of)
    found = rebalances(rows, as_of)
    return Results(
        groups=ArrowRows(state.groups),
        skipped=ArrowRows(state.skipped),
        rebalances=ArrowRows(found),
        storms=ArrowRows(storms(found)),
        findings=ArrowRows(upgrade_audit(rows, topology, as_of=as_of)),
        lags=None if end_offsets is None else ArrowRows(lag(rows, end_offsets, as_of=as_of)),
        summary=None if locality is None else ArrowRows(locality.summary),
        pairs=None if locality is None else ArrowRows(locality.pairs),
    )
