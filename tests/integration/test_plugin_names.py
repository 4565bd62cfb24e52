"""Projects and plugins with options, markers and fixtures of the same names as quorate's plugin."""

import pytest

from tests.integration.test_plugin import project

__all__ = ["project"]

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
    result = project.runpytest_subprocess("-s", *args, timeout=60)
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
    project.runpytest_subprocess("--help").stdout.fnmatch_lines(["*--quorate-version=VERSION*"])


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


def test_options_of_a_conftest_that_pytest_loads_late(project: pytest.Pytester) -> None:
    """A conftest.py in a deeper folder is loaded late: its options have their defaults."""
    project.mkpydir("deep")
    project.mkpydir("deep/below").joinpath("conftest.py").write_text(OPTION)
    project.path.joinpath("deep/below/test_deep.py").write_text(
        "def test_deep(request):\n    assert request.config.getoption('--kafka-version') == 'theirs'\n"
    )
    project.runpytest_subprocess(timeout=60).assert_outcomes(passed=1)


def test_the_plugin_has_the_short_names_that_no_other_plugin_has(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert values(project, "--kafka-version", "4.0.2", "--kafka-racks=x,-") == ["4.0.2", "4.0.2", "x,-"]
    monkeypatch.setenv("PYTEST_ADDOPTS", "--kafka-version 3.9.2")
    project.makeini("[pytest]\naddopts = --kafka-racks q\n")
    assert values(project) == ["3.9.2", "3.9.2", "q"]
    result = project.runpytest_subprocess("--kafka-brokers", "many")
    result.stderr.fnmatch_lines(["*argument --quorate-brokers: invalid int value: 'many'*"])


def test_the_value_of_an_option_is_not_taken_for_a_folder(project: pytest.Pytester) -> None:
    """A project with a folder `docker` that has a conftest.py of its own."""
    project.mkdir("docker").joinpath("conftest.py").write_text("raise SystemExit('loaded')")
    project.makepyfile("def test_one(): ...")
    project.runpytest_subprocess("--kafka-runtime", "docker", "--ignore=docker").assert_outcomes(passed=1)


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
    project.runpytest_subprocess("-n", "1", "-p", "xdist", *given, timeout=60).assert_outcomes(passed=1)


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
    project.runpytest_subprocess().assert_outcomes(passed=1)


def test_the_fixture_topic_with_a_cluster_of_the_project_reports_the_remedy(project: pytest.Pytester) -> None:
    project.makeconftest("import pytest\n\n@pytest.fixture\ndef kafka_cluster():\n    return 'localhost:9092'\n")
    project.makepyfile("def test_one(topic): ...")
    result = project.runpytest_subprocess()
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
    project.runpytest_subprocess(timeout=60).assert_outcomes(passed=1)


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
    project.runpytest_subprocess().assert_outcomes(passed=1)
