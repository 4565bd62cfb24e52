"""The rows of `locality`: traffic of a group between racks, with its assignment and with others.

Assignors run for one group at a time. Racks of replicas are not in the log; a topology has them.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Any

import pyarrow as pa

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
from quorate.pipeline.schema import BOOL, DOUBLE, INT, TEXT, OptionError
from quorate.pipeline.workers import settle

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
        "crosses": BOOL,
        "cost_per_month": DOUBLE,
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
        "crossing": INT,
        "crossing_bytes_per_second": DOUBLE,
        "cost_per_month": DOUBLE,
        "unknown": INT,
        "saved_crossing": INT,
        "saved_crossing_bytes_per_second": DOUBLE,
        "saved_cost_per_month": DOUBLE,
        "not_in_topology": INT,
        "error": TEXT,
        "pairs": pa.list_(PAIR),
    }
)
"""A row per group and assignor. `moved`: partitions assigned to another member than now;
`not_in_topology`: assigned partitions that the topology lacks.
"""

SUMMARY = [name for name in LOCALITY.names if name != "pairs"]

INPUT = ("log_topic", "log_partition", "group", "kind", "protocol_type", "assignment_epoch", "regexes", "members")
"""Columns of `STATE` that the job uses."""

RATES = ("topic", "partition", "bytes_per_second")
"""Columns of a table of throughput."""

Throughput = Mapping[tuple[str, int], float] | Mapping[str, float]
Pair = tuple[str | None, str | None]


def rates_of(columns: Iterable[str], rows: Callable[[], Iterable[Sequence[Any]]]) -> dict[tuple[str, int], float]:
    """Return the bytes per second of partitions. `rows` returns the columns `RATES`.

    Raises `OptionError` for missing columns and invalid values; rows without a rate are omitted.
    """
    if missing := [name for name in RATES if name not in columns]:
        raise OptionError(f"the throughput has no column {', '.join(missing)}: it needs {', '.join(RATES)}")
    rates = {}
    for given in rows():
        topic, partition, rate = given
        if rate is None:
            continue
        try:
            rates[_known(topic), int(_known(partition))] = float(rate)
        except ValueError as error:
            raise OptionError(
                f"the throughput has {list(given)}, which is not a topic, a partition and bytes per second"
            ) from error
    return rates


def _known(value: Any) -> Any:
    if value is None:
        raise ValueError
    return value


@dataclass(frozen=True)
class LocalityJob:
    """The parameters of the job, for every worker.

    `rates`: bytes per second by topic and partition, or by topic.
    """

    topology: Topology
    rates: dict[Any, float] | None
    price_per_gb: float | None
    assignors: tuple[str, ...] | None
    follower_fetching: bool

    @classmethod
    def of(
        cls,
        topology: Topology,
        rates: dict[Any, float] | None,
        price_per_gb: float | None,
        assignors: Sequence[str] | None,
        *,
        follower_fetching: bool,
    ) -> "LocalityJob":
        """Check the parameters. Raises `OptionError`."""
        known = {*CLIENT_ASSIGNORS, *SERVER_ASSIGNORS} - {"lag-aware", "simple"}
        if unknown := [name for name in assignors or () if name not in known]:
            raise OptionError(f"unknown assignor {unknown[0]}: use {', '.join(sorted(known))}")
        if not any(topology.rack_sets):
            raise OptionError("the topology has no racks of replicas, so locality is unknown")
        names = None if assignors is None else tuple(assignors)
        return cls(_with_ids(topology), rates, price_per_gb, names, follower_fetching)

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
        now = self._reads(group, current)
        yield common | {"assignor": CURRENT, "moved": 0} | _saved(now, now)
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
            yield of_assignor | {"moved": moved} | _saved(now, self._reads(group, found))

    def _reads(self, group: GroupSpec, assignment: Assignment) -> dict[str, Any]:
        topology = self.topology
        partitions: Counter[Pair] = Counter()
        rates: dict[Pair, float] = {}
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
            self._pair(pair, count, rates.get(pair))
            for pair, count in sorted(partitions.items(), key=lambda one: tuple(str(rack) for rack in one[0]))
        ]
        crossing = [pair for pair in pairs if pair["crosses"]]
        crossing_rate = None if self.rates is None else sum((pair["bytes_per_second"] for pair in crossing), 0.0)
        return {
            "partitions": partitions.total(),
            "crossing": sum(pair["partitions"] for pair in crossing),
            "crossing_bytes_per_second": crossing_rate,
            "cost_per_month": self._cost(crossing_rate),
            "unknown": sum(pair["partitions"] for pair in pairs if pair["crosses"] is None),
            "error": None,
            "pairs": pairs,
        }

    def _pair(self, pair: Pair, partitions: int, rate: float | None) -> dict[str, Any]:
        crosses = None if None in pair else pair[0] != pair[1]
        return {
            "from_rack": pair[0],
            "to_rack": pair[1],
            "partitions": partitions,
            "bytes_per_second": rate,
            "crosses": crosses,
            "cost_per_month": self._cost(rate if crosses or rate is None else 0.0),
        }

    def _cost(self, rate: float | None) -> float | None:
        """Return the price of 30 days; `None` without a rate or a price."""
        if rate is None or self.price_per_gb is None:
            return None
        return rate * (MONTH_SECONDS * self.price_per_gb / GB)


def _saved(now: dict[str, Any], found: dict[str, Any]) -> dict[str, Any]:
    """Return the numbers `found` of an assignor with what it saves compared to `now`."""
    names = ("crossing", "crossing_bytes_per_second", "cost_per_month")
    return found | {f"saved_{name}": None if found[name] is None else now[name] - found[name] for name in names}


def _owners(assignment: Assignment) -> dict[int, str]:
    return {
        number: member_id for member_id in assignment.member_ids for number in assignment.numbers(member_id).tolist()
    }


def _with_ids(topology: Topology) -> Topology:
    """Derive missing topic ids from the names, as server-side assignors need ids."""
    if all(topic.id is not None for topic in topology.topics):
        return topology
    return Topology(
        topic if topic.id is not None else replace(topic, id=Uuid(sha256(topic.name.encode()).digest()[:16]))
        for topic in topology.topics
    )
