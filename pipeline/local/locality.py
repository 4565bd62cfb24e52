"""`locality` without Spark, as Arrow tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from quorate.assignors import Topology
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL
from quorate.pipeline.jobs.locality_rows import INPUT, LOCALITY, RATES, SUMMARY, LocalityJob, Throughput, rates_of
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.local.log import Source
from quorate.pipeline.local.state import LocalGroupState, exploded, group_state

__all__ = ["LocalLocality", "locality"]


@dataclass(frozen=True)
class LocalLocality:
    """The racks that groups read from as Arrow tables, with the columns of `Locality`."""

    rows: pa.Table
    price_per_gb: float | None = None

    @property
    def tables(self) -> dict[str, pa.Table]:
        """All tables by name."""
        return {"summary": self.summary, "pairs": self.pairs}

    @cached_property
    def pairs(self) -> pa.Table:
        """A row per group, assignor and pair of racks."""
        return exploded(self.rows, ["log_topic", "log_partition", "group", "assignor"], "pairs")

    @cached_property
    def summary(self) -> pa.Table:
        """A row per group and assignor: partitions and bytes that cross racks, and costs."""
        return self.rows.select(SUMMARY)


def locality(
    rows: Source | LocalGroupState,
    topology: Topology,
    throughput: pa.Table | Throughput | None = None,
    price_per_gb: float | None = None,
    *,
    as_of: AsOf | None = None,
    assignors: Sequence[str] | None = None,
    follower_fetching: bool = True,
) -> LocalLocality:
    """Compute the traffic between racks, now or at an earlier moment, and with other assignors.

    As `quorate.pipeline.locality`, with Arrow tables. `rows`: as for `group_state`, or its result.
    Raises `OptionError` for unknown assignors, a topology without racks, and missing columns.
    """
    job = LocalityJob.of(topology, _rates(throughput), price_per_gb, assignors, follower_fetching=follower_fetching)
    state = rows if isinstance(rows, LocalGroupState) else group_state(rows, as_of, isolation_level="read_committed")
    members = pc.list_value_length(state.rows.column("members"))
    wanted = pc.and_(pc.equal(state.rows.column("protocol_type"), CONSUMER_PROTOCOL), pc.greater(members, 0))
    groups = state.rows.filter(wanted).select(INPUT)
    return LocalLocality(pa.Table.from_batches(job.batches(groups.to_batches()), LOCALITY), price_per_gb)


def _rates(throughput: pa.Table | Throughput | None) -> dict[Any, float] | None:
    if throughput is None or isinstance(throughput, Mapping):
        return None if throughput is None else dict(throughput)
    return rates_of(
        throughput.schema.names, lambda: zip(*(throughput.column(name).to_pylist() for name in RATES), strict=True)
    )
