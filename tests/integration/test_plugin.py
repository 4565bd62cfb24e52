"""The pytest plugin in other projects: an empty folder with tests, and installed packages."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

# What a test author writes; nothing in it knows of this repository.
USER_TEST = """
import pytest
from kafka import KafkaConsumer, KafkaProducer

SEEN = []


@pytest.mark.kafka_topic(partitions=3, replicas=2, config={"retention.ms": 60_000})
def test_orders(kafka_cluster, topic, group_id):
    SEEN.append((kafka_cluster, topic, group_id))
    (made,) = kafka_cluster.topology(topic).topics
    assert made.partitions == 3
    assert all(len(racks) == 2 for racks in made.racks)
    producer = KafkaProducer(**kafka_cluster.client_config)
    producer.send(topic, b"one").get(30)
    producer.close()
    consumer = KafkaConsumer(
        topic,
        **kafka_cluster.client_config,
        group_id=group_id,
        auto_offset_reset="earliest",
        consumer_timeout_ms=300_000,
    )
    assert next(consumer).value == b"one"
    consumer.close()
    keys = [entry.record.key for entry in kafka_cluster.read_offsets_topic()]
    assert group_id in {getattr(key, "group", None) for key in keys}


def test_the_cluster_is_shared_and_names_are_not(kafka_cluster, topic, group_id):
    cluster, other_topic, other_group = SEEN[0]
    assert kafka_cluster is cluster
    assert topic != other_topic
    assert group_id != other_group
    assert other_topic not in kafka_cluster.admin.list_topics()
    assert [(broker.id, broker.rack, broker.version) for broker in kafka_cluster.brokers] == EXPECTED
"""


@pytest.fixture
def project(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return an empty project, without CI's rule against skips."""
    monkeypatch.delenv("CI", raising=False)
    monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)
    return pytester


def first_page() -> str:
    """Return the test in the README."""
    (shown,) = re.findall(r"```python\n(from kafka [^`]*def test_orders[^`]*)```", (ROOT / "README.md").read_text())
    return str(shown)


def given(project: pytest.Pytester, expected: list[tuple[int, str | None, str]]) -> None:
    project.makepyfile(test_orders=USER_TEST.replace("EXPECTED", repr(expected)))


@pytest.fixture(scope="module")
def users_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python environment with pytest and `quorate[testcontainers]` only."""
    home = tmp_path_factory.mktemp("user")
    python = home / "bin" / "python"
    wheels = tmp_path_factory.mktemp("wheels")
    ours = [sys.executable, "-P", "-m"]

    def run(*command: object) -> None:
        done = subprocess.run([*ours, *map(str, command)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout

    run("venv", "--without-pip", home)
    run("build", "--wheel", "--no-isolation", "--outdir", wheels, ROOT)
    (wheel,) = wheels.glob("*.whl")
    # Whatever is imported is compiled then, which is a small part of what is installed.
    pip = ("pip", "--disable-pip-version-check", "--quiet", "--python", python, "install", "--no-compile")
    run(*pip, "--constraint", ROOT / "constraints.txt", "pytest", f"quorate[testcontainers] @ {wheel.as_uri()}")
    return python


@pytest.mark.scenario("pytest plugin in an empty project", versions="3.9.2")
def test_an_empty_project_gets_its_cluster(project: pytest.Pytester, users_python: Path) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\nstrict = true\n")
    given(project, [(1, "x", "3.9.2"), (2, None, "3.9.2")])
    result = project.run(
        users_python, "-m", "pytest", "--kafka-runtime", "docker",
        "--kafka-version", "3.9.2", "--kafka-racks", "x,-", timeout=300,
    )  # fmt: skip
    result.assert_outcomes(passed=2)


def test_the_test_that_the_first_page_shows_passes_in_an_empty_project(
    project: pytest.Pytester, users_python: Path
) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\nstrict = true\n")
    project.makepyfile(test_shown=first_page())
    project.run(users_python, "-m", "pytest", timeout=120).assert_outcomes(passed=1)


@pytest.mark.without_containers
def test_an_empty_project_gets_an_embedded_cluster_without_asking(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\nstrict = true\n")
    given(project, [(1, "x", "4.0.2"), (2, None, "4.0.2")])
    project.makepyfile(test_shown=first_page())
    result = project.runpytest_subprocess("--kafka-version", "4.0.2", "--kafka-racks", "x,-", timeout=60)
    result.assert_outcomes(passed=3)


@pytest.mark.without_containers
def test_what_only_containers_have_is_refused_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_controllers(kafka_cluster_factory):
            kafka_cluster_factory(controllers=1)
        """
    )
    result = project.runpytest_subprocess()
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(
        ["no Kafka cluster: embedded clusters do not support controllers; use Kafka brokers: --kafka-runtime docker"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.without_containers
def test_an_invalid_marker_is_an_error_of_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_topic(3)
        def test_number(topic): ...

        @pytest.mark.kafka_topic(partition=3)
        def test_name(topic): ...
        """
    )
    result = project.runpytest_subprocess("--kafka-racks", "-")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(
        [
            "the marker kafka_topic has no positional argument 3: use kafka_topic(partitions=3)",
            "the marker kafka_topic has no argument partition; "
            "its arguments are partitions, replicas, assignment, config",
        ]
    )
    result.stdout.no_fnmatch_line("*plugin.py*")


@pytest.mark.without_containers
def test_options_are_in_the_help(project: pytest.Pytester) -> None:
    result = project.runpytest_subprocess("--help")
    result.stdout.fnmatch_lines([f"*{option}*" for option in (
        "--kafka-runtime", "--kafka-version", "--kafka-image", "--kafka-brokers", "--kafka-racks",
    )])  # fmt: skip
    result = project.runpytest_subprocess("--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.kafka_topic(*"])


@pytest.mark.without_containers
def test_without_an_engine_a_test_says_so_in_one_line(
    project: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:9")  # nothing listens on the discard port
    given(project, [])
    result = project.runpytest_subprocess("--kafka-runtime", "docker")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["no Kafka cluster: no container engine responds*DOCKER_HOST*"])
    result.stdout.no_fnmatch_line("*another exception occurred*")
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*quorate/integration*")


@pytest.mark.without_containers
def test_a_project_that_uses_no_cluster_pays_nothing(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_light="""
        import sys

        def test_light():
            assert not {"kafka", "docker", "testcontainers", "numpy"} & sys.modules.keys()
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)
