"""Projects and plugins with options, markers and fixtures of the same names as quorate's plugin.

pytest runs in this process, except where a test is about imported modules.
"""

import pytest

from tests.integration.test_plugin import imported, project, run

__all__ = ["imported", "project"]

pytestmark = pytest.mark.without_containers

OPTION = """
def pytest_addoption(parser):
    parser.addoption("--kafka-version", default="theirs", help="of the project")
"""
OPTION_IN_A_GROUP = """
def pytest_addoption(parser):
    parser.getgroup("kafka").addoption("--kafka-version", dest="kafka_version", default="theirs")
"""
FLAG = """
def pytest_addoption(parser):
    parser.addoption("--kafka-version", action="store_const", const="flag", default="theirs")
"""
NUMBER = """
def pytest_addoption(parser):
    parser.addoption("--kafka-version", type=int, default=7)
"""


def values(project: pytest.Pytester, *args: str) -> list[str]:
    """Return both options as a test sees them, and the arguments with which a cluster starts."""
    project.makepyfile(
        test_values="""
        def test_values(request, kafka_cluster_factory):
            option = request.config.getoption
            print("SEEN", option("--kafka-version"), option("--quorate-version"), option("--kafka-racks"))
        """
    )
    result = run(project, "-s", *args)
    result.assert_outcomes(passed=1)
    (line,) = [line for line in result.outlines if "SEEN" in line]
    return line.split("SEEN ")[1].split()[:3]


@pytest.mark.parametrize("conftest", [OPTION, OPTION_IN_A_GROUP])
def test_an_option_of_the_project_stays_its_own(project: pytest.Pytester, conftest: str) -> None:
    """Issue 14: pytest did not start."""
    project.makeconftest(conftest)
    assert values(project) == ["theirs", "None", "a,b,c"]
    given = ["--kafka-version", "1", "--quorate-version=4.0.2", "--kafka-racks", "x,-"]
    assert values(project, *given) == ["1", "4.0.2", "x,-"]
    run(project, "--help").stdout.fnmatch_lines(["*--quorate-version=VERSION*"])


def test_an_option_of_the_project_may_be_a_flag_or_a_number(project: pytest.Pytester) -> None:
    project.makeconftest(FLAG)
    assert values(project, "--kafka-version") == ["flag", "None", "a,b,c"]
    project.makeconftest(NUMBER)
    assert values(project, "--kafka-version", "8") == ["8", "None", "a,b,c"]


