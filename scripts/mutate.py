"""Mutation testing of the coordinator's core (`make mutate`): tells which changes of its code the tests do not notice.

mutmut wants to find a package's files where its modules are looked for, which ours are not
(pyproject.toml, package-dir). So this makes a tree that is laid out as the package is, below
build/mutation, and runs mutmut there; what is mutated, and which tests are to notice, is said in
pyproject.toml ([tool.mutmut]). No Java is needed. Survivors are printed as diffs, apart from those
that docs/contributing/mutants.md explains; ends with 1 if there are any.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "mutation"
EXPLAINED = ROOT / "docs" / "contributing" / "mutants.md"
NOTICED = ("killed", "timeout", "caught by type check", "segfault")


def main() -> int:
    """Run mutmut; print the survivors that nobody has explained."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("mutants", nargs="*", help="only these, such as 'quorate.coordinator.consumer.reconcile.*'")
    parser.add_argument("--show", action="store_true", help="show the survivors of the last run again")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    if not options.show:
        _lay_out()
        _mutmut("run", "--max-children", str(options.jobs), *options.mutants)
    found = dict(re.findall(r"^\s*(\S+): (.+)$", _mutmut("results", "--all", "true", quiet=True), re.MULTILINE))
    counts = Counter(found.values())
    print(f"{len(found)} mutants:", ", ".join(f"{count} {status}" for status, count in counts.most_common()))
    survivors = [name for name, status in found.items() if status not in (*NOTICED, "not checked")]
    explained = EXPLAINED.read_text("utf-8")
    left = [(name, diff) for name, diff in _diffs(survivors) if _change(diff) not in explained]
    for name, diff in left:
        print(f"\n{name}: {found[name]}\n{_change(diff)}")
    print(f"{len(survivors)} survivors, {len(left)} of them not explained in {EXPLAINED.relative_to(ROOT)}")
    return 1 if left else 0


def _diffs(mutants: Sequence[str]) -> Iterator[tuple[str, str]]:
    """What `mutmut show` tells, without a process for each."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    os.chdir(TREE)
    for name in mutants:
        yield name, get_diff_for_mutant(name)


def _change(diff: str) -> str:
    """The lines that a mutant takes out and puts in, as they stand in the page."""
    lines = [line[0] + " " + line[1:].strip() for line in diff.splitlines() if re.match(r"[+-](?![+-])", line)]
    return "\n".join(lines)


def _lay_out() -> None:
    """The package as it is imported, its tests, and what is left of the last run's results (mutmut tests again what has changed since)."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for room, folder in setup["tool"]["setuptools"]["package-dir"].items():
        _copy(ROOT / folder, TREE / Path(*room.split(".")))
    for folder in ("tests", "docs"):
        _copy(ROOT / folder, TREE / folder)
    shutil.copy2(ROOT / "pyproject.toml", TREE)
    for folder in ("tests", "docs"):
        shutil.rmtree(TREE / "mutants" / folder, ignore_errors=True)
    # Which test runs which function: mutmut would ask new tests only about functions that are new
    # since.
    (TREE / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "target", "*.java"))


def _mutmut(*arguments: str, quiet: bool = False) -> str:
    command = [str(ROOT / ".venv/bin/mutmut"), *arguments]
    # The same examples for each mutant, and nothing that another run of the tests found.
    environment = {**os.environ, "CI": "true", "HYPOTHESIS_STORAGE_DIRECTORY": str(TREE / ".hypothesis")}
    done = subprocess.run(
        command, cwd=TREE, env=environment, stdout=subprocess.PIPE if quiet else None, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
