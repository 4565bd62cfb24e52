"""The pytest plugin in a project of a user."""

import hashlib
import re
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[2]

# Tests as a user writes them. They import nothing of this repository.
USER_TEST = """
import pytest
from kafka import KafkaConsumer, KafkaProducer

SEEN = []


@pytest.mark.kafka_topic(partitions=3, replicas=2, config={"retention.ms": 60_000})
def test_orders(kafka_cluster, topic, group_id):
    SEEN.append((kafka_cluster, topic, group_id))
    (described,) = kafka_cluster.topology(topic).topics
    assert described.partitions == 3
    assert all(len(racks) == 2 for racks in described.racks)
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


class Imported:
    """A plugin for runs of pytest in this process. It keeps modules that they import first.

    pytester removes them after a run, and after a test. But numpy cannot be imported again, and
    quorate's modules would have other classes.
    """

    def __init__(self) -> None:
        self.begin("")

    def begin(self, folder: str) -> None:
        """Begin with a project, whose own modules stay removed."""
        self._folder = folder
        self._modules: dict[str, ModuleType] = {}

    def pytest_unconfigure(self) -> None:
        self._modules |= sys.modules

    def put_back(self) -> None:
        for name, module in self._modules.items():
            if name not in sys.modules and not str(getattr(module, "__file__", "")).startswith(self._folder):
                sys.modules[name] = module


IMPORTED = Imported()


@pytest.fixture
def imported() -> Iterator[Imported]:
    yield IMPORTED
    IMPORTED.put_back()


@pytest.fixture
def project(imported: Imported, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> pytest.Pytester:
    """Return an empty project, in which tests may be skipped even in CI.

    `imported` comes first: its end is after that of `pytester`.
    """
    monkeypatch.delenv("CI", raising=False)
    # Importing Hypothesis takes a fifth of a run.
    monkeypatch.setenv("PYTEST_ADDOPTS", "-p no:hypothesispytest")
    imported.begin(str(pytester.path))
    return pytester


def run(project: pytest.Pytester, *arguments: str) -> pytest.RunResult:
    """Run pytest in this process, whose start takes longer than the tests of most projects."""
    result = project.runpytest_inprocess(*arguments, plugins=[IMPORTED])
    IMPORTED.put_back()
    return result


@pytest.mark.without_containers
def test_a_run_in_this_process_keeps_modules_of_libraries_only(project: pytest.Pytester) -> None:
    project.makepyfile(of_the_project="", test_one="import of_the_project, wave\n\ndef test_one(): ...")
    run(project).assert_outcomes(passed=1)
    assert "wave" in sys.modules
    assert "of_the_project" not in sys.modules


def readme_test() -> str:
    """Return the test in the README."""
    (example,) = re.findall(r"```python\n(from kafka [^`]*def test_orders[^`]*)```", (ROOT / "README.md").read_text())
    return str(example)


def write_tests(project: pytest.Pytester, expected: list[tuple[int, str | None, str]]) -> None:
    """Write `USER_TEST`. `expected`: id, rack and version of each broker."""
    project.makepyfile(test_orders=USER_TEST.replace("EXPECTED", repr(expected)))


@pytest.fixture(scope="module")
def user_python(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a Python environment with pytest and `quorate[testcontainers]` only.

    pip installs the requirements again (8 s of CPU time) after they or their pinned versions have
    changed. Each run builds and installs quorate.
    """
    wheels = tmp_path_factory.mktemp("wheels")

    def run(*arguments: object) -> None:
        command = (sys.executable, "-P", "-m", *map(str, arguments))
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        assert done.returncode == 0, done.stdout

    def install(home: Path, *arguments: object) -> None:
        # Without compilation, which takes long: Python compiles the few modules that are imported.
        options = ("--python", home / "bin" / "python", "install", "--no-compile")
        run("pip", "--disable-pip-version-check", "--quiet", *options, *arguments)

    run("build", "--wheel", "--no-isolation", "--skip-dependency-check", "--outdir", wheels, ROOT)
    (wheel,) = wheels.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        (metadata,) = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        required = Parser().parsestr(archive.read(metadata).decode()).get_all("Requires-Dist")
    pins = ROOT / "constraints.txt"
    depends_on = repr((required, pins.read_text(), sys.version, sys.base_prefix))
    home = ROOT / "build" / "user" / hashlib.sha256(depends_on.encode()).hexdigest()
    if not home.exists():
        shutil.rmtree(home.parent, ignore_errors=True)
        partial = home.parent / "partial"
        run("venv", "--without-pip", partial)
        install(partial, "--constraint", pins, "pytest", f"quorate[testcontainers] @ {wheel.as_uri()}")
        partial.rename(home)
    install(home, "--no-deps", "--no-index", "--force-reinstall", wheel)
    return home / "bin" / "python"


