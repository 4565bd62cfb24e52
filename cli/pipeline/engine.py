"""The engine of a job: this process (`quorate.pipeline.local`), or Spark."""

import json
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from typing import TYPE_CHECKING, Any

import click

from quorate.cli.errors import UserError, note

if TYPE_CHECKING:
    from quorate.pipeline.local import LocalRows

LOCAL_BYTES = 2 << 30
"""Size of logs up to which `auto` chooses this process, whose memory holds a partition's rows."""

ENGINE = click.option(
    "--engine",
    type=click.Choice(["auto", "local", "spark"]),
    default="auto",
    show_default=True,
    help="Run in this process, or with Spark.  auto: this process for up to 2 GB, without options of Spark.",
)


_TABLES = ("end_offsets", "throughput")
"""Options with a table for the job."""


def check_tables(options: Mapping[str, Any]) -> None:
    """Raise an error for tables in other formats than the engines read."""
    given = {name: options[name] for name in _TABLES if options.get(name) is not None}
    if given:
        from quorate.pipeline.tables import check_table

        for name, path in given.items():
            check_table(f"--{name.replace('_', '-')}", path)


def local_rows(options: Mapping[str, Any], sources: Sequence[str], given: Mapping[str, str]) -> "LocalRows | None":
    """Return the rows for the local engine; `None` for Spark.

    `given` are options of the source. Raises `UserError` for options that the local engine lacks,
    and errors of sources that cannot be read.
    """
    engine = options["engine"]
    if engine == "spark":
        return None
    reason = _only_spark(options)
    if reason is not None:
        if engine == "local":
            raise UserError(f"--engine local: {reason} needs Spark", "omit it, or use --engine spark")
        return None
    rows = rows_of(sources, given)
    size = rows.size_bytes()
    if engine == "auto" and size > LOCAL_BYTES:
        note(f"using Spark for {size / 1e9:,.1f} GB; --engine local uses this process, and its memory")
        return None
    _convert_without_pandas()
    return rows


def rows_of(sources: Sequence[str], given: Mapping[str, str]) -> "LocalRows":
    """Return the rows of sources with these options of the source. Nothing is read yet."""
    from quorate.pipeline.local import LocalRows

    return LocalRows(dict(given) | ({"paths": json.dumps(list(sources))} if sources else {}))


class _NoPandas(MetaPathFinder):
    def find_spec(self, name: str, *_: object) -> None:
        if name == "pandas":
            raise ModuleNotFoundError(f"{name} is not used by the local engine")


def _convert_without_pandas() -> None:
    """Let pyarrow not look for objects of pandas, which only callers from Python have.

    It imports pandas, if it is installed, with the first list that it converts, and tries that only
    once: 0.3 of the 1.4 s of `quorate pipeline state` on a small log (CPU time, 2026-11).
    """
    import pyarrow

    finder = _NoPandas()
    sys.meta_path.insert(0, finder)
    try:
        pyarrow.array([0])
    finally:
        sys.meta_path.remove(finder)


def _only_spark(options: Mapping[str, Any]) -> str | None:
    """Return what only Spark can do in these options."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return "spark-submit"
    for name in ("master", "conf"):
        if options[name]:
            return f"--{name}"
    if options["input_format"] != "consumer-offsets":
        return f"--from {options['input_format']}"
    for name in _TABLES:
        if _is_remote(options.get(name)):
            return f"--{name.replace('_', '-')} {options[name]}"
    if "output_format" in options and options["output"] is not None:
        from quorate.pipeline.local.output import FORMATS

        if options["output_format"] not in FORMATS:
            return f"--format {options['output_format']}"
        if _is_remote(options["output"]):
            return f"--output {options['output']}"
    return None


def _is_remote(place: str | None) -> bool:
    return place is not None and "://" in place and not place.startswith("file://")


@contextmanager
def errors_in_one_line() -> Iterator[None]:
    """Convert errors of Spark, and missing packages, to an error of one line."""
    try:
        try:
            yield
        except Exception as error:
            if not type(error).__module__.startswith(("pyspark", "py4j")):
                raise
            from quorate.pipeline.session import in_one_line

            with in_one_line():
                raise
    except ImportError as error:
        missing = (error.name or "pyspark").partition(".")[0]
        if missing not in ("pyspark", "py4j", "pandas", "pyarrow", "google"):
            raise
        extra = "arrow" if missing == "pyarrow" else "spark"
        needed = "Arrow" if missing == "pyarrow" else "Spark"
        raise UserError(
            f"pipeline needs {needed}, and {missing} is not installed", f"pip install 'quorate[{extra}]'"
        ) from error
