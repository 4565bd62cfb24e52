"""Mutation testing of the coordinator's core (`make mutate`): prints mutants that survive.

mutmut expects files in the layout of the modules, which the repository does not have
(pyproject.toml, package-dir). So this script creates a tree with that layout in build/mutation, and
runs mutmut there. pyproject.toml ([tool.mutmut]) configures what is mutated, and which tests run.
No Java is needed. Survivors that docs/contributing/mutants.md does not explain are printed as
diffs; the exit status is 1 if there are any.
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
DETECTED = ("killed", "timeout", "caught by type check", "segfault")


def main() -> int:
    """Run mutmut and print the survivors without an explanation."""
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
    survivors = [name for name, status in found.items() if status not in (*DETECTED, "not checked")]
    explained = EXPLAINED.read_text("utf-8")
    left = [(name, diff) for name, diff in _diffs(survivors) if _change(diff) not in explained]
    for name, diff in left:
        print(f"\n{name}: {found[name]}\n{_change(diff)}")
    print(f"{len(survivors)} survivors, {len(left)} of them not explained in {EXPLAINED.relative_to(ROOT)}")
    return 1 if left else 0


def _diffs(mutants: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the diffs of `mutmut show`, without a process for each."""
    from mutmut.mutation.diff_apply import get_diff_for_mutant

    os.chdir(TREE)
    for name in mutants:
        yield name, get_diff_for_mutant(name)


def _change(diff: str) -> str:
    """Return the lines that a mutant removes and adds, in the format of the page."""
    lines = [line[0] + " " + line[1:].strip() for line in diff.splitlines() if re.match(r"[+-](?![+-])", line)]
    return "\n".join(lines)


def _lay_out() -> None:
    """Create the tree: the package, its tests, and results of the last run, which mutmut reuses."""
    setup = tomllib.loads((ROOT / "pyproject.toml").read_text())
    for package, folder in setup["tool"]["setuptools"]["package-dir"].items():
        _copy(ROOT / folder, TREE / Path(*package.split(".")))
    for folder in ("tests", "docs"):
        _copy(ROOT / folder, TREE / folder)
    shutil.copy2(ROOT / "pyproject.toml", TREE)
    for folder in ("tests", "docs"):
        shutil.rmtree(TREE / "mutants" / folder, ignore_errors=True)
    # The mapping of tests to functions: mutmut would run new tests for new functions only.
    (TREE / "mutants" / "mutmut-stats.json").unlink(missing_ok=True)


def _copy(source: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("__pycache__", "target", "*.java"))


def _mutmut(*arguments: str, quiet: bool = False) -> str:
    command = [str(ROOT / ".venv/bin/mutmut"), *arguments]
    # The same examples for each mutant, without examples found by other runs.
    environment = {**os.environ, "CI": "true", "HYPOTHESIS_STORAGE_DIRECTORY": str(TREE / ".hypothesis")}
    done = subprocess.run(
        command, cwd=TREE, env=environment, stdout=subprocess.PIPE if quiet else None, text=True, check=False
    )
    if done.returncode:
        sys.exit(done.returncode)
    return done.stdout or ""


if __name__ == "__main__":
    sys.exit(main())
