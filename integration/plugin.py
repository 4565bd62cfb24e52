"""pytest plugin: Kafka clusters with racks for tests.

Loaded by pytest wherever quorate is installed; imports nothing heavy until a fixture is used.

    def test_orders(kafka_cluster, topic, group_id): ...

Fixtures: `kafka_cluster` (one per session), `kafka_cluster_factory`, `kafka_runtime`, `topic`,
`group_id`, `observer`, `simulation`. Markers: `kafka_topic(partitions=, replicas=, config=)`,
`simulate(seeds=)`. Options: `pytest --help`, "quorate".

A project's own names take precedence. Fixtures with these names in a test module or conftest.py
override those of the plugin; the ini option `kafka_fixture_prefix` gives the plugin's other names.
If the project or another plugin defines an option such as --kafka-version, the plugin has
--quorate-version only. `-p no:quorate` disables the plugin.
"""

import argparse
import copy
import functools
import inspect
import re
import uuid
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal, cast

import pytest

from quorate.integration.simulated_tests import MARKER, add_options, call_simulated, simulation

if TYPE_CHECKING:
    from quorate.cluster.interface import Cluster
    from quorate.watch import Observer

__all__ = [
    "RUNTIMES",
    "group_id",
    "kafka_cluster",
    "kafka_cluster_factory",
    "kafka_runtime",
    "observer",
    "simulation",
    "topic",
]

RUNTIMES = ("embedded", "docker")
"""Runtimes of clusters: in this process, or Kafka brokers in containers."""

OPTIONS = ("runtime", "version", "image", "brokers", "racks")
"""Each is an option with two names, `--quorate-…` and `--kafka-…`."""

PREFIX = "kafka_fixture_prefix"
"""Option of pytest's configuration file: what the names of the fixtures begin with."""

_SCOPES: Mapping[str, Literal["session", "function"]] = {
    "kafka_runtime": "session",
    "kafka_cluster_factory": "session",
    "kafka_cluster": "session",
    "topic": "function",
    "group_id": "function",
    "observer": "function",
    "simulation": "function",
}
"""The fixtures, and how long each value is used."""

_FIXTURES = "quorate-fixtures"
"""Name of the plugin that has the fixtures only."""

_NO_RACK = "-"
_SHORT_NAMES = pytest.StashKey[list[str]]()
"""Options whose --kafka- names the plugin has in this run."""


def pytest_addoption(parser: pytest.Parser, pluginmanager: pytest.PytestPluginManager) -> None:
    """Register the options by their --quorate- names.

    The --kafka- names are not registered, because another plugin or the project may define them.
    The plugin for fixtures is registered here, because plugins that are loaded later override
    fixtures. Its fixtures are set when their names are known.
    """
    pluginmanager.register(ModuleType("quorate_fixtures", __doc__), _FIXTURES)
    parser.addini(
        PREFIX, "prefix of the names of quorate's fixtures: with quorate_ they are quorate_topic, ...", default=""
    )
    group = parser.getgroup(
        "quorate", "quorate (Kafka clusters for tests); each option is also --kafka-…, if nothing else defines that"
    )
    group.addoption(
        "--quorate-runtime",
        metavar="RUNTIME",
        type=_runtimes,
        default=RUNTIMES[0],
        help="run clusters in the process of the tests (embedded), or as Kafka brokers in containers (docker); "
        "embedded,docker runs each test on both (--kafka-runtime; default: %(default)s)",
    )
    group.addoption(
        "--quorate-version",
        metavar="VERSION",
        help="version of Apache Kafka (--kafka-version; default: 4.4.0, in containers 4.3.1)",
    )
    group.addoption(
        "--quorate-image",
        metavar="IMAGE",
        help="image of containers; {version} is replaced "
        "(--kafka-image; default: QUORATE_KAFKA_IMAGE, or apache/kafka:VERSION)",
    )
    group.addoption(
        "--quorate-brokers", metavar="N", type=int, help="number of brokers (--kafka-brokers; default: one per rack)"
    )
    group.addoption(
        "--quorate-racks",
        metavar="RACKS",
        default="a,b,c",
        help="comma-separated racks of the brokers, round-robin; - is no rack (--kafka-racks; default: %(default)s)",
    )
    add_options(group)


