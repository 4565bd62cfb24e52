"""Run the own tests of kafka-python or aiokafka with quorate's consumers in place of theirs.

    scripts/client_tests.py CLIENT [--protocol PROTOCOL] [--source FOLDER] [PYTEST_ARGS...]

The tests run against an embedded cluster, by default once in each protocol. Those of kafka-python
are in its sdist, which pip downloads into a temporary folder. aiokafka's sdist has none: `--source`
is a checkout of its repository. Tests that fail for a known reason are listed in
`client_tests_plugin.py`; any other failure, or one of these that passes, fails the run.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

from quorate.cluster import EmbeddedCluster

TESTS = {
    "kafka-python": ("test", ["test/integration/test_consumer_integration.py"]),
    "aiokafka": ("tests", ["tests/test_consumer.py"]),
}
"""The folder of the tests, and the files that run."""

PROPERTIES = {
    "auto.create.topics.enable": "true",
    "group.consumer.assignment.interval.ms": "0",
    "group.consumer.heartbeat.interval.ms": "200",
    "group.consumer.min.heartbeat.interval.ms": "100",
    "group.consumer.min.session.timeout.ms": "1000",
    "group.consumer.session.timeout.ms": "10000",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    "num.partitions": "2",
    "offsets.topic.num.partitions": "4",
}


def fetch(client: str, folder: Path) -> Path:
    """Download and unpack the sdist of the installed version. Raises `SystemExit`."""
    name = f"{client}=={version(client)}"
    command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", client, "-d", folder, name]
    if subprocess.run(command, check=False).returncode:
        raise SystemExit(f"error: pip cannot download the sdist of {name}; see above")
    (archive,) = folder.glob("*.tar.gz")
    with tarfile.open(archive) as sdist:
        sdist.extractall(folder, filter="data")
    (source,) = (path for path in folder.iterdir() if path.is_dir())
    return source


def run(client: str, source: Path, protocol: str, arguments: list[str]) -> bool:
    """Run the tests in one protocol, and return whether the result is as expected."""
    folder, files = TESTS[client]
    print(f"{client} {version(client)}, group_protocol={protocol!r}", flush=True)
    with TemporaryDirectory() as copy, EmbeddedCluster(racks=["a"], properties=PROPERTIES) as cluster:
        tests = Path(copy, folder)
        shutil.copytree(source / folder, tests)
        (tests / "__init__.py").touch()  # otherwise the standard library's package of that name is imported
        if client == "aiokafka":
            (tests / "conftest.py").unlink(missing_ok=True)  # starts containers; the plugin has its fixtures
        environment = {
            **os.environ,
            "KAFKA_ROOT": copy,  # must exist, although nothing is started from it
            "KAFKA_URI": f"kafka://{cluster.bootstrap_servers}",
            "KAFKA_VERSION": cluster.version,
            "PYTHONPATH": os.pathsep.join([copy, str(Path(__file__).parent)]),
            "QUORATE_CLIENT": client,
            "QUORATE_PROTOCOL": protocol,
        }
        command = [sys.executable, "-P", "-m", "pytest", "-c", os.devnull, "--rootdir", copy, "-q", "-rxXfE"]
        command += ["-p", "client_tests_plugin", "-p", "no:cacheprovider", *files, *arguments]
        return subprocess.run(command, cwd=copy, env=environment, check=False).returncode == 0


def main() -> None:
    """Run the tests in one or both protocols."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("client", choices=TESTS)
    parser.add_argument("--protocol", choices=("classic", "consumer"), action="append")
    parser.add_argument("--source", type=Path, help="a folder with the client's source and tests")
    options, arguments = parser.parse_known_args()
    with TemporaryDirectory() as folder:
        source = options.source or fetch(options.client, Path(folder))
        tests = source / TESTS[options.client][0]
        if not tests.is_dir():
            raise SystemExit(f"error: {tests} does not exist; use --source with a checkout of {options.client}")
        results = [
            run(options.client, source, protocol, arguments) for protocol in options.protocol or ("classic", "consumer")
        ]
    sys.exit(0 if all(results) else 1)


if __name__ == "__main__":
    main()
