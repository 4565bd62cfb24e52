"""Both engines of the pipeline's jobs, and the captures of real brokers."""

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


@pytest.fixture(scope="session", params=["local", "spark"])
def engine(request: pytest.FixtureRequest) -> "Engine":  # noqa: F821  # imported below: it needs pyspark
    """Run a test on both engines of jobs."""
    from tests.pipeline.helpers.engines import LocalEngine, SparkEngine

    return LocalEngine() if request.param == "local" else SparkEngine(request.getfixturevalue("spark"))