@pytest.mark.parametrize("order", [["theirs", "pytest_quorate"], ["pytest_quorate", "theirs"]])
def test_another_plugin_may_be_loaded_first_or_last(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, order: list[str]
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.makepyfile(theirs=OPTION)
    project.syspathinsert()
    plugins = [word for name in order for word in ("-p", name)]
    assert values(project, *plugins, "--kafka-version=1", "--quorate-version", "4.0.2") == ["1", "4.0.2", "a,b,c"]


@pytest.mark.parametrize("prefix", ["", "kafka_fixture_prefix = a_"])
@pytest.mark.parametrize("later", ["theirs", "pytest_quorate"])
def test_a_fixture_of_the_plugin_that_is_loaded_later_is_used(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, later: str, prefix: str
) -> None:
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    project.makepyfile(theirs="import pytest\n\n@pytest.fixture\ndef group_id():\n    return 'theirs'\n")
    used = "theirs" if later == "theirs" or prefix else "test-one-*"
    project.makepyfile(
        f"from fnmatch import fnmatch\n\ndef test_one(group_id):\n    assert fnmatch(group_id, {used!r}), group_id\n"
    )
    project.makeini(f"[pytest]\n{prefix}\n")
    project.syspathinsert()
    plugins = ["theirs", "pytest_quorate"] if later == "pytest_quorate" else ["pytest_quorate", "theirs"]
    run(project, "-p", plugins[0], "-p", plugins[1]).assert_outcomes(passed=1)


def test_options_of_a_conftest_that_pytest_loads_late(project: pytest.Pytester) -> None:
    """A conftest.py in a deeper folder is loaded late: its options have their defaults."""
    project.mkpydir("deep")
    project.mkpydir("deep/below").joinpath("conftest.py").write_text(OPTION)
    project.path.joinpath("deep/below/test_deep.py").write_text(
        "def test_deep(request):\n    assert request.config.getoption('--kafka-version') == 'theirs'\n"
    )
    run(project).assert_outcomes(passed=1)


def test_the_plugin_has_the_short_names_that_no_other_plugin_has(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert values(project, "--kafka-version", "4.0.2", "--kafka-racks=x,-") == ["4.0.2", "4.0.2", "x,-"]
    monkeypatch.setenv("PYTEST_ADDOPTS", "--kafka-version 3.9.2")
    project.makeini("[pytest]\naddopts = --kafka-racks q\n")
    assert values(project) == ["3.9.2", "3.9.2", "q"]
    result = run(project, "--kafka-brokers", "many")
    result.stderr.fnmatch_lines(["*argument --quorate-brokers: invalid int value: 'many'*"])


def test_the_value_of_an_option_is_not_taken_for_a_folder(project: pytest.Pytester) -> None:
    """A project with a folder `docker` that has a conftest.py of its own."""
    project.mkdir("docker").joinpath("conftest.py").write_text("raise SystemExit('loaded')")
    project.makepyfile("def test_one(): ...")
    run(project, "--kafka-runtime", "docker", "--ignore=docker").assert_outcomes(passed=1)


def test_other_processes_have_the_same_options(project: pytest.Pytester) -> None:
    project.makeconftest(OPTION)
    project.makepyfile(
        """
        def test_values(request):
            option = request.config.getoption
            values = option("--kafka-version"), option("--quorate-version"), option("--kafka-racks")
            assert values == ("1", "4.0.2", "q")
        """
    )
    given = ["--kafka-version", "1", "--quorate-version", "4.0.2", "--kafka-racks", "q"]
    run(project, "-n", "1", "-p", "xdist", *given).assert_outcomes(passed=1)


def test_fixtures_of_the_project_override_those_of_the_plugin(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture
        def topic():
            return "their topic"

        @pytest.fixture
        def group_id():
            return "their group"

        @pytest.fixture(scope="module")
        def kafka_cluster():
            return "their cluster"
        """
    )
    project.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_topic("whatever they like", size=3)
        def test_all(topic, group_id, kafka_cluster):
            assert (topic, group_id, kafka_cluster) == ("their topic", "their group", "their cluster")
        """
    )
    run(project).assert_outcomes(passed=1)


PREFIXED = """
import pytest
from kafka import KafkaConsumer, KafkaProducer


@pytest.fixture
def topic():
    return "of the project"


@pytest.mark.kafka_topic(partitions=3)
def test_prefixed(quorate_kafka_cluster, quorate_topic, quorate_group_id, topic, request):
    assert topic == "of the project"
    assert len(quorate_kafka_cluster.topology(quorate_topic).topics[0].racks) == 3
    KafkaProducer(**quorate_kafka_cluster.client_config).send(quorate_topic, b"one").get(10)
    assert quorate_topic.startswith("test-prefixed-")
    assert quorate_group_id.startswith("test-prefixed-")
    with pytest.raises(pytest.FixtureLookupError):
        request.getfixturevalue("kafka_cluster")


def test_another_cluster(quorate_kafka_cluster_factory, quorate_kafka_cluster):
    with quorate_kafka_cluster_factory(racks=["q"]) as kafka:
        assert kafka.bootstrap_servers != quorate_kafka_cluster.bootstrap_servers
"""


@pytest.mark.parametrize("arguments", [[], ["-n", "1", "-p", "xdist"]])
def test_a_prefix_renames_the_fixtures(project: pytest.Pytester, arguments: list[str]) -> None:
    project.makeini("[pytest]\nstrict = true\nkafka_fixture_prefix = quorate_\n")
    project.makepyfile(PREFIXED)
    run(project, *arguments).assert_outcomes(passed=2)


def test_a_fixture_with_a_prefix_can_be_overridden(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nkafka_fixture_prefix = quorate_\n")
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def quorate_kafka_cluster(quorate_kafka_cluster_factory):
            return quorate_kafka_cluster_factory(racks=["q"])
        """
    )
    project.makepyfile(
        """
        def test_one(quorate_kafka_cluster, quorate_topic):
            assert [broker.rack for broker in quorate_kafka_cluster.brokers] == ["q"]
            assert quorate_topic in quorate_kafka_cluster.admin.list_topics()
        """
    )
    run(project).assert_outcomes(passed=1)


@pytest.mark.parametrize("prefix", ["", "kafka_fixture_prefix = quorate_"])
def test_the_list_of_fixtures_describes_those_of_the_plugin(project: pytest.Pytester, prefix: str) -> None:
    project.makeini(f"[pytest]\n{prefix}\n")
    result = run(project, "--fixtures")
    name = "quorate_topic" if prefix else "topic"
    result.stdout.re_match_lines([f"{name} -- .*plugin.py:.*", "    Create a topic, and yield its name.*"])
    if prefix:
        result.stdout.no_re_match_line("topic -- ")


def test_a_prefix_that_no_name_can_have_is_an_error(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nkafka_fixture_prefix = my-\n")
    project.makepyfile("def test_one(): ...")
    result = run(project)
    result.stderr.fnmatch_lines(["ERROR: kafka_fixture_prefix = my-: *; for example: kafka_fixture_prefix = quorate_"])


def test_the_plugin_is_disabled_by_its_name(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import sys

        import pytest

        def test_one(request):
            assert not [name for name in sys.modules if name.startswith("quorate.")]
            for name in ("kafka_cluster", "kafka_cluster_factory", "topic", "group_id"):
                with pytest.raises(pytest.FixtureLookupError):
                    request.getfixturevalue(name)
        """
    )
    project.runpytest_subprocess("-p", "no:quorate").assert_outcomes(passed=1)
    help_text = project.runpytest_subprocess("-p", "no:quorate", "--help").stdout
    help_text.no_fnmatch_line("*--quorate-version*")


def test_the_plugin_imports_little_of_quorate(project: pytest.Pytester) -> None:
    """A project that does not use Kafka pays for three small modules."""
    project.makepyfile(
        """
        import sys

        def test_one():
            found = {name for name in sys.modules if name.startswith(("quorate", "pytest_quorate"))}
            modules = {"", ".integration", ".integration.plugin", ".integration.simulated_tests"}
            assert found <= {"pytest_quorate", *("quorate" + name for name in modules)}
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_fixture_topic_with_a_cluster_of_the_project_reports_the_remedy(project: pytest.Pytester) -> None:
    project.makeconftest("import pytest\n\n@pytest.fixture\ndef kafka_cluster():\n    return 'localhost:9092'\n")
    project.makepyfile("def test_one(topic): ...")
    result = run(project)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["the fixture `topic` of quorate needs a cluster of quorate, but `kafka_cluster` is a str here; *"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


def test_the_fixture_topic_uses_a_quorate_cluster_of_the_project(project: pytest.Pytester) -> None:
    project.makeconftest(
        """
        import pytest

        @pytest.fixture(scope="session")
        def kafka_cluster(kafka_cluster_factory):
            return kafka_cluster_factory(racks=["q"])
        """
    )
    project.makepyfile(
        """
        def test_one(kafka_cluster, topic):
            assert [broker.rack for broker in kafka_cluster.brokers] == ["q"]
            assert topic in kafka_cluster.admin.list_topics()
        """
    )
    run(project).assert_outcomes(passed=1)


def test_a_marker_of_the_project_of_the_same_name(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nstrict = true\nmarkers = kafka_topic(name): of the project\n")
    project.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_topic("orders")
        def test_one(request):
            assert request.node.get_closest_marker("kafka_topic").args == ("orders",)
        """
    )
    run(project).assert_outcomes(passed=1)