@pytest.mark.scenario("pytest plugin in an empty project", versions="3.9.2")
def test_empty_project_uses_brokers_in_containers(project: pytest.Pytester, user_python: Path) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\nstrict = true\n")
    write_tests(project, [(1, "x", "3.9.2"), (2, None, "3.9.2")])
    result = project.run(
        user_python, "-m", "pytest", "--kafka-runtime", "docker",
        "--kafka-version", "3.9.2", "--kafka-racks", "x,-", timeout=300,
    )  # fmt: skip
    result.assert_outcomes(passed=2)


def test_example_of_the_readme_passes_in_an_empty_project(project: pytest.Pytester, user_python: Path) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\nstrict = true\n")
    project.makepyfile(test_readme=readme_test())
    project.run(user_python, "-m", "pytest", timeout=120).assert_outcomes(passed=1)


@pytest.mark.without_containers
def test_empty_project_uses_an_embedded_cluster_by_default(project: pytest.Pytester) -> None:
    project.makeini("[pytest]\nfilterwarnings = error\nstrict = true\n")
    write_tests(project, [(1, "x", "4.0.2"), (2, None, "4.0.2")])
    project.makepyfile(test_readme=readme_test())
    result = project.runpytest_subprocess("--kafka-version", "4.0.2", "--kafka-racks", "x,-", timeout=60)
    result.assert_outcomes(passed=3)


USES_PLUG_IN = """
import pytest
from confluent_kafka import Consumer

@pytest.fixture(scope="session", params=["local-first", "local_first:LocalFirst"])
def kafka_cluster(kafka_cluster_factory, request):
    often = {"group.consumer.heartbeat.interval.ms": 500, "group.consumer.min.heartbeat.interval.ms": 100}
    return kafka_cluster_factory(properties={"group.consumer.assignors": request.param, **often})

@pytest.mark.kafka_topic(assignment=[[1], [2], [3], [1], [2], [3]])
def test_members_get_local_partitions(kafka_cluster, topic, group_id):
    consumers = [
        Consumer(
            {
                "bootstrap.servers": kafka_cluster.bootstrap_servers,
                "group.id": group_id,
                "group.protocol": "consumer",
                "group.remote.assignor": "local-first",
                "client.rack": rack,
            }
        )
        for rack in "abc"
    ]
    for consumer in consumers:
        consumer.subscribe([topic])
    assigned = None
    while assigned != [[0, 3], [1, 4], [2, 5]]:
        for consumer in consumers:
            consumer.poll(0.1)
        assigned = [sorted(at.partition for at in consumer.assignment()) for consumer in consumers]
    for consumer in consumers:
        consumer.close()
"""


@pytest.mark.without_containers
def test_a_group_uses_the_assignor_of_a_project_by_entry_point_and_by_path(project: pytest.Pytester) -> None:
    page = (ROOT / "docs" / "how-to" / "server-assignors.md").read_text()
    (plug_in,) = re.findall(r"```python\n# local_first.py\n(.*?)```", page, re.DOTALL)
    assert len(plug_in.split("\n\n")[1].splitlines()) <= 11
    project.makepyfile(local_first=plug_in, test_local=USES_PLUG_IN)
    installed = project.mkdir("local_first-1.0.dist-info")
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: local-first\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[quorate.server_assignors]\nlocal-first = local_first:LocalFirst\n")
    project.runpytest_subprocess(timeout=300).assert_outcomes(passed=2)


