"""`quorate pipeline`: the jobs of `quorate.pipeline`, in this process or with Spark.

This module has the commands, `engine` chooses the engine, `job` runs the job, and `output` prints
results. `quorate.pipeline.session` starts Spark and writes results; `quorate.pipeline.local` works
without it.
"""

from collections.abc import Mapping
from typing import Any

import click

from quorate.cli.connection import servers_option
from quorate.cli.pipeline.engine import ENGINE
from quorate.cli.pipeline.job import Job, run_job
from quorate.cli.subcommands import Commands, FiniteRange, with_options

__all__ = ["pipeline"]

HELP = """Analyse months of __consumer_offsets: group states, rebalances, lags, locality and upgrades.

Logs of up to 2 GB are analysed in this process; Spark is used for larger ones and on a cluster. --engine selects.

A SOURCE is a segment file, the folder of a partition, or a broker's log directory; with --from, the location of
previously decoded rows. With -b records are read from a live cluster. Results are printed, or written with --output.

\b
quorate pipeline state kafka-logs --table members
quorate pipeline rebalances kafka-logs --storms
quorate pipeline lag kafka-logs --end-offsets ends.csv --output lags
quorate pipeline locality kafka-logs --topology topics.yaml --price-per-gb 0.02
quorate pipeline audit kafka-logs --topology topics.yaml
quorate pipeline report kafka-logs --end-offsets ends.csv --output report.html
"""

FORMATS = ("parquet", "json", "csv", "delta", "iceberg")
MOST_ROWS = 2**31 - 2
"""Spark's `limit` takes an integer of 32 bits, and one row more shows that there are others."""

STATE_TABLES = ("groups", "members", "targets", "assignments", "offsets", "skipped")


@click.group(cls=Commands, help=HELP)
def pipeline() -> None:
    """Define the group of commands."""


_INPUT = (
    click.argument("sources", nargs=-1, metavar="[SOURCE]..."),
    servers_option(),
    click.option(
        "--option",
        "options",
        multiple=True,
        metavar="NAME=VALUE",
        help="Option of the Spark source, such as partitions=0-9, isolation.level=read_uncommitted "
        "or kafka.security.protocol=SSL; may be repeated.",
    ),
    click.option(
        "--from",
        "input_format",
        metavar="FORMAT",
        default="consumer-offsets",
        help="Spark format of the SOURCEs, such as parquet, delta or iceberg for previously decoded rows.  "
        "[default: consumer-offsets]",
    ),
    click.option(
        "--as-of",
        metavar="TIME|PARTITION:OFFSET[,...]",
        help="State at a time: ISO time (UTC), ms since 1970, or an age such as 2h; "
        "or after the records at these offsets of partitions.",
    ),
    click.option(
        "--master", metavar="URL", help="Master URL of Spark.  [default: that of spark-submit, else local[*]]"
    ),
    click.option("--conf", multiple=True, metavar="NAME=VALUE", help="Spark config; may be repeated."),
    ENGINE,
)
_OUTPUT = (
    click.option(
        "--output",
        metavar="PLACE",
        help="Write the result here instead of printing it; several tables get a folder each.",
    ),
    click.option(
        "--format",
        "output_format",
        type=click.Choice(FORMATS),
        default="parquet",
        show_default=True,
        help="Format of the output; in CSV, nested values are JSON.",
    ),
    click.option("--overwrite", is_flag=True, help="Replace existing output."),
    click.option("--json", "as_json", is_flag=True, help="Print JSON, with all fields."),
    click.option(
        "--limit",
        type=click.IntRange(min=1, max=MOST_ROWS),
        default=1000,
        show_default=True,
        metavar="N",
        help="Print at most N rows.",
    ),
)


def _topology(path: str) -> Any:
    from quorate.assignors.what_if.description import read_topology

    return read_topology(path)[0]


@pipeline.command()
@with_options(
    *_INPUT,
    click.option(
        "--table", type=click.Choice(STATE_TABLES), default="groups", show_default=True, help="Table to print."
    ),
    *_OUTPUT,
)
def state(**options: Any) -> None:
    """Show groups, members, assignments and offsets, now or at an earlier time."""

    def run(job: Job) -> None:
        job.deliver(job.cached(job.engine.group_state(job.rows, job.as_of)).tables, options["table"])

    run_job(options, run)


