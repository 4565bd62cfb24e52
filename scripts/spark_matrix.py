"""Run the pipeline's tests on each supported release of Spark (`make test-spark-matrix`).

The results are written to docs/how-to/spark.md. Each release has its own virtual environment,
build/spark/RELEASE, with the versions of constraints.txt except for pyspark. The releases are
`LINES`, the pinned one, and the newest that pip finds. Arguments, such as `4.0 pinned`, select
releases; the table is written from the reports of the last runs. The exit status is 1 if a test
failed.

On one release, tests also run with Spark's Kafka source, Delta and Iceberg (`CONNECTED`), whose
jars Maven fetches; on another one, tests run over Spark Connect (`REMOTE`).
"""

import argparse
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "spark"
PAGE = ROOT / "docs" / "how-to" / "spark.md"
BEGIN, END = "<!-- releases -->\n", "<!-- end of releases -->"

LINES = ("4.0", "4.1")
"""Older minor releases, with their newest patch release."""
PINNED, NEWEST = "pinned", "newest"
RELEASES = (*LINES, PINNED, NEWEST)

CONNECTED = "4.0"
"""The release for which Spark's Kafka source, Delta and Iceberg exist in the versions of
connectors.xml.
"""
CONNECTORS = ROOT / "tests" / "pipeline" / "connectors.xml"
JARS = FOLDER / "connectors"
MAVEN = (
    "mvn",
    "-q",
    "-B",
    "-f",
    str(CONNECTORS),
    "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies",
)

REMOTE = NEWEST
"""The release whose environment has the packages for Spark Connect."""
OVER_CONNECT = ROOT / "tests" / "pipeline" / "over_connect.py"

NOT_PINNED = ("pyspark", "py4j")
EXTRAS = "arrow,secure,spark,uvloop"
TOOLS = ("confluent-kafka", "hypothesis", "pytest", "pytest-rerunfailures", "pytest-xdist", "sybil")
SHOWN = ("pyspark", "pyarrow", "pandas")

SINCE = {
    "4.1": "`pushFilters`",
    "4.2": "`maxOffsetsPerTrigger`",
}
"""Release → options that older releases do not have. Their tests use `importorskip("pyspark",
minversion=...)`.
"""


@dataclass
class Outcome:
    """The result of the tests on a release."""

    versions: list[str]
    day: str
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    left_out: set[str] = field(default_factory=set)


def main() -> int:
    """Run the tests, print a line for each release, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("releases", nargs="*", choices=[*RELEASES, []], help="default: all")
    parser.add_argument("--table", action="store_true", help="run nothing: write the table from the last runs")
    arguments = parser.parse_args()
    for release in arguments.releases or RELEASES:
        if not arguments.table:
            _install(release)
            _run(release)
    outcomes = {release: _outcome(release, _report(release)) for release in RELEASES if _report(release).exists()}
    for release, outcome in outcomes.items():
        print(f"{release}: pyspark {outcome.versions[0]}: {outcome.passed} passed, {len(outcome.failed)} failed")
        print("".join(f"  {test}\n" for test in outcome.failed), end="")
    before, _, rest = PAGE.read_text("utf-8").partition(BEGIN)
    text = "\n" + _table([*outcomes.values()]) + "\n"
    if _report(f"{CONNECTED}-connectors").exists():
        connected = outcomes["connectors"] = _outcome(CONNECTED, _report(f"{CONNECTED}-connectors"))
        text += _sentence(connected) + "\n\n"
        print(f"connectors: {connected.passed} passed, failed: {', '.join(connected.failed) or 'none'}")
    if _report(f"{REMOTE}-connect").exists():
        remote = outcomes["connect"] = _outcome(REMOTE, _report(f"{REMOTE}-connect"))
        text += (
            f"On Spark {remote.versions[0]}, `tests/pipeline/over_connect.py` also ran in a session of Spark Connect "
            f"({remote.day}): {_result(remote)}.\n\n"
        )
        print(f"over Spark Connect: {remote.passed} passed, failed: {', '.join(remote.failed) or 'none'}")
    page = before + BEGIN + text + END + rest.partition(END)[2]
    PAGE.write_text(page, "utf-8")
    return int(any(outcome.failed for outcome in outcomes.values()))


def _report(release: str) -> Path:
    return FOLDER / f"{release}.xml"


def _python(release: str) -> str:
    return str(FOLDER / release / "bin" / "python")


def _install(release: str) -> None:
    """Create or update the environment of a release."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    pins = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    constraints = FOLDER / f"{release}.txt"
    name = "pyspark[connect]" if release == REMOTE else "pyspark"
    wanted = f"{name}=={release}.*" if release in LINES else name
    kept = [pin for pin in pins if release == PINNED or not pin.startswith(tuple(f"{name}==" for name in NOT_PINNED))]
    constraints.write_text("\n".join(kept), "utf-8")
    if not Path(_python(release)).exists():
        subprocess.run([sys.executable, "-P", "-m", "venv", FOLDER / release], check=True)
    pip = [_python(release), "-P", "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--upgrade"]
    pip += ["--constraint", str(constraints)]
    subprocess.run([*pip, "setuptools"], check=True)
    subprocess.run([*pip, "--no-build-isolation", "--editable", f"{ROOT}[{EXTRAS}]", wanted, *TOOLS], check=True)
    if release == CONNECTED:
        subprocess.run([*MAVEN, f"-DoutputDirectory={JARS}"], check=True)


