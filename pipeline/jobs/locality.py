"""`locality`: traffic of groups between racks, its cost, and what other assignors would save.

Members and assignments are those of `group_state`. Assignors run in Spark's workers, for one group
at a time (`locality_rows`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.assignors import Topology
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL
from quorate.pipeline.jobs.locality_rows import INPUT, LOCALITY, RATES, SUMMARY, LocalityJob, Throughput, rates_of
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.jobs.state import GroupState, group_state


@dataclass(frozen=True)
class Locality:
    """The racks that groups read from, as tables.

    All come from `rows`, so `cache` before using more than one.
    """

    rows: DataFrame
    price_per_gb: float | None = None

    def cache(self) -> "Locality":
        """Return the same with cached rows."""
        return replace(self, rows=self.rows.cache())

    @property
    def tables(self) -> dict[str, DataFrame]:
        """All tables by name."""
        return {"summary": self.summary, "pairs": self.pairs}

    @cached_property
    def pairs(self) -> DataFrame:
        """A row per group, assignor and pair of racks.

        `from_rack` has the replica that is read, `to_rack` the member; null if unknown. `crosses`
        is null if one of them is unknown. `bytes_per_second` and `cost_per_month` (30 days, GB of
        10⁹ bytes) are null without throughput or price; traffic within a rack costs 0.
        """
        at = ("log_topic", "log_partition", "group", "assignor")
        return self.rows.select(*at, F.explode("pairs").alias("pair")).select(*at, "pair.*")

    @cached_property
    def summary(self) -> DataFrame:
        """A row per group and assignor: crossing partitions and bytes, `unknown` partitions, costs.

        The columns `saved_…` compare with the current assignment, and are negative if the assignor
        is worse. Partitions of unknown throughput count as 0 bytes.
        """
        return self.rows.select(*SUMMARY)


def locality(
    df: DataFrame | GroupState,
    topology: Topology,
    throughput: DataFrame | Throughput | None = None,
    price_per_gb: float | None = None,
    *,
    as_of: AsOf | None = None,
    assignors: Sequence[str] | None = None,
    follower_fetching: bool = True,
) -> Locality:
    """Compute the traffic between racks, now or at an earlier moment, and with other assignors.

    The result covers consumer and classic groups with members.

    `df`: rows of the source or of `decode`, or a `GroupState`. `topology`: topics with the racks of
    their replicas; topic ids are required for KIP-848 groups if the log lacks the names.
    `throughput`: bytes per second that a group reads: by topic and partition, by topic (for each of
    its partitions), or as a DataFrame of `topic`, `partition`, `bytes_per_second`. `price_per_gb`:
    price of traffic between racks. `assignors`: names of `quorate.assignors`; by default those of
    Kafka for the kind of group, and `rack-aware-uniform`. `follower_fetching`: a member fetches
    from a replica in its rack if there is one (KIP-392), else from the leader.

    Raises `OptionError` for unknown assignors, a topology without racks, and missing columns.
    """
    job = LocalityJob.of(topology, _rates(throughput), price_per_gb, assignors, follower_fetching=follower_fetching)
    state = df if isinstance(df, GroupState) else group_state(df, as_of, isolation_level="read_committed")
    groups = state.rows.where((F.col("protocol_type") == CONSUMER_PROTOCOL) & (F.size("members") > 0)).select(*INPUT)
    rows = groups.repartition("group").mapInArrow(job.batches, from_arrow_schema(LOCALITY))
    return Locality(rows, price_per_gb)


def _rates(throughput: DataFrame | Throughput | None) -> dict[Any, float] | None:
    """Return bytes per second, by topic and partition or by topic, for all workers."""
    if throughput is None or isinstance(throughput, Mapping):
        return None if throughput is None else dict(throughput)
    return rates_of(throughput.columns, lambda: throughput.select(*RATES).collect())