@pipeline.command()
@with_options(
    *_INPUT,
    click.option(
        "--storms",
        "only_storms",
        is_flag=True,
        help="Only rebalance storms: many rebalances of a group in a short time.",
    ),
    click.option(
        "--window",
        metavar="SECONDS",
        type=click.IntRange(min=1),
        default=300,
        show_default=True,
        help="Length of time in which rebalances count as a storm.",
    ),
    click.option(
        "--at-least",
        metavar="N",
        type=click.IntRange(min=2),
        default=5,
        show_default=True,
        help="Number of rebalances that make a storm.",
    ),
    *_OUTPUT,
)
def rebalances(**options: Any) -> None:
    """Show each epoch and generation, with cause, duration and moved partitions."""

    def run(job: Job) -> None:
        found = job.engine.rebalances(job.rows, job.as_of)
        if options["only_storms"]:
            found = job.engine.storms(found, window_ms=1000 * options["window"], at_least=options["at_least"])
        job.deliver({"rebalances": found}, "rebalances", "started_at", "group")

    run_job(options, run)


_END_OFFSETS = click.option(
    "--end-offsets",
    metavar="FILE",
    help="End offsets over time as CSV, JSON lines or Parquet: topic, partition, timestamp, end_offset.",
)
_TOPOLOGY = click.option(
    "--topology", metavar="FILE", help="File of topics with their partitions, racks and ids, as for `quorate assign`."
)
_THROUGHPUT = click.option(
    "--throughput",
    metavar="FILE",
    help="Throughput of partitions as CSV, JSON lines or Parquet: topic, partition, bytes_per_second.",
)
_PRICE = click.option(
    "--price-per-gb",
    metavar="PRICE",
    type=FiniteRange(min=0),
    help="Price per GB of traffic between racks.",
)


@pipeline.command()
@with_options(*_INPUT, _END_OFFSETS, *_OUTPUT)
def lag(**options: Any) -> None:
    """Show lags over time, rates, and the time until groups catch up."""
    _needed(options, "end_offsets")

    def run(job: Job) -> None:
        found = job.engine.lag(job.rows, job.table("end_offsets"), as_of=job.as_of)
        job.deliver({"lag": found}, "lag", "group", "topic", "partition", "timestamp")

    run_job(options, run)


@pipeline.command()
@with_options(
    *_INPUT,
    _TOPOLOGY,
    _THROUGHPUT,
    _PRICE,
    click.option(
        "--assignor", "assignors", multiple=True, metavar="NAME", help="Assignor to compare with; may be repeated."
    ),
    click.option(
        "--leaders-only", is_flag=True, help="Assume that members fetch from leaders only (no replica.selector.class)."
    ),
    click.option(
        "--table",
        type=click.Choice(["summary", "pairs"]),
        default="summary",
        show_default=True,
        help="Table to print.",
    ),
    *_OUTPUT,
)
def locality(**options: Any) -> None:
    """Show traffic between racks, its cost, and what other assignors would save."""
    _needed(options, "topology")
    topology = _topology(options["topology"])

    def run(job: Job) -> None:
        found = job.cached(_locality(job, topology, job.rows))
        job.deliver(found.tables, options["table"], "group", "assignor")

    run_job(options, run)


def _locality(job: Job, topology: Any, rows: Any) -> Any:
    options = job.options
    return job.engine.locality(
        rows,
        topology,
        job.table("throughput"),
        options["price_per_gb"],
        as_of=job.as_of,
        assignors=options.get("assignors") or None,
        follower_fetching=not options.get("leaders_only"),
    )


@pipeline.command()
@with_options(*_INPUT, _TOPOLOGY, *_OUTPUT)
def audit(**options: Any) -> None:
    """Show how past upgrades affected groups, and how the next one would."""
    topology = None if options["topology"] is None else _topology(options["topology"])

    def run(job: Job) -> None:
        found = job.engine.upgrade_audit(job.rows, topology, as_of=job.as_of)
        job.deliver({"audit": found}, "audit", "group", "at_end", "log_offset", "finding")

    run_job(options, run)


@pipeline.command()
@with_options(
    *_INPUT,
    _END_OFFSETS,
    _TOPOLOGY,
    _THROUGHPUT,
    _PRICE,
    click.option("--title", default="Consumer groups", show_default=True, metavar="TEXT", help="Title of the page."),
    click.option(
        "--output", required=True, metavar="FILE", help="File for the page, which is self-contained; - for stdout."
    ),
)
def report(**options: Any) -> None:
    """Write an HTML page with charts of lags, rebalances, racks and upgrades."""
    topology = None if options["topology"] is None else _topology(options["topology"])

    def run(job: Job) -> None:
        from quorate.cli.pipeline.output import write_text
        from quorate.pipeline.report import report

        page = report(
            job.rows,
            end_offsets=job.table("end_offsets"),
            topology=topology,
            locality=None if topology is None else _locality(job, topology, job.rows),
            as_of=job.as_of,
            title=options["title"],
        )
        write_text(options["output"], page)

    run_job(options, run)


def _needed(options: Mapping[str, Any], *names: str) -> None:
    for name in names:
        if options[name] is None:
            raise click.UsageError(f"--{name.replace('_', '-')} is required: __consumer_offsets lacks this data")
