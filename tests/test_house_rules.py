"""Rules of the repository that no linter checks."""

import ast
import importlib.util
import io
import os
import re
import subprocess
import sys
import tarfile
import tomllib
from fnmatch import fnmatch
from pathlib import Path
from types import ModuleType

import pytest

from tests.test_public_names import PACKAGES

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
CONFTEST = ROOT / "tests" / "conftest.py"

pytest_plugins = ["pytester"]


def tree_files() -> list[Path]:
    """Return every file that is or would be committed. A copy of the tree has no git."""
    lines = [line for line in (ROOT / ".gitignore").read_text().splitlines() if line and not line.startswith("#")]
    folders = [".git", *(line.strip("/") for line in lines if line.endswith("/"))]
    # In a worktree, .git is a file.
    files = [".git", *(line.rpartition("/")[2] for line in lines if not line.endswith("/"))]

    def kept(names: list[str], patterns: list[str]) -> list[str]:
        return [name for name in names if not any(fnmatch(name, pattern) for pattern in patterns)]

    found: list[Path] = []
    for folder, inner, names in os.walk(ROOT):
        inner[:] = kept(inner, folders)
        found += [Path(folder, name) for name in kept(names, files)]
    return found


def test_no_file_names_a_folder_of_a_developers_machine():
    folder = re.compile(rb"(?<![\w./:-])/(work|root|home/\w+)/")
    found = [
        f"{path.relative_to(ROOT)}: {match[0].decode()}"
        for path in tree_files()
        for match in folder.finditer(path.read_bytes())
    ]
    assert not found


def test_constraints_pin_names_to_versions_and_nothing_else():
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pins = [line for line in lines if not line.startswith("#")]
    assert [line for line in pins if not re.fullmatch(r"[a-z0-9-]+==[0-9][a-z0-9.]*", line)] == []
    assert names_of(pins) == sorted(set(names_of(pins)))


def names_of(pins: list[str]) -> list[str]:
    return [pin.partition("==")[0] for pin in pins if not pin.startswith("#")]


@pytest.mark.parametrize("extra", [None, *PYPROJECT["project"]["optional-dependencies"]])
def test_constraints_cover_every_requirement(extra):
    project = PYPROJECT["project"]
    requirements = project["optional-dependencies"][extra] if extra else project["dependencies"]
    names = {re.match(r"[\w-]+", requirement)[0].lower() for requirement in requirements}
    pinned = names_of((ROOT / "constraints.txt").read_text().splitlines())
    assert names <= set(pinned), "run `make constraints`"


def test_a_skip_fails_in_ci(pytester, monkeypatch):
    tests = {
        "call": "def test(): pytest.skip('no JVM')",
        "mark": "@pytest.mark.skip(reason='no JVM')\ndef test(): pass",
        "fixture": "@pytest.fixture\ndef jvm(): pytest.skip('no JVM')\ndef test(jvm): pass",
        "module": "pytest.skip('no JVM', allow_module_level=True)",
    }
    pytester.makeconftest(re.sub(r', "tests\.\w+"', "", CONFTEST.read_text()))
    pytester.makepyfile(**{f"test_{how}": f"import pytest\n{test}" for how, test in tests.items()})
    pytester.makepyfile(test_failure="import pytest\n@pytest.mark.xfail\ndef test(): assert False")

    monkeypatch.setenv("CI", "true")
    result = pytester.runpytest_subprocess("--continue-on-collection-errors")
    for how in tests:
        result.stdout.fnmatch_lines([f"*test_{how}.py*: nothing may be skipped in CI*no JVM*"])
    result.assert_outcomes(failed=1, errors=3, xfailed=1)  # an expected failure stays one

    monkeypatch.delenv("CI")
    pytester.runpytest_subprocess().assert_outcomes(skipped=4, xfailed=1)


ARCHITECTURE = (ROOT / "docs" / "explanation" / "architecture.md").read_text("utf-8")
CODE = re.compile(r"`([a-z_]+(?:/[\w.]+)*/?)`")


def test_the_map_of_the_code_names_what_there_is() -> None:
    places = [name for name in CODE.findall(ARCHITECTURE) if "/" in name]
    assert len(places) > 60
    assert [name for name in places if not (ROOT / name).exists()] == []


def test_the_map_names_every_package() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")} - {"tests"}
    assert packages == set(PACKAGES)
    assert not [package for package in packages if f"| `{package}/` |" not in ARCHITECTURE]


