"""`locality` against `quorate.assignors.explain` of the same groups, and its sums."""

from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from quorate.assignors import Topology
from quorate.pipeline.jobs.locality_rows import CURRENT, LOCALITY
from quorate.pipeline.local.output import ordered
from quorate.pipeline.schema import DOUBLE, TEXT, OptionError
from tests.coordinator.captures import Checkpoint, checkpoints
from tests.pipeline.helpers.engines import Engine, LocalEngine, SparkEngine
from tests.pipeline.helpers.jobs import Rowlike, captured

CAPTURE = "consumer-4.3"
PRICE = 0.02
MONTH = 30 * 24 * 3600


def at_end() -> Checkpoint:
    """Return the last checkpoint, with the brokers' descriptions of groups and topics."""
    return list(checkpoints(CAPTURE))[-1]


def topology() -> Topology:
    image = at_end().image
    return Topology.from_replicas(
        {topic.name: topic.replicas for topic in image.topics_by_id.values()},
        image.brokers,
        ids={topic.name: topic.id for topic in image.topics_by_id.values()},
    )


def by_group(rows: list[Rowlike]) -> dict[tuple[str, str], Rowlike]:
    return {(row["group"], row["assignor"]): row for row in rows}


def remote_by_hand(described: Rowlike, racks: dict[str, list[tuple[str | None, ...]]]) -> int:
    """Return the number of remote partitions in a broker's description of a group."""
    count = 0
    for member in described["raw"]["data"]["groups"][0]["members"]:
        for topic in member["assignment"]["topicPartitions"]:
            for number in topic["partitions"]:
                count += member["rackId"] not in racks[topic["topicName"]][number]
    return count


RATES = {(topic.name, number): 1e6 * (number + 1) for topic in topology().topics for number in range(topic.partitions)}
"""Different for each partition, so that sums identify partitions."""

Tables = dict[str, list[Rowlike]]


@pytest.fixture(scope="module")
def found(engine: Engine) -> Tables:
    rows = engine.rows(captured([CAPTURE]), seed=2)
    tables = engine.locality(rows, topology(), RATES, price_per_gb=PRICE)
    assert tables["rows"].schema.names == LOCALITY.names
    return {name: table.to_pylist() for name, table in tables.items()}


@pytest.mark.long_on_spark  # test_both_engines_return_the_same_tables is shorter
def test_cross_rack_partitions_equal_the_responses_of_brokers(found: Tables) -> None:
    rows = by_group(found["summary"])
    racks = {topic.name: list(topic.racks) for topic in topology().topics}
    compared = 0
    for described in at_end().groups:
        if described.get("type") != "Consumer" or not described["raw"]["data"]["groups"][0]["members"]:
            continue
        row = rows[described["groupId"], CURRENT]
        assert row["crossing"] == remote_by_hand(described, racks), described["groupId"]
        assert row["saved_crossing"] == 0
        compared += 1
    assert compared >= 2
    assert {name for _, name in rows} == {CURRENT, "uniform", "range", "sticky", "rack-aware-uniform"}


@pytest.mark.long_on_spark
def test_sums_are_over_pairs_and_savings_are_relative_to_the_current_assignment(found: Tables) -> None:
    rows = by_group(found["summary"])
    pairs: dict[tuple[str, str], list[Rowlike]] = {}
    for pair in found["pairs"]:
        pairs.setdefault((pair["group"], pair["assignor"]), []).append(pair)
    better = 0
    for at, row in rows.items():
        assert row["error"] is None
        crossing = [pair for pair in pairs[at] if pair["crosses"]]
        assert row["partitions"] == sum(pair["partitions"] for pair in pairs[at])
        assert row["crossing"] == sum(pair["partitions"] for pair in crossing)
        assert row["unknown"] == sum(pair["partitions"] for pair in pairs[at] if pair["crosses"] is None)
        rate = sum(pair["bytes_per_second"] for pair in crossing)
        assert row["crossing_bytes_per_second"] == pytest.approx(rate)
        assert row["cost_per_month"] == pytest.approx(rate * MONTH / 1e9 * PRICE)
        assert sum(pair["cost_per_month"] or 0 for pair in pairs[at]) == pytest.approx(row["cost_per_month"])
        now = rows[at[0], CURRENT]
        assert row["saved_crossing"] == now["crossing"] - row["crossing"]
        assert row["saved_cost_per_month"] == pytest.approx(now["cost_per_month"] - row["cost_per_month"])
        better += row["saved_crossing"] > 0
    assert better > 0
    for group, name in rows:
        if name == "rack-aware-uniform":
            assert rows[group, name]["crossing"] == min(rows[at]["crossing"] for at in rows if at[0] == group)