def _runtimes(given: str) -> str:
    """Check a comma-separated list of runtimes. Raises `ArgumentTypeError`."""
    names = given.split(",")
    unknown = [name for name in names if name not in RUNTIMES]
    if unknown or len(names) > len(set(names)):
        raise argparse.ArgumentTypeError(f"{given!r}: use embedded, docker, or embedded,docker")
    return given


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_load_initial_conftests(
    early_config: pytest.Config, parser: pytest.Parser, args: list[str]
) -> Generator[None, None, None]:
    """Replace --kafka-… with --quorate-…, unless the project or another plugin has the option.

    That is known once the project's conftest.py is loaded.
    """
    # pytest searches for conftest.py in arguments that are paths; "docker" after --kafka-runtime is
    # not one.
    with suppress(pytest.UsageError):  # reported later, when all options are known
        known = parser.parse_known_args(_with_long_names(args, OPTIONS), namespace=copy.copy(early_config.option))
        early_config.known_args_namespace.file_or_dir = known.file_or_dir
    yield
    early_config.stash[_SHORT_NAMES] = free = [name for name in OPTIONS if not _is_known(parser, f"--kafka-{name}")]
    args[:] = _with_long_names(args, free)


def _with_long_names(args: Sequence[str], names: Collection[str]) -> list[str]:
    """Return the arguments with --quorate-NAME instead of --kafka-NAME."""
    end = args.index("--") if "--" in args else len(args)
    short = re.compile(rf"--kafka-({'|'.join(names)})(=.*)?", re.DOTALL)
    return [
        f"--quorate-{found[1]}{found[2] or ''}" if names and (found := short.fullmatch(arg)) else arg
        for arg in map(str, args[:end])
    ] + list(args[end:])


def _is_known(parser: pytest.Parser, option: str) -> bool:
    """Return whether a plugin or conftest.py has the option."""
    try:
        _, unknown = parser.parse_known_and_unknown_args([f"{option}=1"])
    except pytest.UsageError:  # it takes no value, or another one
        return True
    return bool(not unknown)


def pytest_configure(config: pytest.Config) -> None:
    """Register the fixtures, the marker and the options' other names.

    Also filter a warning of kafka-python, whose import warns on Python 3.11 and 3.12.
    """
    runtimes = str(config.getoption("--quorate-runtime")).split(",")
    _define_fixtures(config.pluginmanager.get_plugin(_FIXTURES), str(config.getini(PREFIX)), runtimes)
    for name in config.stash.get(_SHORT_NAMES, []):
        # For an unknown option, `getoption` returns the attribute with that name.
        setattr(config.option, f"--kafka-{name}", config.getoption(f"--quorate-{name}"))
    config.addinivalue_line("filterwarnings", "ignore:(open|read)_text is deprecated:DeprecationWarning")
    config.addinivalue_line(
        "markers",
        "kafka_topic(partitions=6, replicas=1, assignment=None, config=None): "
        "arguments of Cluster.create_topic for the fixture `topic`",
    )
    config.addinivalue_line("markers", MARKER)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test with the marker `simulate` under many schedules; leave others to pytest."""
    return call_simulated(pyfuncitem) or None


def _define_fixtures(plugin: object, prefix: str, runtimes: Sequence[str]) -> None:
    """Set the fixtures of a plugin, with a prefix. Raises `UsageError`.

    With several runtimes each test that uses a cluster has a parameter.
    """
    if not (prefix + "topic").isidentifier():
        raise pytest.UsageError(f"{PREFIX} = {prefix}: fixtures need names of Python; for example: {PREFIX} = quorate_")
    for name, scope in _SCOPES.items():
        definition: Any = globals()[name]
        params = runtimes if name == "kafka_runtime" and len(runtimes) > 1 else None
        if prefix or params:
            function = _with_prefix(definition.__wrapped__, prefix)
            definition = pytest.fixture(scope=scope, name=prefix + name, params=params)(function)
        setattr(plugin, name, definition)


def _with_prefix(function: Callable[..., Any], prefix: str) -> Callable[..., Any]:
    """Return the function of a fixture with the prefix for the fixtures that it requests."""
    parameters = inspect.signature(function).parameters.values()
    names = {
        parameter.name if parameter.name == "request" else prefix + parameter.name: parameter.name
        for parameter in parameters
    }

    def arguments(given: Mapping[str, Any]) -> dict[str, Any]:
        return {names[name]: value for name, value in given.items()}

    def call(**given: Any) -> Any:
        return function(**arguments(given))

    def generate(**given: Any) -> Any:
        yield from function(**arguments(given))

    renamed: Any = functools.wraps(function)(generate if inspect.isgeneratorfunction(function) else call)
    kind = inspect.Parameter.KEYWORD_ONLY
    renamed.__signature__ = inspect.Signature([inspect.Parameter(name, kind) for name in names])
    return cast("Callable[..., Any]", renamed)


@pytest.fixture(scope="session")
def kafka_runtime(request: pytest.FixtureRequest) -> str:
    """Return the runtime of the clusters of a test: "embedded" or "docker"."""
    return str(getattr(request, "param", request.config.getoption("--quorate-runtime")))


@pytest.fixture(scope="session")
def kafka_cluster_factory(request: pytest.FixtureRequest, kafka_runtime: str) -> Iterator[Callable[..., "Cluster"]]:
    """Return a function that starts a cluster, which is stopped at the end of the session.

    It has the arguments of `EmbeddedCluster` (with `TEST_PROPERTIES`), or of `KafkaCluster` with
    --quorate-runtime docker. The defaults are those of the command line. Both clusters have
    `racks`, `brokers`, `version`, `properties`, `ports` and `security`.

    To stop a cluster earlier, use it as a context manager, or call `close`.
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
            failure = None
            unsupported = _unsupported(chosen, kafka_runtime)
            if unknown := _unsupported(unsupported, "docker"):
                failure = f"unknown parameter {', '.join(unknown)}; use {', '.join(_parameters(kafka_runtime))}"
            elif unsupported:
                names = ", ".join(unsupported)
                flag = (
                    "--kafka-runtime"
                    if "runtime" in request.config.stash.get(_SHORT_NAMES, [])
                    else "--quorate-runtime"
                )
                failure = f"embedded clusters do not support {names}; use Kafka brokers: {flag} docker"
            else:
                try:
                    cluster = (_embedded if kafka_runtime == "embedded" else _docker)(clusters, **chosen)
                except QuorateError as error:
                    failure = str(error)
            if failure is not None:  # not in the handler: pytest would show both exceptions
                pytest.fail(f"no Kafka cluster: {failure}", pytrace=False)
            return cluster

        yield start


