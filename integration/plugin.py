"""pytest plugin: Kafka clusters with racks for tests. Loaded by pytest wherever quorate is installed; imports nothing heavy until a fixture is used.

    def test_orders(kafka_cluster, topic, group_id): ...

Fixtures: `kafka_cluster` (one per session), `kafka_cluster_factory`, `topic`, `group_id`. Marker: `kafka_topic(partitions=, replicas=, config=)`.
Options: `pytest --help`, "kafka".
"""

import inspect
import re
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

from quorate.integration.errors import ClusterError

if TYPE_CHECKING:
    from quorate.integration.cluster import Cluster

__all__ = ["RUNTIMES", "group_id", "kafka_cluster", "kafka_cluster_factory", "topic"]

RUNTIMES = ("embedded", "docker")
"""What a cluster can run on: in this process, or real brokers in containers."""

_NO_RACK = "-"


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options, all of which begin with --kafka-."""
    group = parser.getgroup("kafka", "Kafka clusters for tests (quorate)")
    group.addoption(
        "--kafka-runtime",
        choices=RUNTIMES,
        default="embedded",
        help="what clusters run on: in the process of the tests, or real brokers in containers (default: %(default)s)",
    )
    group.addoption("--kafka-version", metavar="VERSION", help="version of Apache Kafka (default: 4.3.1)")
    group.addoption(
        "--kafka-image",
        metavar="IMAGE",
        help="image to run containers from; {version} is replaced (default: QUORATE_KAFKA_IMAGE, or apache/kafka:VERSION)",
    )
    group.addoption("--kafka-brokers", metavar="N", type=int, help="number of brokers (default: one per rack)")
    group.addoption(
        "--kafka-racks",
        metavar="RACKS",
        default="a,b,c",
        help="racks that brokers are put in by turns, separated by commas; - is no rack (default: %(default)s)",
    )


def pytest_configure(config: pytest.Config) -> None:
    """The marker, and peace for suites that take warnings for errors: clusters are asked by kafka-python, whose import warns on Python 3.11 and 3.12."""
    config.addinivalue_line("filterwarnings", "ignore:(open|read)_text is deprecated:DeprecationWarning")
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=6, replicas=1, assignment=None, config=None): what the fixture `topic` creates; arguments of Cluster.create_topic",
    )


@pytest.fixture(scope="session")
def kafka_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., "Cluster"]]:
    """Starts clusters: a function of the arguments of `EmbeddedKafka`, or of `KafkaCluster` with --kafka-runtime docker; those of the command line where none are given.

    All of them end with the session. Both take `racks`, `brokers`, `version`, `properties`, `ports` and `security`.

    A test that wants its cluster gone earlier uses it as a context manager, or calls `close`.
    """
    option = request.config.getoption
    racks = [None if rack == _NO_RACK else rack for rack in str(option("--kafka-racks")).split(",") if rack]
    given = {
        "version": option("--kafka-version"),
        "image": option("--kafka-image"),
        "brokers": option("--kafka-brokers"),
        "racks": racks or [None],
    }
    with ExitStack() as clusters:

        def start(**arguments: Any) -> "Cluster":
            chosen = {**{name: value for name, value in given.items() if value is not None}, **arguments}
            runtime = str(option("--kafka-runtime"))
            made = _runtime(runtime)
            failure = None
            unknown = sorted(chosen.keys() - inspect.signature(made).parameters.keys())
            if unknown and runtime == "embedded":
                failure = f"{', '.join(unknown)} cannot be had of an embedded cluster; run on real brokers: --kafka-runtime docker"
            else:
                try:
                    cluster = made(**chosen)
                except ClusterError as error:
                    failure = str(error)
            if failure is not None:  # not in the handler: pytest would show both, one after the other
                pytest.fail(f"no Kafka cluster: {failure}", pytrace=False)
            clusters.callback(cluster.close)
            return cluster

        yield start


@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory: Callable[..., "Cluster"]) -> "Cluster":
    """A cluster that all tests of the session share, by default three brokers in the racks a, b and c. Undo what you do to its brokers."""
    return kafka_cluster_factory()


@pytest.fixture
def topic(kafka_cluster: "Cluster", request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic, by default with six partitions without copies; the marker `kafka_topic` says otherwise. Deleted after the test."""
    marker = request.node.get_closest_marker("kafka_topic")
    name = _unique(request.node.name)
    arguments: dict[str, Any] = {"partitions": 6}
    failure = None
    if marker is not None:
        arguments |= marker.kwargs
        known = list(inspect.signature(kafka_cluster.create_topic).parameters)[1:]
        if marker.args:
            failure = f"takes no {marker.args[0]!r} without a name: kafka_topic({known[0]}={marker.args[0]!r})"
        unknown = sorted(marker.kwargs.keys() - set(known))
        if unknown:
            failure = f"takes no {', '.join(unknown)}, but {', '.join(known)}"
    if failure is not None:
        pytest.fail(f"the marker kafka_topic {failure}", pytrace=False)
    kafka_cluster.create_topic(name, **arguments)
    yield name
    kafka_cluster.delete_topic(name)


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    """The id of a group that nobody else uses."""
    return _unique(request.node.name)


def _runtime(name: str) -> "type[Cluster]":
    """The class of clusters that a runtime has; imported when it is needed."""
    if name == "embedded":
        from quorate.integration.embedded import EmbeddedKafka

        return EmbeddedKafka
    from quorate.integration.containers import KafkaCluster

    return KafkaCluster


def _unique(test: str) -> str:
    # Kafka allows letters, digits, dots, dashes and underscores, 249 in all; metrics would mix up dots and underscores.
    return f"{re.sub(r'[^A-Za-z0-9-]+', '-', test)[:80].strip('-')}-{uuid.uuid4().hex[:8]}"
