"""Writes constraints.txt: one `name==version` for each package that the development extras resolve to (`make constraints`).

Pip resolves (without installing) against whatever index the machine is set up for; its addresses and hashes are left out, so that the
file holds on every machine. What is already pinned stays unless `--upgrade` is given.
"""

import argparse
import json
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = ("arrow", "aiokafka", "dev", "docs")
HEADER = """\
# Versions that quorate is developed and tested with: .[{extras}] and the build backend.
# Written by `make constraints` (`make constraints UPGRADE=1` moves to the newest versions); do not edit by hand.
"""


def main() -> int:
    """Resolve and rewrite constraints.txt; print what changed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="ignore the present pins")
    arguments = parser.parse_args()

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
    build_requires = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--quiet", "--ignore-installed"]
    command += ["--report", "-"]
    if pins:
        command += ["--constraint", str(CONSTRAINTS)]
    command += [*build_requires, f"{ROOT}[{','.join(EXTRAS)}]"]
    report = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE, cwd=ROOT).stdout)
    found = {
        item["metadata"]["name"].lower().replace("_", "-"): item["metadata"]["version"] for item in report["install"]
    }
    del found["quorate"]
    return found


def _read() -> dict[str, str]:
    if not CONSTRAINTS.exists():
        return {}
    return dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#"))


if __name__ == "__main__":
    sys.exit(main())
