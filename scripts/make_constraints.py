"""Writes constraints.txt: one `name==version` for each package that the development extras resolve to (`make constraints`).

Pip resolves (without installing) against whatever index the machine is set up for; its addresses and hashes are left out, so that the
file holds on every machine. What is already pinned stays unless `--upgrade` is given.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = ("arrow", "aiokafka", "testcontainers", "dev", "docs")
OLDEST_PYTHON = "3.11.0"  # Debian 12 has 3.11.2, and there are packages that want 3.11.5
HEADER = """\
# Versions that quorate is developed and tested with: .[{extras}] and the build backend.
# Written by `make constraints` (`make constraints UPGRADE=1` moves to the newest versions); do not edit by hand.
"""


def main() -> int:
    """Resolve and rewrite constraints.txt; print what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="ignore the present pins")
    arguments = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        # Pip can look for packages that suit another Python, but decides by its own which of their dependencies apply.
        print(f"error: .venv has Python {sys.version.split()[0]}, but pins have to hold from 3.11 on", file=sys.stderr)
        print("       remove .venv, then: make constraints PYTHON=python3.11", file=sys.stderr)
        return 1

    before = _read()
    after = _resolve(before if not arguments.upgrade else {})
    lines = [f"{name}=={version}" for name, version in sorted(after.items())]
    CONSTRAINTS.write_text(HEADER.format(extras=",".join(EXTRAS)) + "\n".join(lines) + "\n")

    for name in sorted(before.keys() | after.keys()):
        if before.get(name) != after.get(name):
            print(f"{name}: {before.get(name, 'new')} -> {after.get(name, 'gone')}")
    print(f"{CONSTRAINTS.name}: {len(after)} packages")
    return 0


def _resolve(pins: dict[str, str]) -> dict[str, str]:
    pyproject = tomllib.loads((ROOT / "pyproject.toml").read_text())
    requirements = [*pyproject["build-system"]["requires"], *pyproject["project"]["dependencies"]]
    for extra in EXTRAS:
        requirements += pyproject["project"]["optional-dependencies"][extra]
    with tempfile.TemporaryDirectory() as target:
        command = [sys.executable, "-P", "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
        command += ["--python-version", OLDEST_PYTHON, "--only-binary", ":all:", "--target", target, "--report", "-"]
        if pins:
            command += ["--constraint", str(CONSTRAINTS)]
        done = subprocess.run([*command, *requirements], stdout=subprocess.PIPE)
    if done.returncode != 0:
        print("error: pip finds no set of versions, see above", file=sys.stderr)
        print("       remove the pins in question from constraints.txt, or take the newest: UPGRADE=1", file=sys.stderr)
        sys.exit(1)
    report = json.loads(done.stdout)
    return {
        item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in report["install"]
    }


def _read() -> dict[str, str]:
    if not CONSTRAINTS.exists():
        return {}
    return dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#"))


if __name__ == "__main__":
    sys.exit(main())