def _run(release: str) -> None:
    """Run the tests, which write reports."""
    print(f"== {release}", flush=True)
    _pytest(release, _report(release), "tests/pipeline")
    if release == CONNECTED:
        _pytest(release, _report(f"{release}-connectors"), str(CONNECTORS.with_suffix(".py")))
    if release == REMOTE:
        _pytest(release, _report(f"{release}-connect"), str(OVER_CONNECT))


def _pytest(release: str, report: Path, tests: str) -> None:
    report.unlink(missing_ok=True)
    pytest = str(FOLDER / release / "bin" / "pytest")
    command = [pytest, "--hypothesis-profile", "full", "-m", "not fuzz and not containers", "-p", "no:cacheprovider"]
    command += ["--ignore", "tests/pipeline/test_source_docs.py"]  # it checks the table that this script writes
    done = subprocess.run([*command, f"--junitxml={report}", tests], cwd=ROOT, check=False)
    if done.returncode not in (0, 1):  # interrupted or failed to start: the report is not complete
        report.unlink(missing_ok=True)


def _outcome(release: str, report: Path) -> Outcome:
    """Return the result in a report, with the versions of the environment."""
    code = f"from importlib.metadata import version; print(*map(version, {SHOWN}))"
    versions = subprocess.run([_python(release), "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    suite = next(ET.parse(report).iter("testsuite"))
    outcome = Outcome(versions.split(), suite.attrib["timestamp"][:10])
    for case in suite.iter("testcase"):
        name = f"{case.attrib['classname']}::{case.attrib['name']}"
        skipped = case.find("skipped")
        if skipped is not None:
            reason = f"{skipped.attrib.get('message', '')} {skipped.text or ''}"
            outcome.left_out.add(
                next((what for since, what in SINCE.items() if f"required is: '{since}'" in reason), f"`{name}`")
            )
        elif case.find("failure") is not None or case.find("error") is not None:
            outcome.failed.append(name)
        else:
            outcome.passed += 1
    return outcome


def _table(outcomes: list[Outcome]) -> str:
    """Return the table, with a single row if the pinned release is the newest."""
    rows = ["| Spark | pyarrow, pandas | tests | what the release does not have | run on |", "|---|---|---|---|---|"]
    for outcome in {outcome.versions[0]: outcome for outcome in outcomes}.values():
        spark, *others = outcome.versions
        tests = f"{outcome.passed} pass" + (f", **{len(outcome.failed)} fail**" if outcome.failed else "")
        missing = ", ".join(sorted(outcome.left_out)) or "–"
        rows.append(f"| {spark} | {', '.join(others)} | {tests} | {missing} | {outcome.day} |")
    if not _report(PINNED).exists():
        pins = (ROOT / "constraints.txt").read_text("utf-8").split()
        (pinned,) = (pin.removeprefix("pyspark==") for pin in pins if pin.startswith("pyspark=="))
        rows.append(f"| {pinned} | | run by `make test` | | |")
    return "\n".join([*rows[:2], *sorted(rows[2:])]) + "\n"


def _sentence(connected: Outcome) -> str:
    """Return a sentence about the tests with connectors."""
    found = ET.parse(CONNECTORS).getroot()
    spark, delta, iceberg = (one.text for one in found.find("{*}properties") or ())
    return (
        f"On Spark {connected.versions[0]}, `tests/pipeline/connectors.py` also ran with Spark's own Kafka source "
        f"{spark}, Delta {delta} and Iceberg {iceberg} ({connected.day}): {_result(connected)}."
    )


def _result(outcome: Outcome) -> str:
    return f"{outcome.passed} tests pass" if not outcome.failed else f"**{len(outcome.failed)} tests fail**"


if __name__ == "__main__":
    sys.exit(main())
