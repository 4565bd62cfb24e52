"""`locality`: traffic of groups between racks, its cost, and what other assignors would save.

Members and assignments are those of `group_state`. Assignors run in Spark's workers, for one group
at a time. Racks of replicas are not in the log; `topology` has them.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.pandas.types import from_arrow_schema

from quorate.assignors import (
    Assignment,
    AssignorError,
    GroupSpec,
    Member,
    Topology,
    client_assignor,
    java_order,
    server_assignor,
)
from quorate.assignors.registry import CLIENT_ASSIGNORS, SERVER_ASSIGNORS
from quorate.codecs import Uuid
from quorate.coordinator.state import GroupKind
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL
from quorate.pipeline.jobs.moments import AsOf
from quorate.pipeline.jobs.state import GroupState, group_state
from quorate.pipeline.schema import DOUBLE, INT, TEXT, OptionError
from quorate.pipeline.workers import settle

__all__ = ["CURRENT", "LOCALITY", "Locality", "locality"]

CURRENT = "current"
"""Name of the group's current assignment."""

RACK_AWARE = "rack-aware-uniform"
USUAL = {GroupKind.CLASSIC: ("range", "sticky", RACK_AWARE), GroupKind.CONSUMER: ("uniform", "range", RACK_AWARE)}
"""Assignors to compare by default: those of Kafka for the kind of group, and `RACK_AWARE`."""

MONTH_SECONDS = 30 * 24 * 60 * 60
GB = 1e9

PAIR = pa.struct(
    {
        "from_rack": TEXT,
        "to_rack": TEXT,
        "partitions": INT,
        "bytes_per_second": DOUBLE,
    }
)
LOCALITY: pa.Schema = pa.schema(
    {
        "log_topic": TEXT,
        "log_partition": INT,
        "group": TEXT,
        "kind": TEXT,
        "assignor": TEXT,
        "members": INT,
        "partitions": INT,
        "moved": INT,
        "not_in_topology": INT,
        "error": TEXT,
        "pairs": pa.list_(PAIR),
    }
)
"""A row per group and assignor. `moved`: partitions assigned to another member than now;
`not_in_topology`: assigned partitions that the topology lacks.
"""

Throughput = Mapping[tuple[str, int], float] | Mapping[str, float]
AT = ("log_topic", "log_partition", "group", "assignor")


