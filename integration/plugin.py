"""pytest plugin: Kafka clusters with racks for tests.

Loaded by pytest wherever quorate is installed; imports nothing heavy until a fixture is used.

    def test_orders(kafka_cluster, topic, group_id): ...

Fixtures: `kafka_cluster` (one per session), `kafka_cluster_factory`, `topic`, `group_id`. Marker:
`kafka_topic(partitions=, replicas=, config=)`. Options: `pytest --help`, "quorate".

A project keeps its own names. Fixtures of these names in a test module or conftest.py replace ours,
as pytest has it. An option such as --kafka-version belongs to the project, or to the other plugin,
that defines it; ours is then --quorate-version alone.
"""

import copy
import inspect
import re
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from quorate.cluster.interface import Cluster

__all__ = ["RUNTIMES", "group_id", "kafka_cluster", "kafka_cluster_factory", "topic"]

RUNTIMES = ("embedded", "docker")
"""What a cluster can run on: in this process, or real brokers in containers."""

OPTIONS = ("runtime", "version", "image", "brokers", "racks")
"""Each is an option of both names, `--quorate-…` and `--kafka-…`."""

_NO_RACK = "-"
_SHORT_NAMES = pytest.StashKey[list[str]]()
"""The options whose --kafka- names are ours in this run."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """The options.

    Only the names that no other plugin or project has are registered: pytest does not start with
    two options of the same name.
    """
    group = parser.getgroup(
        "quorate", "quorate (Kafka clusters for tests); each option is also --kafka-…, if that is not taken"
    )
    group.addoption(
        "--quorate-runtime",
        choices=RUNTIMES,
        default="embedded",
        help="what clusters run on: in the process of the tests, or real brokers in containers (--kafka-runtime; default: %(default)s)",
    )
    group.addoption(
        "--quorate-version", metavar="VERSION", help="version of Apache Kafka (--kafka-version; default: 4.3.1)"
    )
    group.addoption(
        "--quorate-image",
        metavar="IMAGE",
        help="image to run containers from; {version} is replaced (--kafka-image; default: QUORATE_KAFKA_IMAGE, or apache/kafka:VERSION)",
    )
    group.addoption(
        "--quorate-brokers", metavar="N", type=int, help="number of brokers (--kafka-brokers; default: one per rack)"
    )
    group.addoption(
        "--quorate-racks",
        metavar="RACKS",
        default="a,b,c",
        help="racks that brokers are put in by turns, separated by commas; - is no rack (--kafka-racks; default: %(default)s)",
    )


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Read --kafka-… as --quorate-… where nobody else has that option, which is known once the project's conftest.py is loaded."""
    # Where to look for a conftest.py depends on which arguments are paths, and "docker" after
    # --kafka-runtime is none.
    with suppress(pytest.UsageError):  # what is wrong with them is reported when all options are known
        known = parser.parse_known_args(_with_long_names(args, OPTIONS), namespace=copy.copy(early_config.option))
        early_config.known_args_namespace.file_or_dir = known.file_or_dir
    yield
    early_config.stash[_SHORT_NAMES] = free = [name for name in OPTIONS if not _is_known(parser, f"--kafka-{name}")]
    args[:] = _with_long_names(args, free)


def _with_long_names(args: Sequence[str], names: Collection[str]) -> list[str]:
    """The arguments with --quorate-NAME in the place of --kafka-NAME."""
    end = args.index("--") if "--" in args else len(args)
    short = re.compile(rf"--kafka-({'|'.join(names)})(=.*)?", re.DOTALL)
    return [
        f"--quorate-{found[1]}{found[2] or ''}" if names and (found := short.fullmatch(arg)) else arg
        for arg in map(str, args[:end])
    ] + list(args[end:])


def _is_known(parser: pytest.Parser, option: str) -> bool:
    """Whether a plugin or conftest.py has the option."""
    try:
        _, unknown = parser.parse_known_and_unknown_args([f"{option}=1"])
    except pytest.UsageError:  # it takes no value, or another one
        return True
    return bool(not unknown)


