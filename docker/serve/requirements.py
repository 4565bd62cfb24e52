"""Prints the requirements of the image, from pyproject.toml of the current folder."""

import tomllib
from pathlib import Path

EXTRAS = ("metrics", "secure", "uvloop")

project = tomllib.loads(Path("pyproject.toml").read_text("utf-8"))["project"]
extras = [requirement for extra in EXTRAS for requirement in project["optional-dependencies"][extra]]
print(*project["dependencies"], *extras, sep="\n")