@pytest.mark.without_containers
@pytest.mark.usefixtures("no_engine")
@pytest.mark.parametrize("prefix", ["", "my_"])
def test_tests_of_clusters_run_on_several_runtimes(project: pytest.Pytester, prefix: str) -> None:
    project.makeini(f"[pytest]\nkafka_fixture_prefix = {prefix}\n")
    project.makepyfile(
        test_runtimes=f"""
        def test_with_a_cluster({prefix}kafka_runtime, {prefix}kafka_cluster):
            assert {prefix}kafka_runtime == "embedded"

        def test_without_a_cluster(): ...
        """
    )
    result = run(project, "-v", "--kafka-runtime", "embedded,docker")
    result.assert_outcomes(passed=2, errors=1)
    result.stdout.fnmatch_lines_random(
        [
            "*::test_with_a_cluster?embedded? PASSED*",
            "*::test_with_a_cluster?docker? ERROR*",
            "*::test_without_a_cluster *",
        ]
    )
    result = run(project, "-v")
    result.assert_outcomes(passed=2)


@pytest.mark.without_containers
@pytest.mark.parametrize("given", ["podman", "embedded,", "docker,docker"])
def test_an_unknown_runtime_is_reported_in_one_line(project: pytest.Pytester, given: str) -> None:
    result = run(project, "--kafka-runtime", given)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([f"*--quorate-runtime: '{given}': use embedded, docker, or embedded,docker"])


@pytest.mark.without_containers
def test_arguments_for_containers_are_rejected_for_embedded_clusters_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        def test_controllers(kafka_cluster_factory):
            kafka_cluster_factory(controllers=1)

        def test_misspelt(kafka_cluster_factory):
            kafka_cluster_factory(rack=["a"])
        """
    )
    result = run(project)
    result.assert_outcomes(failed=2)
    result.stdout.fnmatch_lines(["no Kafka cluster: unknown parameter rack; use brokers, racks, *"])
    result.stdout.fnmatch_lines(
        ["no Kafka cluster: embedded clusters do not support controllers; use Kafka brokers: --kafka-runtime docker"]
    )
    result.stdout.no_fnmatch_line("*Traceback*")


@pytest.mark.without_containers
def test_invalid_marker_is_reported_in_one_line(project: pytest.Pytester) -> None:
    project.makepyfile(
        """
        import pytest

        @pytest.mark.kafka_topic(3)
        def test_number(topic): ...

        @pytest.mark.kafka_topic(partition=3)
        def test_name(topic): ...
        """
    )
    result = run(project, "--kafka-racks", "-")
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
def test_a_test_may_delete_its_topic(project: pytest.Pytester) -> None:
    project.makepyfile("def test_deletes(kafka_cluster, topic): kafka_cluster.delete_topic(topic)")
    run(project, "--kafka-racks", "-").assert_outcomes(passed=1)


@pytest.mark.without_containers
def test_options_are_in_the_help(project: pytest.Pytester) -> None:
    result = run(project, "--help")
    result.stdout.fnmatch_lines([f"*{option}*" for option in (
        "--kafka-runtime", "--kafka-version", "--kafka-image", "--kafka-brokers", "--kafka-racks",
    )])  # fmt: skip
    result = run(project, "--markers")
    result.stdout.fnmatch_lines(["@pytest.mark.kafka_topic(*"])


@pytest.mark.without_containers
@pytest.mark.usefixtures("no_engine")
def test_missing_container_engine_is_reported_in_one_line(project: pytest.Pytester) -> None:
    write_tests(project, [])
    result = run(project, "--kafka-runtime", "docker")
    result.assert_outcomes(errors=2)
    result.stdout.fnmatch_lines(["no Kafka cluster: no container engine responds*DOCKER_HOST*"])
    result.stdout.no_fnmatch_line("*another exception occurred*")
    result.stdout.no_fnmatch_line("*Traceback*")
    result.stdout.no_fnmatch_line("*quorate/integration*")


@pytest.mark.without_containers
def test_project_without_clusters_imports_no_clients(project: pytest.Pytester) -> None:
    project.makepyfile(
        test_light="""
        import sys

        def test_light():
            assert not {"kafka", "docker", "testcontainers", "numpy"} & sys.modules.keys()
        """
    )
    project.runpytest_subprocess().assert_outcomes(passed=1)
