"""A mkdocs hook that gives mkdocstrings the packages under their import names.

`quorate.codecs` is the folder `codecs`, by `package-dir` in pyproject.toml. mkdocstrings reads
source files, so it gets a folder `quorate` with links to the folders.
"""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ROOT / "build" / "reference" / "quorate"
"""`paths` of mkdocstrings in mkdocs.yml names the folder above it."""


def on_startup(**_: Any) -> None:
    """Create the links before mkdocstrings looks for packages."""
    PACKAGES.mkdir(parents=True, exist_ok=True)
    folders = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]["package-dir"]
    for package, folder in folders.items():
        link = PACKAGES / package.removeprefix("quorate.")
        link.unlink(missing_ok=True)
        link.symlink_to(ROOT / folder, target_is_directory=True)