def pytest_configure(config: pytest.Config) -> None:
    """The marker, the options by their other names, and no warning from kafka-python, whose import warns on Python 3.11 and 3.12."""
    for name in config.stash.get(_SHORT_NAMES, []):
        # `getoption` takes an option that it does not know for an attribute.
        setattr(config.option, f"--kafka-{name}", config.getoption(f"--quorate-{name}"))
    config.addinivalue_line("filterwarnings", "ignore:(open|read)_text is deprecated:DeprecationWarning")
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=6, replicas=1, assignment=None, config=None): what the fixture `topic` creates; arguments of Cluster.create_topic",
    )


@pytest.fixture(scope="session")
def kafka_cluster_factory(request: pytest.FixtureRequest) -> Iterator[Callable[..., "Cluster"]]:
    """Starts clusters: a function of the arguments of `EmbeddedCluster`, with `TEST_PROPERTIES`, or of `KafkaCluster` with --quorate-runtime docker; those of the command line where none are given.

    All of them end with the session. Both take `racks`, `brokers`, `version`, `properties`, `ports`
    and `security`.

    A test that wants its cluster gone earlier uses it as a context manager, or calls `close`.
    """
    option = request.config.getoption
    racks = [None if rack == _NO_RACK else rack for rack in str(option("--quorate-racks")).split(",") if rack]
    given = {
        "version": option("--quorate-version"),
        "image": option("--quorate-image"),
        "brokers": option("--quorate-brokers"),
        "racks": racks or [None],
    }
    from quorate.codecs.errors import QuorateError

    with ExitStack() as clusters:

        def start(**arguments: Any) -> "Cluster":
            chosen = {**{name: value for name, value in given.items() if value is not None}, **arguments}
            runtime = str(option("--quorate-runtime"))
            failure = None
            unknown = _lacking(chosen) if runtime == "embedded" else []
            if unknown:
                names = ", ".join(unknown)
                spelled = (
                    "--kafka-runtime"
                    if "runtime" in request.config.stash.get(_SHORT_NAMES, [])
                    else "--quorate-runtime"
                )
                failure = f"{names} cannot be had of an embedded cluster; run on real brokers: {spelled} docker"
            else:
                try:
                    cluster = (_embedded if runtime == "embedded" else _docker)(clusters, **chosen)
                except QuorateError as error:
                    failure = str(error)
            if failure is not None:  # not in the handler: pytest would show both, one after the other
                pytest.fail(f"no Kafka cluster: {failure}", pytrace=False)
            return cluster

        yield start


@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory: Callable[..., "Cluster"]) -> "Cluster":
    """A cluster that all tests of the session share, by default three brokers in the racks a, b and c.

    Undo what you do to its brokers.
    """
    return kafka_cluster_factory()


@pytest.fixture
def topic(kafka_cluster: "Cluster", request: pytest.FixtureRequest) -> Iterator[str]:
    """The name of a new topic, by default with six partitions without copies; the marker `kafka_topic` says otherwise.

    Deleted after the test.
    """
    if not hasattr(kafka_cluster, "create_topic") or not hasattr(kafka_cluster, "delete_topic"):
        found = type(kafka_cluster).__name__
        pytest.fail(
            f"the fixture `topic` of quorate needs a cluster of quorate, but `kafka_cluster` is a {found} here; "
            "define `topic` next to your `kafka_cluster`, or name that otherwise",
            pytrace=False,
        )
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


def _embedded(clusters: ExitStack, *, properties: Mapping[str, object] | None = None, **options: Any) -> "Cluster":
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.interface import TEST_PROPERTIES

    cluster = clusters.enter_context(EmbeddedCluster(properties={**TEST_PROPERTIES, **(properties or {})}, **options))
    cluster.wait_ready()
    return cluster


def _docker(clusters: ExitStack, **options: Any) -> "Cluster":
    from quorate.integration.containers import KafkaCluster

    return clusters.enter_context(KafkaCluster(**options))


def _lacking(options: Collection[str]) -> list[str]:
    """Those options that embedded clusters do not have."""
    from quorate.cluster.embedded import EmbeddedCluster

    return sorted(set(options) - inspect.signature(EmbeddedCluster).parameters.keys())


def _unique(test: str) -> str:
    # Kafka allows letters, digits, dots, dashes and underscores, 249 in all; metrics would mix up
    # dots and underscores.
    return f"{re.sub(r'[^A-Za-z0-9-]+', '-', test)[:80].strip('-')}-{uuid.uuid4().hex[:8]}"
