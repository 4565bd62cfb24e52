"""Spark for `quorate pipeline`: start a session, read sources and tables, write results.

Errors of Spark become an `InputError` of one line.
"""

import json
import logging
import os
import re
import shutil
import signal
import sys
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # the usual alias
from pyspark.sql.types import ArrayType, MapType, StructType

from quorate.codecs.batches.model import ProblemReason
from quorate.codecs.errors import InputError
from quorate.codecs.log.model import HARMLESS
from quorate.pipeline.files import find_files
from quorate.pipeline.jobs.columns import present_types
from quorate.pipeline.jobs.moments import LOG
from quorate.pipeline.options import FORMAT, parse_options
from quorate.pipeline.schema import CONTROL, IN_FILE
from quorate.pipeline.source import register
from quorate.pipeline.tables import form_of

SMALL_BYTES = 64 << 20
"""Size of files up to which compiling queries takes longer than interpreting them."""

_SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Configs and a JVM for a job on few rows, which needs less than two thirds of the CPU time."""

_RAISED = re.compile(r"^(?:: )?[\w.]+(?:Error|Exception): (.+)$", re.MULTILINE)
_CLASS = re.compile(r"^\[[A-Z0-9_.]+\] ")
_STATE = re.compile(r" SQLSTATE: \w+$")
_NOISE = re.compile(r"WARNING: |Using Spark's default|Setting |To adjust logging|\d\d/\d\d/\d\d |\s")  # plain: Spark's


def check_source(input_format: str, sources: Sequence[str], options: Mapping[str, str]) -> bool:
    """Check the sources before the slow start of Spark. Returns whether their files are small.

    Raises `InputError`.
    """
    if input_format != FORMAT:
        if not sources:
            raise InputError(f"--from {input_format} needs a SOURCE")
        return False
    parsed = parse_options(dict(options) | ({"paths": json.dumps(list(sources))} if sources else {}))
    if not parsed.paths:
        return False
    return sum(segment.size_bytes for files in find_files(parsed) for segment in files.segments) <= SMALL_BYTES


def started(master: str | None, conf: Mapping[str, str], *, small: bool = False) -> SparkSession:
    """Return the session of spark-submit, or start one. Raises `InputError`.

    `small`: the job ends before Spark's optimizations pay off.
    """
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ
    if not submitted and not _java():
        raise InputError(
            "pipeline needs Java: neither JAVA_HOME nor PATH has it",
            "install a Java runtime that Spark supports, 17 or newer",
        )
    # Workers run this Python, which has our packages, instead of `python3`.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Spark applies filters that it pushed to a Python source to all later uses of the rows; jobs
    # use them more than once.
    settings: dict[str, Any] = {"spark.sql.session.timeZone": "UTC", "spark.sql.python.filterPushdown.enabled": "false"}
    if not submitted:
        settings |= {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower(),
            # Errors are reported in one line. Spark would repeat them, as it does with --conf
            # spark.log.level=ERROR.
            "spark.log.level": "OFF",
            "spark.master": "local[*]",
        }
        if small:
            settings |= _SMALL
            os.environ.setdefault("SPARK_SUBMIT_OPTS", _QUICK_JVM)
    settings |= {"spark.master": master} if master is not None else {}
    settings |= dict(conf)
    builder = SparkSession.builder.appName("quorate pipeline").config(map=settings)
    launcher = _Launcher()
    try:
        with own_interrupts():
            if not submitted:
                launcher.launch(settings)
            session = builder.getOrCreate()
    except PySparkException as error:
        # PySpark only reports that the JVM ended; the JVM wrote the reason to stderr.
        raise InputError(f"Spark does not start: {launcher.reason or _reason(str(error))}") from error
    launcher.is_started = True
    register(session)
    return session


PY4J_LOGGERS = (None, "py4j.clientserver", "py4j.java_gateway")
"""The loggers of which py4j uses any: also the root logger, by `logging.exception`."""


@contextmanager
def own_interrupts() -> Iterator[None]:
    """Keep the handler of Ctrl-C while a context starts, and from then on drop py4j's log messages.

    PySpark's handler calls the JVM, which fails within another call. py4j logs tracebacks of both.
    """
    before = signal.getsignal(signal.SIGINT)
    yield
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGINT, before)
    for name in PY4J_LOGGERS:
        logging.getLogger(name).addFilter(is_not_of_py4j)


def is_not_of_py4j(record: logging.LogRecord) -> bool:
    """Return whether code outside of py4j logged this."""
    return Path(record.pathname).parent.name != "py4j"


class _Launcher:
    """Start of Spark's JVM.

    Buffers the stderr of the JVM while it starts, which no log level silences, and forwards it once
    `is_started` is set.
    """

    def __init__(self) -> None:
        self.is_started = False
        self._buffered = b""

    @property
    def reason(self) -> str:
        """The first line of stderr that is not written at every start."""
        lines = self._buffered.decode("utf-8", "replace").splitlines()
        return next((line for line in lines if line and not _NOISE.match(line)), "")

    def launch(self, settings: Mapping[str, str]) -> None:
        """Start the JVM, unless this process has one, and the context. Raises pyspark's errors."""
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway

        if SparkContext._gateway is not None:
            return
        conf = SparkConf(loadDefaults=False).setAppName("quorate pipeline").setAll(list(settings.items()))
        stderr, writes = os.pipe()
        reader = threading.Thread(target=self._read, args=(stderr,), name="spark-stderr", daemon=True)
        reader.start()
        try:
            gateway = launch_gateway(conf, {"stderr": writes})  # type: ignore[no-untyped-call]  # pyspark's
        except BaseException:
            os.close(writes)
            reader.join(5)
            raise
        os.close(writes)
        SparkContext(conf=conf, gateway=gateway)

    def _read(self, stderr: int) -> None:
        with open(stderr, "rb", buffering=0) as stream:
            while chunk := stream.read(1 << 16):
                if self.is_started:
                    sys.stderr.buffer.write(chunk)
                    sys.stderr.flush()
                else:
                    self._buffered += chunk


