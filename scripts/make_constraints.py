"""Write constraints.txt: `name==version` for each package of the development extras.

Run by `make constraints`. Pip resolves with the index configured on the machine, without
installing. The file has neither addresses nor hashes, so it works on every machine. Existing pins
are kept unless `--upgrade` is given.
"""

import argparse
import json
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"
EXTRAS = (
    "arrow",
    "aiokafka",
    "metrics",
    "secure",
    "spark",
    "testcontainers",
    "uvloop",
    "watch",
    "release",
    "dev",
    "docs",
)
SOURCE_ONLY = ("pyspark",)  # packages without wheels; pip resolves for another Python only by wheels
OLDEST_PYTHON = "3.11.0"  # Debian 12 has 3.11.2, and some packages require 3.11.5
HEADER = """\
# Versions that quorate is developed and tested with: .[{extras}] and the build backend.
# Written by `make constraints` (`make constraints UPGRADE=1` moves to the newest versions); do not edit by hand.
"""


def main() -> int:
    """Resolve, rewrite constraints.txt, and print the changes."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--upgrade", action="store_true", help="ignore the present pins")
    arguments = parser.parse_args()
    if sys.version_info[:2] != (3, 11):
        # Pip can resolve for another Python, but evaluates environment markers for its own.
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
    sources = [requirement for requirement in requirements if requirement.startswith(SOURCE_ONLY)]
    found = {}
    for item in _pip_report(["--no-deps", *_pinned(sources, pins)]):
        found[_name(item)] = item["metadata"]["version"]
        requirements += [one for one in item["metadata"].get("requires_dist", ()) if "extra ==" not in one]
    requirements = [requirement for requirement in requirements if requirement not in sources]
    with tempfile.TemporaryDirectory() as target:
        options = ["--python-version", OLDEST_PYTHON, "--only-binary", ":all:", "--target", target]
        if pins:
            options += ["--constraint", str(CONSTRAINTS)]
        found |= {_name(item): item["metadata"]["version"] for item in _pip_report([*options, *requirements])}
    return found


def _pinned(requirements: list[str], pins: dict[str, str]) -> list[str]:
    names = {
        requirement: next(name for name in SOURCE_ONLY if requirement.startswith(name)) for requirement in requirements
    }
    return [f"{name}=={pins[name]}" if name in pins else requirement for requirement, name in names.items()]


def _pip_report(arguments: list[str]) -> list[dict[str, Any]]:
    """Return the packages that pip would install."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "pip",
        "install",
        "--dry-run",
        "--quiet",
        "--ignore-installed",
        "--report",
        "-",
    ]
    done = subprocess.run([*command, *arguments], stdout=subprocess.PIPE)
    if done.returncode != 0:
        print("error: pip finds no set of versions, see above", file=sys.stderr)
        print("       remove the pins in question from constraints.txt, or take the newest: UPGRADE=1", file=sys.stderr)
        sys.exit(1)
    installed: list[dict[str, Any]] = json.loads(done.stdout)["install"]
    return installed


def _name(item: dict[str, Any]) -> str:
    return re.sub(r"[-_.]+", "-", str(item["metadata"]["name"])).lower()


def _read() -> dict[str, str]:
    if not CONSTRAINTS.exists():
        return {}
    return dict(line.split("==") for line in CONSTRAINTS.read_text().splitlines() if not line.startswith("#"))


if __name__ == "__main__":
    sys.exit(main())
