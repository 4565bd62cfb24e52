"""One Spark for all tests of the pipeline, and the captures of real brokers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

CAPTURES = Path(__file__).parent.parent / "data" / "captures"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect tests on embedded clusters; their topics are read by other tests.

    Mark what takes long on Spark, and runs on the local engine.
    """
    for item in items:
        if item.get_closest_marker("long_on_spark") and "[spark" in item.nodeid:
            item.add_marker("long")
    embedded = {item for item in items if item.nodeid.startswith("tests/pipeline/") and "[embedded" in item.name}
    if embedded:
        config.hook.pytest_deselected(items=list(embedded))
        items[:] = [item for item in items if item not in embedded]


@pytest.fixture(scope="session")
def spark(jvm_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> "Iterator[SparkSession]":  # noqa: F821  # imported below, where the environment is set
    """Start a local Spark of two cores, and register the source."""
    from pyspark.sql import SparkSession

    from quorate.pipeline import register

    session = (
        SparkSession.builder.master("local[2,3]")  # on a busy machine, a worker may not connect in 10 s: again
        .appName("quorate-tests")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.warehouse.dir", str(tmp_path_factory.mktemp("warehouse")))  # default: the current folder
        .config("spark.sql.execution.arrow.pyspark.enabled", "true")
        .getOrCreate()
    )
    session.sparkContext.setLogLevel("OFF")
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session", params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> "Engine":  # noqa: F821  # imported below: it needs pyspark
    """Run a test on both engines of jobs."""
    from tests.pipeline.helpers.engines import LocalEngine, SparkEngine

    return LocalEngine() if request.param == "local" else SparkEngine(request.getfixturevalue("spark"))
