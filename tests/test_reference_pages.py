"""Reference pages cover the public names of packages, and links outside docs/ have a target.

Links between pages of docs/ are checked by `make docs`.
"""

import ast
import inspect
import itertools
import re
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("codecs", "assignors", "consumers", "coordinator", "cluster", "integration", "pipeline", "watch")
EVERY_NAME = [(package, name) for package in PACKAGES for name in import_module(f"quorate.{package}").__all__]


@cache
def texts(folder: Path) -> list[str]:
    return [path.read_text("utf-8") for path in folder.rglob("*.py")]


def is_constant_with_docstring(folder: Path, name: str) -> bool:
    """Return whether a module's attribute with this name is followed by a docstring."""
    assigned = re.compile(rf"^{name}\b.*=", re.MULTILINE)
    for text in filter(assigned.search, texts(folder)):
        for statement, following in itertools.pairwise(ast.parse(text).body):
            target = statement.target if isinstance(statement, ast.AnnAssign) else None
            if isinstance(statement, ast.Assign):
                target = statement.targets[0]
            documented = isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant)
            if isinstance(target, ast.Name) and target.id == name and documented:
                return True
    return False


@pytest.mark.parametrize(("package", "name"), EVERY_NAME, ids=[f"{package}.{name}" for package, name in EVERY_NAME])
def test_public_name_has_a_docstring(package, name):
    value = getattr(import_module(f"quorate.{package}"), name)
    if inspect.isclass(value) or inspect.isfunction(inspect.unwrap(value)):
        assert value.__doc__
    else:
        assert any(is_constant_with_docstring(ROOT / folder, name) for folder in (package, "cluster"))


@pytest.mark.parametrize("package", PACKAGES)
def test_reference_page_shows_every_public_name_once(package):
    page = (ROOT / f"docs/reference/python/{package}.md").read_text("utf-8")
    shown = re.findall(rf"^::: quorate\.{package}\.(\w+)$", page, re.MULTILINE)
    linked = re.findall(r"\]\[quorate\.\w+\.(\w+)\]", page)  # names of another package, exported here too
    assert sorted(shown + linked) == sorted(import_module(f"quorate.{package}").__all__)


@pytest.mark.parametrize("page", sorted(ROOT.glob("*.md")), ids=lambda page: page.name)
def test_links_have_a_target(page):
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for link in re.findall(r"\]\(([^)\s]+)\)", text):
        path, _, anchor = link.partition("#")
        if "://" in link:
            continue
        target = ROOT / path if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.*)$", page.read_text("utf-8"), re.MULTILINE)
    return {re.sub(r"[\s-]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