@pytest.fixture(scope="session")
def kafka_cluster(kafka_cluster_factory: Callable[..., "Cluster"]) -> "Cluster":
    """Return a cluster that all tests of the session share.

    By default it has three brokers in the racks a, b and c. Undo changes of its brokers.
    """
    return kafka_cluster_factory()


@pytest.fixture
def topic(kafka_cluster: "Cluster", request: pytest.FixtureRequest) -> Iterator[str]:
    """Create a topic, and yield its name. It is deleted after the test, if it still exists.

    It has six partitions with one replica, unless the marker `kafka_topic` changes that.
    """
    if not hasattr(kafka_cluster, "create_topic") or not hasattr(kafka_cluster, "delete_topic"):
        found = type(kafka_cluster).__name__
        pytest.fail(
            f"the fixture `topic` of quorate needs a cluster of quorate, but `kafka_cluster` is a {found} here; "
            f"define `topic` next to your `kafka_cluster`, or rename quorate's fixtures: {PREFIX} = quorate_",
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
            failure = f"has no positional argument {marker.args[0]!r}: use kafka_topic({known[0]}={marker.args[0]!r})"
        unknown = sorted(marker.kwargs.keys() - set(known))
        if unknown:
            failure = f"has no argument {', '.join(unknown)}; its arguments are {', '.join(known)}"
    if failure is not None:
        pytest.fail(f"the marker kafka_topic {failure}", pytrace=False)
    kafka_cluster.create_topic(name, **arguments)
    yield name
    from kafka.errors import UnknownTopicOrPartitionError

    with suppress(UnknownTopicOrPartitionError):  # the test has deleted it
        kafka_cluster.delete_topic(name)


@pytest.fixture
def group_id(request: pytest.FixtureRequest) -> str:
    """Return a unique group id."""
    return _unique(request.node.name)


@pytest.fixture
def observer(kafka_cluster: "Cluster") -> "Iterator[Observer]":
    """Yield an observer of the cluster's groups, which has read all existing records."""
    from quorate.watch import Observer

    with Observer(**kafka_cluster.client_config) as found:
        found.wait_until_caught_up()
        yield found


def _embedded(clusters: ExitStack, *, properties: Mapping[str, object] | None = None, **options: Any) -> "Cluster":
    from quorate.cluster.embedded import EmbeddedCluster
    from quorate.cluster.interface import TEST_PROPERTIES

    cluster = clusters.enter_context(EmbeddedCluster(properties={**TEST_PROPERTIES, **(properties or {})}, **options))
    cluster.wait_ready()
    return cluster


def _docker(clusters: ExitStack, **options: Any) -> "Cluster":
    from quorate.integration.containers import KafkaCluster

    return clusters.enter_context(KafkaCluster(**options))


def _unsupported(options: Collection[str], runtime: str) -> list[str]:
    """Return the options that clusters of a runtime do not have."""
    return sorted(set(options).difference(_parameters(runtime))) if options else []


def _parameters(runtime: str) -> Collection[str]:
    if runtime == "embedded":
        from quorate.cluster.embedded import EmbeddedCluster

        return inspect.signature(EmbeddedCluster).parameters
    from quorate.integration.containers import KafkaCluster

    return inspect.signature(KafkaCluster).parameters


def _unique(test: str) -> str:
    # Kafka allows letters, digits, dots, dashes and underscores, at most 249. Dots and underscores
    # collide in metric names.
    return f"{re.sub(r'[^A-Za-z0-9-]+', '-', test)[:80].strip('-')}-{uuid.uuid4().hex[:8]}"