@pytest.mark.long_on_spark
def test_without_follower_fetching_partitions_are_read_from_leaders(found: Tables) -> None:
    engine = LocalEngine()
    leaders = {racks[0] for topic in topology().topics for racks in topic.racks}
    from_leaders = engine.locality(
        engine.rows(captured([CAPTURE])), topology(), follower_fetching=False, assignors=["uniform"]
    )
    rows = from_leaders["rows"].to_pylist()
    assert {row["assignor"] for row in rows} == {CURRENT, "uniform"}
    assert {pair["from_rack"] for row in rows for pair in row["pairs"]} <= leaders
    assert all(pair["bytes_per_second"] is None for row in rows for pair in row["pairs"])
    near = {row["group"]: row["crossing"] for row in found["summary"] if row["assignor"] == CURRENT}
    far = {
        row["group"]: sum(
            pair["partitions"] for pair in row["pairs"] if pair["from_rack"] != pair["to_rack"] and pair["to_rack"]
        )
        for row in rows
        if row["assignor"] == CURRENT
    }
    assert all(far[group] >= near[group] for group in near)
    assert any(far[group] > near[group] for group in near)


def test_both_engines_return_the_same_tables(spark: SparkSession) -> None:
    rates = pa.table({"topic": [None], "partition": ["0"], "bytes_per_second": [None]}, RATES_SCHEMA)
    rows = [
        {"topic": topic, "partition": str(number), "bytes_per_second": rate} for (topic, number), rate in RATES.items()
    ]
    rates = pa.concat_tables([rates, pa.Table.from_pylist(rows[1:], RATES_SCHEMA)])
    few = Topology(list(topology().topics)[:-1])  # not all assigned partitions, no rate for one
    found = {}
    for engine in (LocalEngine(), SparkEngine(spark)):
        tables = engine.locality(
            engine.rows(captured()), few, rates, price_per_gb=PRICE, assignors=["cooperative-sticky"]
        )
        found[engine] = {
            name: ordered(table, "log_topic", "log_partition", "group", "assignor") for name, table in tables.items()
        }
    local, on_spark = found.values()
    assert local["rows"].num_rows > 20
    assert max(local["summary"].column("not_in_topology").to_pylist()) > 0
    for name, table in local.items():
        assert table.equals(on_spark[name].cast(table.schema)), name


RATES_SCHEMA = pa.schema({"topic": TEXT, "partition": TEXT, "bytes_per_second": DOUBLE})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"assignors": ["fair"]}, "unknown assignor fair"),
        ({"topology": Topology.of({"t": 3})}, "has no racks"),
        ({"throughput": pa.table({"topic": ["t"], "partition": [0]})}, "no column bytes_per_second"),
        (
            {"throughput": pa.table({"topic": ["t"], "partition": ["one"], "bytes_per_second": [1.0]})},
            r"the throughput has \['t', 'one', 1.0\], which is not a topic",
        ),
    ],
)
def test_invalid_arguments_are_errors_before_a_job_runs(engine: Engine, change: dict[str, Any], message: str) -> None:
    rows = engine.rows(captured([CAPTURE]))
    with pytest.raises(OptionError, match=message):
        engine.locality(rows, **({"topology": topology()} | change))