@dataclass(frozen=True)
class Locality:
    """The racks that groups read from, as tables.

    All come from `rows` (see `LOCALITY`), so `cache` before using more than one.
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
        found = self.rows.select(*AT, F.explode("pairs").alias("pair")).select(*AT, "pair.*")
        crosses = F.col("from_rack") != F.col("to_rack")
        return found.withColumn("crosses", crosses).withColumn(
            "cost_per_month", self._cost(crosses, F.col("bytes_per_second"))
        )

    @cached_property
    def summary(self) -> DataFrame:
        """A row per group and assignor: crossing partitions and bytes, `unknown` partitions, costs.

        The columns `saved_…` compare with the current assignment, and are negative if the assignor
        is worse. Partitions of unknown throughput count as 0 bytes.
        """
        crossing = F.filter("pairs", lambda pair: pair["from_rack"] != pair["to_rack"])
        unknown = F.filter("pairs", lambda pair: pair["from_rack"].isNull() | pair["to_rack"].isNull())
        # Null without throughput: either all pairs have a number, or none has.
        rate = F.when(
            F.size(F.filter("pairs", lambda pair: pair["bytes_per_second"].isNull())) == 0,
            _sum(crossing, "bytes_per_second"),
        )
        counted = {
            "crossing": _sum(crossing, "partitions").cast("int"),
            "crossing_bytes_per_second": rate,
            "cost_per_month": self._cost(F.lit(True), rate),
        }
        of_group = Window.partitionBy("log_topic", "log_partition", "group")
        numbers = {
            name: F.when(F.col("error").isNull(), one)  # null for an assignor that failed
            for name, one in (*counted.items(), ("unknown", _sum(unknown, "partitions").cast("int")))
        }
        rows = self.rows.withColumns(numbers)
        now = {
            f"saved_{name}": F.max(F.when(F.col("assignor") == CURRENT, F.col(name))).over(of_group) - F.col(name)
            for name in counted
        }
        first = ("log_topic", "log_partition", "group", "kind", "assignor", "members", "partitions", "moved")
        return rows.withColumns(now).select(*first, *numbers, *now, "not_in_topology", "error")

    def _cost(self, crosses: Column, bytes_per_second: Column) -> Column:
        if self.price_per_gb is None:
            return F.lit(None).cast("double")
        price = bytes_per_second * F.lit(MONTH_SECONDS * self.price_per_gb / GB)
        return F.when(crosses, price).otherwise(0.0 * price)


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
    known = {*CLIENT_ASSIGNORS, *SERVER_ASSIGNORS} - {"lag-aware", "simple"}
    if unknown := [name for name in assignors or () if name not in known]:
        raise OptionError(f"unknown assignor {unknown[0]}: use {', '.join(sorted(known))}")
    if not any(topology.rack_sets):
        raise OptionError("the topology has no racks of replicas, so locality is unknown")
    state = df if isinstance(df, GroupState) else group_state(df, as_of, isolation_level="read_committed")
    job = _Job(
        _with_ids(topology), _rates(throughput), None if assignors is None else tuple(assignors), follower_fetching
    )
    names = ("log_topic", "log_partition", "group", "kind", "protocol_type", "assignment_epoch", "regexes", "members")
    groups = state.rows.where((F.col("protocol_type") == CONSUMER_PROTOCOL) & (F.size("members") > 0)).select(*names)
    rows = groups.repartition("group").mapInArrow(job.batches, from_arrow_schema(LOCALITY))
    return Locality(rows, price_per_gb)


def _sum(pairs: Column, name: str) -> Column:
    return F.aggregate(pairs, F.lit(0.0), lambda total, pair: total + pair[name])


def _rates(throughput: DataFrame | Throughput | None) -> dict[Any, float] | None:
    """Return bytes per second, by topic and partition or by topic, for all workers."""
    if throughput is None or isinstance(throughput, Mapping):
        return None if throughput is None else dict(throughput)
    wanted = ("topic", "partition", "bytes_per_second")
    if missing := [name for name in wanted if name not in throughput.columns]:
        raise OptionError(f"the throughput has no column {', '.join(missing)}: it needs {', '.join(wanted)}")
    found = throughput.select(
        "topic", F.col("partition").try_cast("int"), F.col("bytes_per_second").try_cast("double"), *wanted
    )
    rates = {}
    for topic, partition, rate, *given in found.collect():
        if given[2] is None:
            continue
        if None in (topic, partition, rate):
            raise OptionError(f"the throughput has {given}, which is not a topic, a partition and bytes per second")
        rates[topic, partition] = rate
    return rates


def _with_ids(topology: Topology) -> Topology:
    """Derive missing topic ids from the names, as server-side assignors need ids."""
    if all(topic.id is not None for topic in topology.topics):
        return topology
    return Topology(
        topic if topic.id is not None else replace(topic, id=Uuid(sha256(topic.name.encode()).digest()[:16]))
        for topic in topology.topics
    )


@dataclass(frozen=True)
class _Job:
    """The parameters of the job, for every worker."""

    topology: Topology
    rates: dict[Any, float] | None
    assignors: tuple[str, ...] | None
    follower_fetching: bool

    def batches(self, groups: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Convert rows of groups to rows of `LOCALITY`."""
        for batch in groups:
            rows = [row for group in batch.to_pylist() for row in self.rows(group)]
            yield from pa.Table.from_pylist(rows, LOCALITY).to_batches()
        settle()

    def rows(self, row: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """Yield rows of one group: for its current assignment, and for that of each assignor."""
        topology = self.topology
        names = {str(topic.id): topic.name for topic in topology.topics}
        regexes = {regex["regex"]: regex["topics"] for regex in row["regexes"] or ()}
        members: dict[str, Member] = {}
        missing = 0
        for member in row["members"]:
            owned = [(one["topic"] or names.get(one["topic_id"], ""), one["partition"]) for one in member["assigned"]]
            known = [one for one in owned if topology.number(*one) >= 0]
            missing += len(owned) - len(known)
            members[member["member_id"]] = Member(
                topics=list(dict.fromkeys([*member["topics"], *regexes.get(member["regex"], ())])),
                rack=member["rack"],
                instance_id=member["instance_id"],
                owned=known,
                generation=row["assignment_epoch"],
            )
        ids = list(members)  # in the order of a coordinator's map, in which server-side assignors see them
        order = java_order.timeline_order(java_order.string_hashes(ids)).tolist()
        group = GroupSpec({ids[index]: members[ids[index]] for index in order}, topology)
        current = Assignment.from_lists(
            topology,
            group.member_ids,
            [[topology.number(*one) for one in members[one_id].owned] for one_id in group.member_ids],
        )
        kind = GroupKind(row["kind"])
        common = {name: row[name] for name in ("log_topic", "log_partition", "group", "kind")}
        common |= {"members": len(members), "not_in_topology": missing}
        yield common | {"assignor": CURRENT, "moved": 0} | self._reads(group, current)
        before = _owners(current)
        for name in self.assignors or USUAL[kind]:
            of_assignor = common | {"assignor": name}
            try:
                client = name in CLIENT_ASSIGNORS and (kind is GroupKind.CLASSIC or name not in SERVER_ASSIGNORS)
                found = (client_assignor(name) if client else server_assignor(name)).assign_group(group)
            except (AssignorError, ValueError) as error:
                yield of_assignor | {"error": str(error), "pairs": []}
                continue
            after = _owners(found)
            moved = sum(owner != after.get(number, owner) for number, owner in before.items())
            yield of_assignor | {"moved": moved} | self._reads(group, found)

    def _reads(self, group: GroupSpec, assignment: Assignment) -> dict[str, Any]:
        topology = self.topology
        partitions: Counter[tuple[str | None, str | None]] = Counter()
        rates: dict[tuple[str | None, str | None], float] = {}
        for member_id in assignment.member_ids:
            rack = group.members[member_id].rack or None
            numbers = assignment.numbers(member_id)
            sets = topology.replica_racks_of[numbers].tolist()
            for at, found in zip(topology.topic_partitions(numbers), sets, strict=True):
                racks = topology.replica_racks[found]
                near = self.follower_fetching and rack is not None and rack in racks
                pair = (rack if near else racks[0] if racks else None, rack)
                partitions[pair] += 1
                if self.rates is not None:
                    rate = self.rates.get((at.topic, at.partition), self.rates.get(at.topic, 0.0))
                    rates[pair] = rates.get(pair, 0.0) + rate
        pairs = [
            {"from_rack": pair[0], "to_rack": pair[1], "partitions": count, "bytes_per_second": rates.get(pair)}
            for pair, count in sorted(partitions.items(), key=lambda one: tuple(str(rack) for rack in one[0]))
        ]
        return {"partitions": partitions.total(), "pairs": pairs, "error": None}


def _owners(assignment: Assignment) -> dict[int, str]:
    return {
        number: member_id for member_id in assignment.member_ids for number in assignment.numbers(member_id).tolist()
    }