def _java() -> str | None:
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=str(Path(home, "bin"))) if home else shutil.which("java")


def read_rows(spark: SparkSession, input_format: str, sources: Sequence[str], options: Mapping[str, str]) -> DataFrame:
    """Return decoded rows: read by our source, or from tables written earlier."""
    reader = spark.read.format(input_format).options(**options)
    if input_format == FORMAT:
        return reader.load(list(sources)) if sources else reader.load()
    found = [reader.load(source) for source in sources]
    whole = found[0]
    for more in found[1:]:
        whole = whole.unionByName(more)
    return whole


def logs_in(rows: DataFrame) -> set[tuple[str, int]]:
    """Return topic and partition of each log in decoded rows. Raises `OptionError`, as jobs do."""
    present_types(rows)
    return {(row["topic"], row["partition"]) for row in rows.select(*LOG).distinct().collect()}


def damage_of(
    spark: SparkSession, input_format: str, sources: Sequence[str], options: Mapping[str, str]
) -> list[tuple[ProblemReason, str]]:
    """Read the sources once more, and return what is damaged in their files, each once.

    Only batches are checked, no records are decoded, as Spark counts no rows that a job leaves out.
    """
    if input_format == FORMAT:
        options = dict(options) | {"types": CONTROL, "columns": "error"}
    rows = read_rows(spark, input_format, sources, options)
    if "error" not in rows.columns:
        return []
    found = rows.where(F.col("error.where") == IN_FILE).select("error.reason", "error.detail").distinct()
    damage = [(ProblemReason(row["reason"]), row["detail"]) for row in found.sort("detail").collect()]
    return [(reason, text) for reason, text in damage if reason not in HARMLESS]


def read_spark_table(spark: SparkSession, path: str) -> DataFrame:
    """Read a table in the format of its suffix. Times without a zone are UTC."""
    form = form_of(path)
    options = {"header": "true", "inferSchema": "true"} if form == "csv" else {}
    return spark.read.format(form).options(**options).load(path)


def write(tables: Mapping[str, DataFrame], place: str, form: str, *, overwrite: bool) -> dict[str, str]:
    """Write a single table to `place`, or several to folders of their names in it.

    Returns the place of each. Nested values become JSON in CSV files. Raises `InputError` for a
    format that this Spark does not have, and for places that exist unless `overwrite` is set.
    """
    if form == "iceberg" and "/" in place:
        raise InputError(
            f"--output {place}: Iceberg has tables in catalogs, not in folders",
            "give the namespace, or for a single table its name, such as --output lake.groups, "
            "and the catalog: --conf spark.sql.catalog.lake=…",
        )
    places = {}
    for name, table in tables.items():
        where = place if len(tables) == 1 else f"{place.rstrip('/')}{'.' if form == 'iceberg' else '/'}{name}"
        try:
            _save(table, where, form, overwrite=overwrite)
        except (PySparkException, Py4JError) as error:
            if "DATA_SOURCE_NOT_FOUND" in str(error):
                raise InputError(
                    f"--format {form}: this Spark has no such format",
                    f"name the package with {form} for this release of Spark: "
                    "--conf spark.jars.packages=GROUP:ARTIFACT:VERSION",
                ) from error
            if "already exist" in str(error):  # each format has its own error condition
                raise InputError(
                    f"{where} already exists", "give --overwrite to replace it, or another --output"
                ) from error
            raise
        places[name] = where
    return places


def _save(table: DataFrame, where: str, form: str, *, overwrite: bool) -> None:
    match form:
        case "iceberg":
            writer = table.writeTo(where).using(form)
            (writer.createOrReplace if overwrite else writer.create)()
            return
        case "csv":
            writing = _flat(table).write.option("header", "true")
        case _:
            writing = table.write
    writing.format(form).mode("overwrite" if overwrite else "errorifexists").save(where)


def _flat(table: DataFrame) -> DataFrame:
    nested = [field.name for field in table.schema if isinstance(field.dataType, ArrayType | MapType | StructType)]
    return table.withColumns({name: F.to_json(name) for name in nested})


@contextmanager
def in_one_line() -> Iterator[None]:
    """Convert errors of Spark to an `InputError` with the reason only."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise InputError(_reason(str(error))) from error


def _reason(text: str) -> str:
    """Return the message of an error.

    Of a Python traceback the last exception, of a Java one the first, else the first line.
    """
    raised = _RAISED.findall(text)
    if raised:
        line: str = raised[-1 if "Traceback (most recent call last)" in text else 0]
    else:
        line = next(iter(text.strip().splitlines()), "Spark failed without a message")
    return _STATE.sub("", _CLASS.sub("", line)).strip()
