"""A command's job: its options, its input rows, and what becomes of its results."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from quorate.cli.connection import check_one_source
from quorate.cli.errors import UserError, note
from quorate.cli.pipeline.engine import errors_in_one_line, local_rows

if TYPE_CHECKING:
    from pyarrow import Table
    from pyspark.sql import DataFrame, SparkSession

    from quorate.pipeline.local import LocalRows

__all__ = ["Job", "run_job"]


class Job:
    """The engine, the input rows, and the options of all commands."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        from quorate.cli.times import read_moment

        self.options = options
        given = dict(_pair("--option", one) for one in options["options"])
        sources, servers = options["sources"], options["bootstrap_servers"]
        check_one_source(None, sources, servers)
        moment = read_moment(options["as_of"], "--as-of")
        if moment.offset is not None:
            raise UserError(f"--as-of {moment.offset}: name the partition, as in --as-of 17:{moment.offset}")
        offsets = moment.offsets
        self.as_of: Any = (
            moment.timestamp_ms if offsets is None else {one: at for one, at in offsets.items() if one is not None}
        )
        if servers is not None:
            given["kafka.bootstrap.servers"] = servers
        self.local: LocalRows | None = local_rows(options, sources, given)
        if self.local is None:
            self._start_spark(sources, given)

    def _start_spark(self, sources: Sequence[str], given: Mapping[str, str]) -> None:
        from quorate.pipeline.session import check_source, check_table, read_rows, started

        options = self.options
        for option in ("end_offsets", "throughput"):
            check_table(f"--{option.replace('_', '-')}", options.get(option))
        check_source(options["input_format"], sources, given)
        self.spark: SparkSession = started(options["master"], dict(_pair("--conf", one) for one in options["conf"]))
        self.rows: DataFrame = read_rows(self.spark, options["input_format"], sources, given)

    def deliver(self, tables: "Mapping[str, DataFrame] | Mapping[str, Table]", shown: str) -> None:
        """Write the tables of the engine, or print one of them."""
        from quorate.cli.pipeline.output import show

        options = self.options
        if options["output"] is None:
            table: Any = tables[shown]
            show(
                table.limit(options["limit"] + 1).toArrow() if self.local is None else table,
                as_json=options["as_json"],
                limit=options["limit"],
            )
            return
        write: Callable[..., Mapping[str, str]]
        if self.local is None:
            from quorate.pipeline.session import write
        else:
            from quorate.pipeline.local.output import write
        places = write(tables, options["output"], options["output_format"], overwrite=options["overwrite"])
        for name, place in places.items():
            note(f"{name}: {place}")


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"{option} {text}: is not NAME=VALUE")
    return name, value


def run_job(options: Mapping[str, Any], run: Callable[[Job], None]) -> None:
    """Run a job, on Spark or in this process; report errors in one line."""
    with errors_in_one_line():
        run(Job(options))
