"""Install the wheels in dist/ into empty environments, and use them there (`make dist-check`).

Each Python gets one environment for the core with the accelerator, one without it, and one for each
extra alone, with the versions of constraints.txt. Arguments are commands or paths of Pythons;
without any, python3.11 to python3.14 are looked for, also among the versions of pyenv. Those that
are not found are listed.
"""

import os
import subprocess
import sys
import tomllib
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
LOG = ROOT / "cli" / "demo" / "data" / "kafka-logs"
PYTHONS = ("python3.11", "python3.12", "python3.13", "python3.14")
NOT_FOR_USERS = {"dev", "docs", "release"}
TEST = """
from kafka import KafkaConsumer, KafkaProducer


def test_orders(kafka_cluster, topic, group_id):
    KafkaProducer(**kafka_cluster.client_config).send(topic, b"one").get(10)
    consumer = KafkaConsumer(topic, **kafka_cluster.client_config, group_id=group_id, auto_offset_reset="earliest")
    assert next(consumer).value == b"one"
"""
"""The README's first test."""

USES = {
    "aiokafka": """
from quorate.assignors.adapters.aiokafka import CooperativeSticky, options
assert options(CooperativeSticky(), client_rack="a")["client_rack"] == "a"
""",
    "arrow": """
import pyarrow as pa
from quorate.codecs import decode_columns
keys, values = [bytes.fromhex("0003000167")], [bytes.fromhex("00000000000700")]
batches = decode_columns(pa.array(keys, pa.binary()), pa.array(values, pa.binary()))
assert batches["ConsumerGroupMetadata"]["epoch"].to_pylist() == [7]
""",
    "metrics": """
from urllib.request import urlopen
from quorate.cluster import EmbeddedCluster
from quorate.integration.metrics import serving_http
with EmbeddedCluster() as cluster, serving_http(cluster, "127.0.0.1", 0) as port:
    assert b"quorate_broker_up" in urlopen(f"http://127.0.0.1:{port}/metrics").read()
""",
    "secure": """
from quorate.cluster import EmbeddedCluster
with EmbeddedCluster(security="SASL_SSL") as cluster:
    cluster.create_topic("orders", partitions=1)
""",
    "spark": """
from pyspark.sql import SparkSession
from quorate.pipeline import register
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
register(spark)
rows = spark.read.format("consumer-offsets").load(LOG).count()
assert rows > 0, rows
spark.stop()
""",
    "testcontainers": """
from quorate.integration.containers import KafkaCluster
""",
    "uvloop": """
import uvloop
from quorate.cluster import EmbeddedCluster
with EmbeddedCluster() as cluster:
    assert isinstance(cluster._thread._loop, uvloop.Loop)
""",
    "watch": """
from urllib.request import urlopen
from quorate.watch import Observer
from quorate.watch.outputs import Webhook
from quorate.watch.web import serve
with Observer.of_files(LOG) as observer, serve(observer, port=0) as serving:
    observer.wait_until_caught_up()
    assert b"group_id" in urlopen(f"{serving.url}api/groups").read()
    assert b"quorate_watch" in urlopen(f"{serving.url}metrics").read()
Webhook("http://127.0.0.1:9/").close()
""",
}
"""Extra → code that fails if a package of it is missing; `LOG` is a recorded log directory."""


def main(pythons: list[str]) -> None:
    """Check each Python with each extra, one line each; ends with 1 if anything fails."""
    (pure,) = (ROOT / "dist").glob("*-none-any.whl")
    (native,) = (ROOT / "dist").glob("*-abi3-*.whl")
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    missing_uses = extras.keys() - NOT_FOR_USERS - USES.keys()
    if missing_uses:
        sys.exit(f"error: no use of {', '.join(sorted(missing_uses))}; add one to USES in scripts/check_dist.py")
    failed = checked = 0
    for name in pythons or PYTHONS:
        python, version = find(name)
        if version is None:
            print(f"{name:12} not found on this machine")
            failed += bool(pythons)
            continue
        for wheel, extra in (
            (native, ""),
            (pure, ""),
            *((native, one) for one in sorted(extras.keys() - NOT_FOR_USERS)),
        ):
            problem = check(python, wheel, extra)
            what = f"[{extra}]" if extra else "core, in C" if wheel is native else "core"
            checked += 1
            failed += problem is not None
            print(
                f"{version:12} {what:18} {'ok' if problem is None else 'FAILED'}",
                flush=True,
            )
            if problem is not None:
                print("    " + problem.replace("\n", "\n    "))
    if failed or not checked:
        sys.exit(1)


def check(python: str, wheel: Path, extra: str) -> str | None:
    """Install the wheel with one extra into a new environment, and use it; return a problem."""
    with TemporaryDirectory() as made:
        folder = Path(made)
        script = "Scripts" if os.name == "nt" else "bin"
        run = folder / "env" / script
        constraints = ["--constraint", ROOT / "constraints.txt"]
        install: list[str | Path] = [run / "python", "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        (folder / "test_orders.py").write_text(TEST)
        steps: list[list[str | Path]] = [[python, "-m", "venv", folder / "env"]]
        if extra:
            code = f"LOG = {str(LOG)!r}\n{USES[extra]}"
            steps += [[*install, *constraints, f"{wheel}[{extra}]"], [run / "python", "-c", code]]
        else:
            steps += [
                [*install, *constraints, wheel],
                [run / "quorate", "--version"],
                [
                    run / "python",
                    "-c",
                    f"import quorate.codecs as c; assert c.is_accelerated() is {'abi3' in wheel.name}",
                ],
                [run / "quorate", "decode", LOG, "--type", "ConsumerGroupMetadata", "--limit", "3"],
                [run / "quorate", "demo"],
                [*install, *constraints, "pytest"],
                [run / "python", "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"],
            ]
        environment = {name: value for name, value in os.environ.items() if name not in {"PYTHONPATH", "VIRTUAL_ENV"}}
        environment["PYSPARK_PYTHON"] = str(run / "python")
        for step in steps:
            done = subprocess.run(
                step, cwd=folder, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
            )
            if done.returncode != 0:
                return f"{' '.join(map(str, step))}\n{done.stdout.strip()}"
    return None


def find(name: str) -> tuple[str, str | None]:
    """Return a command for a Python and its version; `None` if there is none that runs."""
    root = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    minor = name.removeprefix("python")
    for python in (name, *map(str, sorted(root.glob(f"versions/{minor}.*/bin/python3"), reverse=True))):
        try:
            done = subprocess.run([python, "--version"], capture_output=True, text=True)
        except OSError:
            continue
        if done.returncode == 0:
            return python, done.stdout.split()[1]
    return name, None


if __name__ == "__main__":
    main(sys.argv[1:])