def test_names_are_listed_by_packages_and_by_modules_that_users_import() -> None:
    """Elsewhere a leading underscore says what is private; 87 of 584 lists were wrong."""
    pages = "\n".join(page.read_text("utf-8") for page in (ROOT / "docs").rglob("*.md"))
    pages += (ROOT / "README.md").read_text("utf-8") + (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    named = {*re.findall(r"quorate(?:\.\w+)+", pages)}
    named |= {".".join(found) for found in re.findall(r"from (quorate(?:\.\w+)*) import (\w+)", pages)}
    superfluous = []
    packages = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "tests"}
    for path in (path for package in packages for path in package.rglob("*.py") if path.name != "__init__.py"):
        text = path.read_text("utf-8")
        if "__all__" not in text:
            continue
        module = ast.parse(text)
        listed = [
            one.value
            for one in module.body
            if isinstance(one, ast.Assign) and "__all__" in map(ast.unparse, one.targets)
        ]
        if not listed:
            continue
        nodes = list(ast.walk(module))
        own = {one.name for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)}
        own |= {one.id for one in nodes if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
        name = ".".join(("quorate", *path.relative_to(ROOT).with_suffix("").parts))
        if name not in named and {*ast.literal_eval(listed[0])} <= own:
            superfluous.append(name)
    assert not sorted(superfluous)


def test_walks_through_the_code_have_ten_stops_at_most() -> None:
    walks = {title: body for title, _, body in (part.partition("\n") for part in ARCHITECTURE.split("\n## "))}
    stops = {title: len(re.findall(r"^\d+\. `", body, re.MULTILINE)) for title, body in walks.items()}
    assert {title: count for title, count in stops.items() if count} == {
        "One heartbeat": 10,
        "One produce request": 10,
        "One share fetch": 5,
        "One request that changes metadata": 9,
        "One schedule of a simulation": 8,
        "The interface of clusters": 4,
        "One offsets record, from segment to table": 10,
    }


def test_the_coordinator_opens_no_files():
    """Import contracts forbid `os` and `pathlib` there; `open` needs no import."""
    calls = re.compile(r"(?<![\w`])open\(|\.(open|read_bytes|read_text|write_bytes|write_text|unlink|mkdir)\(")
    files = sorted((ROOT / "coordinator").rglob("*.py"))
    assert len(files) > 50
    assert [str(path.relative_to(ROOT)) for path in files if calls.search(path.read_text())] == []


def test_the_tests_that_mutmut_runs_exist() -> None:
    """With one that is missing, pytest runs none, and `make mutate` fails."""
    selected = PYPROJECT["tool"]["mutmut"]["pytest_add_cli_args_test_selection"]
    assert selected
    assert [one for one in selected if not (ROOT / one).exists()] == []


def test_modules_that_import_each_other_fail_the_lint(tmp_path: Path) -> None:
    package = tmp_path / "quorate"
    package.mkdir()
    sources = {
        "a": "from quorate.b import f\n",
        "b": "def f():\n    from quorate.c import g\n",
        "c": "import quorate.a\n",
    }
    for name, source in {**sources, "d": "import quorate.a\n"}.items():
        (package / f"{name}.py").write_text(source)
    command = [sys.executable, "-P", ROOT / "scripts" / "import_cycles.py"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, capture_output=True, text=True
    )
    assert done.returncode == 1
    assert "quorate.b -> quorate.c" in done.stderr
    assert "quorate.d" not in done.stderr


def script(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, ROOT / "scripts" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_words_that_the_glossary_replaces_are_found(tmp_path: Path) -> None:
    words = script("plain_english")
    module, page = tmp_path / "module.py", tmp_path / "page.md"
    module.write_text(
        "def f(told):  # goes on\n"  # plain: words to find
        "    # plain: a rack stands in a room\n"
        '    return f"{f} is in a room"\n'
        "    # a `room` in code\n"
    )
    page.write_text("Whoever\n```\nanew\n```\n`room` [anew](room.md)\n")  # plain: words to find
    found = [[one.removeprefix(f"{path}:").partition(";")[0] for one in words.check(path)] for path in (module, page)]
    assert found == [
        ["1: 'goes on'", "1: 'told'"],  # plain: the words that are found
        ["1: 'Whoever'", "5: 'anew'"],  # plain: likewise
    ]


def test_make_dist_check_uses_every_extra() -> None:
    dist = script("check_dist")
    assert dist.USES.keys() == PYPROJECT["project"]["optional-dependencies"].keys() - dist.NOT_FOR_USERS


def test_the_spark_matrix_installs_the_plugins_of_pytest_that_tests_use() -> None:
    tools = PYPROJECT["project"]["optional-dependencies"]["dev"]
    plugins = {re.match(r"[\w-]+", one)[0] for one in tools if one.startswith("pytest")} - {"pytest-cov"}
    source = (ROOT / "scripts" / "spark_matrix.py").read_text()
    (installed,) = re.findall(r"^TOOLS = (\(.*\))$", source, re.MULTILINE)
    assert plugins <= {*ast.literal_eval(installed)}


def test_a_normalized_sdist_depends_on_names_and_contents_only(tmp_path: Path) -> None:
    packed = []
    for number, names in enumerate((["b", "a"], ["a", "b"])):
        path = tmp_path / f"{number}.tar.gz"
        with tarfile.open(path, "w:gz") as archive:
            for name in names:
                member = tarfile.TarInfo(name)
                member.size, member.mtime, member.uid, member.uname = 1, 1000 + number, number, f"user{number}"
                member.mode = 0o640 if number else 0o664
                archive.addfile(member, io.BytesIO(name.encode()))
        script("make_dist").normalize(path, 1_700_000_000)
        packed.append(path.read_bytes())
    assert packed[0] == packed[1]
    with tarfile.open(tmp_path / "0.tar.gz") as archive:
        assert [(one.name, one.mode, one.mtime) for one in archive] == [
            ("a", 0o644, 1_700_000_000),
            ("b", 0o644, 1_700_000_000),
        ]
