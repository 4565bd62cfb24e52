"""A command's job: its options, its engine, its input rows, and what becomes of its results."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.connection import check_one_source
from quorate.cli.errors import UserError, note
from quorate.cli.pipeline.engine import check_tables, errors_in_one_line, local_rows, rows_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from quorate.coordinator.history import Moment
    from quorate.pipeline.local import LocalRows


class Job:
    """The engine, the input rows, and the options of all commands.

    `engine`: `quorate.pipeline` or `quorate.pipeline.local`, whose jobs have the same parameters.
    """

    def __init__(self, options: Mapping[str, Any]) -> None:
        from quorate.cli.times import read_moment

        self.options = options
        given = dict(_pair("--option", one) for one in options["options"])
        sources, servers = options["sources"], options["bootstrap_servers"]
        check_one_source(None, sources, servers)
        if options.get("output") == "":
            raise UserError("--output is empty", "name a file or folder")
        if "output_format" in options:
            _check_output(options)
        moment = read_moment(options["as_of"], "--as-of")
        if moment.offset is not None:
            raise UserError(f"--as-of {moment.offset}: name the partition, as in --as-of 17:{moment.offset}")
        offsets = moment.offsets
        self.as_of: Any = (
            moment.timestamp_ms if offsets is None else {one: at for one, at in offsets.items() if one is not None}
        )
        if servers is not None:
            given["kafka.bootstrap.servers"] = servers
        check_tables(options)
        self._given = given
        self.engine: Any
        self.rows: Any = local_rows(options, sources, given)
        self.is_local = self.rows is not None
        is_log = options["input_format"] == "consumer-offsets"
        if moment.offsets is not None and is_log:
            _check_partitions(moment, rows_of(sources, given) if self.rows is None else self.rows)
        if self.is_local:
            from quorate.pipeline import local

            self.engine = local
        else:
            rows = self._start_spark(sources, given)
            if moment.offsets is not None and not is_log:
                _check_decoded(moment, rows)
            self.rows = rows

    def _start_spark(self, sources: Sequence[str], given: Mapping[str, str]) -> "DataFrame":
        from quorate import pipeline
        from quorate.pipeline.session import check_source, read_rows, started

        options = self.options
        small = check_source(options["input_format"], sources, given)
        self.engine = pipeline
        self.spark = started(options["master"], dict(_pair("--conf", one) for one in options["conf"]), small=small)
        return read_rows(self.spark, options["input_format"], sources, given)

    def table(self, option: str) -> Any:
        """Read the table of an option, if it is given."""
        path = self.options[option]
        if path is None:
            return None
        if self.is_local:
            from quorate.pipeline.tables import read_table

            return read_table(path)
        from quorate.pipeline.session import read_spark_table

        return read_spark_table(self.spark, path)

    def cached(self, found: Any) -> Any:
        """Return a result of several tables; Spark computes it only once if all are written."""
        return found if self.is_local or self.options["output"] is None else found.cache()

    def deliver(self, tables: Mapping[str, Any], shown: str, *order: str) -> None:
        """Write the tables of the engine in an order of rows, or print one of them."""
        from quorate.cli.pipeline.output import show

        options = self.options
        if options["output"] is None:
            table = self._sorted(tables[shown], order)
            show(
                table if self.is_local else table.limit(options["limit"] + 1).toArrow(),
                as_json=options["as_json"],
                limit=options["limit"],
            )
            return
        write: Callable[..., Mapping[str, str]]
        if self.is_local:
            from quorate.pipeline.local.output import write
        else:
            from quorate.pipeline.session import write
        tables = {name: self._sorted(table, order) for name, table in tables.items()}
        places = write(tables, options["output"], options["output_format"], overwrite=options["overwrite"])
        for name, place in places.items():
            note(f"{name}: {place}")

    def show_damage(self) -> bool:
        """Print damage of the logs, whose records the result lacks; return whether there is any."""
        from quorate.cli.reporting import show_damage, show_missing

        if self.is_local:
            for problem in self.rows.damage:
                show_damage(problem, skipped=True)
            return bool(self.rows.damage)
        from quorate.pipeline.session import damage_of

        damage = damage_of(self.spark, self.options["input_format"], self.options["sources"], self._given)
        for reason, text in damage:
            show_missing(reason, text)
        return bool(damage)

    def note_open_transactions(self) -> None:
        """Say which records the result lacks because a transaction of a log is open before them."""
        options = self.options
        if options["input_format"] != "consumer-offsets" or options["bootstrap_servers"] is not None:
            return
        rows = self.rows if self.is_local else rows_of(options["sources"], self._given)
        found = [f"{place} from offset {offset:,} on" for place, offset in rows.open_transactions().items()]
        if found:
            note(
                f"not read because of open transactions: {', '.join(found[:3])}"
                + (f", and of {len(found) - 3} more partitions" if len(found) > 3 else "")
                + "; --option isolation.level=read_uncommitted reads it"
            )

    def _sorted(self, table: Any, order: Sequence[str]) -> Any:
        if not order:
            return table
        if self.is_local:
            from quorate.pipeline.local.output import ordered

            return ordered(table, *order)
        return table.orderBy(*order)


_OF_PRINTING = {"table": "--table", "as_json": "--json", "limit": "--limit"}
_OF_WRITING = {"output_format": "--format", "overwrite": "--overwrite"}


def _check_output(options: Mapping[str, Any]) -> None:
    """Raise an error for options of printing and of writing that contradict each other."""
    if options["output"] == "-":
        raise UserError("--output -: files cannot be written to standard output", "omit it, or use --json")
    printed = options["output"] is None
    source = click.get_current_context().get_parameter_source
    for name, flag in (_OF_WRITING if printed else _OF_PRINTING).items():
        if name in options and source(name) is click.core.ParameterSource.COMMANDLINE:
            if printed:
                raise UserError(f"{flag} is for results that are written", "add --output PLACE, or print --json")
            remedy = "use --format json" if name == "as_json" else "omit it: all tables are written, with all rows"
            raise UserError(f"{flag} is for results that are printed, not for --output", remedy)


def _check_partitions(moment: "Moment", rows: "LocalRows") -> None:
    """Raise an error for offsets of partitions that are not among those of the rows."""
    from quorate.coordinator.history.replay import check_places

    partitions = rows.partitions()
    if None in partitions:
        raise UserError(
            "--as-of: an offset needs files of a known partition",
            f"put them into the folder of their partition, such as {rows.options.topic}-17, or give a time",
        )
    check_places(moment, partitions, "what is read", rows.options.topic, "--as-of")


def _check_decoded(moment: "Moment", rows: "DataFrame") -> None:
    """Raise an error for offsets of partitions that no decoded row has."""
    from quorate.coordinator.history.replay import check_places
    from quorate.pipeline.session import logs_in

    logs = logs_in(rows)
    topics = ", ".join(sorted({topic for topic, _ in logs}))
    check_places(moment, {partition for _, partition in logs}, "what is read", topics, "--as-of")


def _pair(option: str, text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise UserError(f"{option} {text}: is not NAME=VALUE")
    return name, value


def run_job(options: Mapping[str, Any], run: Callable[[Job], None]) -> None:
    """Run a job, on Spark or in this process; report errors in one line.

    Ends with status 1 if damaged parts of the logs are missing from the result.
    """
    with errors_in_one_line():
        job = Job(options)
        run(job)
        job.note_open_transactions()
        damaged = job.show_damage()
    if damaged:
        click.get_current_context().exit(1)
