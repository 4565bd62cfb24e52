"""Spark for `quorate pipeline`: start it, or say in one line why not; read what the options name; and say in one line what went wrong in a job."""

import os
import re
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from quorate.cli.errors import UserError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["in_one_line", "read_rows", "read_table", "started"]

_RAISED = re.compile(r"^(?:: )?[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] ")


def started(master: str | None, conf: Mapping[str, str]) -> "SparkSession":
    """The session that there is (spark-submit), or a new one. Raises `UserError` without pyspark or Java."""
    try:
        from pyspark.errors import PySparkException
        from pyspark.sql import SparkSession

        from quorate.pipeline import register
    except ImportError as error:
        raise UserError(
            f"pipeline needs Spark, and {(error.name or 'pyspark').partition('.')[0]} is not installed",
            "pip install 'quorate[spark]'",
        ) from error
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and not _java():
        raise UserError(
            "pipeline needs Java, and there is none: neither JAVA_HOME nor PATH has it",
            "install a Java runtime that Spark runs on, 17 or newer",
        )
    # Workers have to have what this process has, not what `python3` happens to be.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.appName("quorate pipeline")
    # Spark keeps filters that it pushed to a Python source for all later uses of the rows, and jobs use them more than once.
    settings = {"spark.sql.session.timeZone": "UTC", "spark.sql.python.filterPushdown.enabled": "false"}
    if not submitted:
        settings |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
            "spark.log.level": "ERROR",
        }
        builder = builder.master(master or "local[*]")
    elif master is not None:
        builder = builder.master(master)
    for name, value in (settings | dict(conf)).items():
        builder = builder.config(name, value)
    try:
        session = builder.getOrCreate()
    except PySparkException as error:
        raise UserError(f"Spark does not start: {_told(str(error))}") from error
    register(session)
    return session


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")


def read_rows(
    spark: "SparkSession", input_format: str, sources: Sequence[str], options: Mapping[str, str]
) -> "DataFrame":
    """The decoded rows: by our source, or those that were written before. Raises `UserError` for files that are not there."""
    from quorate.pipeline.source import FORMAT

    if input_format != FORMAT and not sources:
        raise UserError(f"--from {input_format} needs a SOURCE")
    reader = spark.read.format(input_format).options(**options)
    if input_format == FORMAT:
        return reader.load(list(sources)) if sources else reader.load()
    found = [reader.load(source) for source in sources]
    whole = found[0]
    for more in found[1:]:
        whole = whole.unionByName(more)
    return whole


def read_table(spark: "SparkSession", option: str, path: str) -> "DataFrame":
    """A small table, by its suffix. Times without a zone are UTC. Raises `UserError` for another suffix."""
    suffix = Path(path).suffix.removeprefix(".").lower()
    match suffix:
        case "csv":
            return spark.read.csv(path, header=True, inferSchema=True)
        case "json" | "jsonl" | "ndjson":
            return spark.read.json(path)
        case "parquet":
            return spark.read.parquet(path)
    raise UserError(f"{option} {path}: is not a .csv, .jsonl or .parquet file")


@contextmanager
def in_one_line() -> Iterator[None]:
    """Turn errors of the user, and of Spark, into a `UserError` without what Spark wraps around it."""
    try:
        from py4j.protocol import Py4JError
        from pyspark.errors import PySparkException

        from quorate.pipeline.schema import OptionError
    except ImportError:
        yield  # `started` says what is missing
        return
    try:
        yield
    except OptionError as error:
        raise UserError(str(error)) from error
    except (PySparkException, Py4JError) as error:
        raise UserError(_told(str(error))) from error


def _told(text: str) -> str:
    """What was raised: in the innermost place of a traceback of Python, in the outermost one of Java's; else the first line."""
    raised = _RAISED.findall(text)
    if raised:
        line: str = raised[-1 if "Traceback (most recent call last)" in text else 0]
    else:
        line = next(iter(text.strip().splitlines()), "Spark failed without a word")
    return _CLASS.sub("", line).strip()
