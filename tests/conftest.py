"""What holds for every test: hypothesis profiles, and no skips in CI.

Fixtures belong to the folder of the tests that use them.
"""

import contextlib
import gc
import logging
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings

# pytester: tests of our plugin run pytest in other projects.
pytest_plugins = ["pytester", "tests.long", "tests.loops", "tests.reruns", "tests.sharing_out", "tests.of_group"]

FULL, USUAL = 100, 25
"""Examples of a property without `max_examples` of its own (tests/extent.py)."""

CI = os.environ.get("CI", "").lower() == "true"

# No deadlines: generating and shrinking records takes longer on a loaded machine. CI repeats the
# same examples, so that a failure is due to the change; developers' machines and `make fuzz` try
# new ones.
settings.register_profile("developer", deadline=None, max_examples=USUAL)
settings.register_profile("ci", deadline=None, max_examples=USUAL, derandomize=True, print_blob=True)
settings.register_profile("full", deadline=None, max_examples=FULL)
settings.load_profile("ci" if CI else "developer")

# It warns of each task that a busy machine delays, hundreds of times in the log of a failure.
logging.getLogger("kafka.net.selector").setLevel(logging.ERROR)

# Tests interrupt commands that they start. A shell that starts pytest in the background makes it
# ignore SIGINT, and its children inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# For each JVM of Spark that a test starts, in any process. It lives for seconds or minutes, too
# short for the optimizing compiler to pay off. Without that compiler, the code cache has 48 MB by
# default, and Java removes and compiles methods again, a sixth of the JVM's CPU time.
SPARK_CLASSES = Path(__file__).parent / "pipeline" / "target" / "spark.jsa"  # tests/pipeline/helpers/archive.py
QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC -XX:MetaspaceSize=256m"
if SPARK_CLASSES.exists():
    QUICK_JVM += f" -XX:SharedArchiveFile={SPARK_CLASSES} -Xlog:cds*=off"  # of another release's jars, Java would warn
INTERPRETED = {"spark.sql.codegen.wholeStage": "false", "spark.sql.codegen.factoryMode": "NO_CODEGEN"}
WORKER_PATH = Path(__file__).parent / "pipeline" / "worker_path"
os.environ["PYSPARK_SUBMIT_ARGS"] = (
    f"--conf 'spark.driver.defaultJavaOptions={QUICK_JVM}' --conf spark.python.daemon.module=spark_daemon"
    f" --conf 'spark.executorEnv.PYTHONPATH={WORKER_PATH}' pyspark-shell"
)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect no garbage among modules and 12,000 tests, which all stay.

    Simulations collect garbage when they start, which takes half a second with all of these. Full
    collections become rare, as they took 4 % of a worker's time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        young, middle, _ = gc.get_threshold()
        gc.set_threshold(young, middle, 1_000)


@pytest.fixture
def thawed() -> Iterator[None]:
    """Let a simulation freeze all objects itself, so that only its own count as its memory."""
    gc.unfreeze()
    yield
    gc.freeze()


@pytest.hookimpl(tryfirst=True)  # before pytest applies -m
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark tests that use an oracle, so that `-m "not oracle"` deselects all that need Java."""
    for item in items:
        if {"oracle", "oracle_4_3", "oracle_4_0"} & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.oracle)


@pytest.fixture
def no_engine(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let no container engine respond, although a test of this process may have used one."""
    from quorate.integration.containers.engine import engine

    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")  # nothing listens on the discard port
    engine.cache_clear()
    yield
    engine.cache_clear()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Turn skips into failures in CI, where a missing JVM or jar would otherwise go unnoticed."""
    report = yield
    if not hasattr(report, "wasxfail"):
        _fail_if_skipped(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Do the same for whole modules (`pytest.importorskip`)."""
    report = yield
    _fail_if_skipped(report)
    return report


@pytest.fixture
def pytester(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Run pytest in other projects without unused plugins, which double its CPU time."""
    unused = ("hypothesispytest", "anyio", "platformdirs", "pytest_cov")
    monkeypatch.setenv("PYTEST_ADDOPTS", " ".join(f"-p no:{name}" for name in unused))
    return pytester


@pytest.fixture(scope="session")
def jvm_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Start the JVM in which each Spark of this process runs, in an empty folder.

    A JVM keeps to its folder. The configs with which it starts are defaults of each Spark in it.

    Each query runs once, on few rows: code generation takes more time than it saves. The page of
    the Spark report runs the jobs with code generation.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark import SparkConf, SparkContext

    folder = tmp_path_factory.mktemp("jvm")
    defaults = INTERPRETED | {
        "spark.driver.memory": "2g",
        # The places of columns in errors of Spark cost ten calls of the JVM each; no test checks
        # them. The first Spark of a process decides.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    with contextlib.chdir(folder):
        SparkContext._ensure_initialized(conf=SparkConf().setAll([*defaults.items()]))
    return folder


@pytest.fixture(scope="session")
def spark(jvm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":  # noqa: F821  # imported below, where the environment is set
    """Start a local Spark of two cores, and register the source.

    Pages of the documentation have other sessions in the same Spark, which take over the configs of
    the builder, but not those of this session.
    """
    from pyspark.sql import SparkSession

    from quorate.pipeline import register

    session = (
        SparkSession.builder.master("local[2,3]")  # on a busy machine, a worker may not connect in 10 s: again
        .appName("quorate-tests")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))  # default: the current folder
        .getOrCreate()
    )
    session.conf.set("spark.sql.session.timeZone", "UTC")
    session.conf.set("spark.sql.execution.arrow.pyspark.enabled", "true")
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture
def own_spark(jvm_folder: Path) -> Iterator[Path]:
    """Stop the Spark of other tests, and then that of this one, whose configs end with it."""
    _stop_spark()
    yield jvm_folder
    _stop_spark()


def _stop_spark() -> None:
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    if session is not None:
        session.stop()


def _fail_if_skipped(report: pytest.TestReport | pytest.CollectReport) -> None:
    if CI and report.skipped:
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longreprtext
        report.outcome = "failed"
        report.longrepr = f"{report.nodeid}: nothing may be skipped in CI (CI=true), but this was: {reason}"
