"""The wheel, the source distribution and the editable install hold the same typed packages.

Nothing is downloaded: the packages are built with the installed setuptools, and installed without
dependencies into temporary virtual environments that use those of this one.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from dataclasses import dataclass
from email.parser import Parser
from pathlib import Path

import pytest

from quorate.codecs import is_accelerated

ROOT = Path(__file__).resolve().parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NOT_PACKAGES = {"bench", "build", "dist", "docker", "docs", "scripts", "site", "tests"}
PACKAGES = sorted(
    folder.name
    for folder in ROOT.iterdir()
    if any(folder.glob("*.py"))
    and folder.name not in NOT_PACKAGES
    and not folder.name.startswith(".")
    and folder.suffix != ".egg-info"
)
# Needed by some functions and commands only, so that importing a package and `quorate --help` are
# quick.
HEAVY = {"aiokafka", "construct", "kafka", "numpy", "pandas", "pyarrow"}
TERMINAL = {"click", "rich"}


# The build adds it where there is a compiler. Without it, tests of codecs fail in CI.
COMPILED = {"codecs/_native.abi3.so"} if is_accelerated() else set()


def package_files(root: Path) -> set[str]:
    return {
        str(path.relative_to(root))
        for package in PACKAGES
        for path in (root / package).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts and path.suffix != ".so"
    }


def sources_in_c(root: Path) -> set[str]:
    return {name for name in package_files(root) if name.endswith((".c", ".h"))}


@dataclass(frozen=True)
class Built:
    """A copy of the sources, and the packages that were built from it."""

    source: Path
    wheel: Path
    sdist: Path
    wheel_from_sdist: Path
    editable: Path


@pytest.fixture(scope="module")
def built(tmp_path_factory) -> Built:
    """Build everything from a copy, so that nothing stays here and no other file gets in."""
    base = tmp_path_factory.mktemp("packaging")
    source = base / "source"
    for package in PACKAGES:
        shutil.copytree(ROOT / package, source / package, ignore=shutil.ignore_patterns("__pycache__", "*.so"))
    for name in ("pyproject.toml", "README.md", "LICENSE", "MANIFEST.in", "pytest_quorate.py", "setup.py"):
        if (ROOT / name).exists():
            shutil.copy(ROOT / name, source)

    (source / "tests").mkdir()
    (source / "tests" / "test_nothing.py").touch()  # setuptools would include it by default
    # As a release is built: the sdist, then a wheel from the sdist.
    options = ("--no-isolation", "--skip-dependency-check", "--outdir", base / "release")
    run([sys.executable, "-P", "-m", "build", *options, source])
    (sdist,) = (base / "release").glob("*.tar.gz")
    (wheel_from_sdist,) = (base / "release").glob("*.whl")
    return Built(
        source=source,
        wheel=_build("wheel", source, base / "wheel"),
        sdist=sdist,
        wheel_from_sdist=wheel_from_sdist,
        editable=_build("editable", source, base / "editable"),
    )


def _build(kind: str, source: Path, out: Path) -> Path:
    """Call the build backend as pip does (PEP 517 and, for editable wheels, PEP 660)."""
    out.mkdir()
    run(
        [sys.executable, "-P", "-c", f"import setuptools.build_meta; setuptools.build_meta.build_{kind}({str(out)!r})"],
        source,
    )
    (wheel,) = out.iterdir()
    return wheel


def run(command: list[str | Path], cwd: Path | None = None) -> None:
    done = subprocess.run(command, cwd=cwd, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert done.returncode == 0, done.stdout


def wheel_contents(wheel: Path) -> tuple[set[str], set[str]]:
    """The files of a wheel: those below `quorate/` (named from there), and all others."""
    names = {name for name in zipfile.ZipFile(wheel).namelist() if not name.endswith("/")}
    ours = {name for name in names if name.startswith("quorate/")}
    return {name.removeprefix("quorate/") for name in ours}, names - ours


def test_the_readme_names_every_extra_for_users():
    _, _, section = (ROOT / "README.md").read_text("utf-8").partition("Optional extras, ")
    extras = PYPROJECT["project"]["optional-dependencies"].keys() - {"dev", "docs", "release"}
    assert [extra for extra in sorted(extras) if f"`{extra}`" not in section.partition("\n\n")[0]] == []


@pytest.mark.parametrize("which", ["wheel", "wheel_from_sdist"])
def test_wheel_holds_every_file_of_every_package_and_nothing_else(built, which):
    packaged, others = wheel_contents(getattr(built, which))
    remedy = "list the folder in [tool.setuptools] in pyproject.toml (packages, package-dir or package-data)"
    expected = package_files(built.source) - sources_in_c(built.source) | COMPILED
    assert expected - packaged == set(), remedy
    assert packaged - expected == set()
    assert {name.split("/")[0] for name in others} == {
        "pytest_quorate.py",
        f"quorate-{PYPROJECT['project']['version']}.dist-info",
    }


def test_a_wheel_from_the_sdist_has_the_same_bytes(built):
    def contents(wheel: Path) -> dict[str, bytes]:
        with zipfile.ZipFile(wheel) as archive:
            return {name: archive.read(name) for name in archive.namelist()}

    assert contents(built.wheel_from_sdist) == contents(built.wheel)


def test_every_package_is_typed_and_quorate_stays_a_namespace(built):
    packaged, _ = wheel_contents(built.wheel)
    assert {f"{package}/py.typed" for package in PACKAGES} <= packaged
    assert "__init__.py" not in packaged


def test_every_package_has_an_import_contract():
    assert set(PYPROJECT["tool"]["importlinter"]["root_packages"]) == {f"quorate.{package}" for package in PACKAGES}


def test_the_image_of_quorate_serve_is_built_from_every_package():
    copied = set((ROOT / ".dockerignore").read_text().splitlines())
    assert {f"!{package}" for package in PACKAGES} <= copied


def test_sdist_holds_what_it_is_built_from_and_no_tests(built):
    with tarfile.open(built.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sources_in_c(built.source)
    others = {"pyproject.toml", "README.md", "LICENSE", "pytest_quorate.py", "setup.py"}
    assert package_files(built.source) | others <= names
    assert not [name for name in names if name.startswith(("tests", "bench"))]


def test_without_a_compiler_the_wheel_is_built_without_the_accelerator(built, tmp_path):
    source = shutil.copytree(built.source, tmp_path / "source", ignore=shutil.ignore_patterns("build", "*.so"))
    out = tmp_path / "wheel"
    code = f"import setuptools.build_meta; setuptools.build_meta.build_wheel({str(out)!r})"
    run(["env", "CC=/no/compiler", sys.executable, "-P", "-c", code], source)
    (wheel,) = out.iterdir()
    packaged, _ = wheel_contents(wheel)
    assert packaged == package_files(built.source) - sources_in_c(built.source)


def test_wheel_carries_the_licence(built):
    with zipfile.ZipFile(built.wheel) as wheel:
        (metadata,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        facts = Parser().parsestr(wheel.read(metadata).decode())
        licence = wheel.read(metadata.replace("METADATA", "licenses/LICENSE")).decode()
    assert facts["License-Expression"] == "Apache-2.0"
    assert licence == (ROOT / "LICENSE").read_text()


@dataclass(frozen=True)
class Installed:
    """A virtual environment with quorate in it."""

    bin: Path
    expected: Path  # the folder that holds the packages

    def python(self, code: str, cwd: Path) -> object:
        """Run code that prints one JSON value."""
        done = subprocess.run([self.bin / "python", "-c", code], cwd=cwd, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)


@pytest.fixture(scope="module", params=["wheel", "editable"])
def installed(request, built, tmp_path_factory) -> Installed:
    wheel = {"wheel": built.wheel_from_sdist, "editable": built.editable}[request.param]
    home = tmp_path_factory.mktemp(f"venv-{request.param}")
    run([sys.executable, "-P", "-m", "venv", "--without-pip", home])
    pip = [sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--python", home / "bin" / "python"]
    run([*pip, "install", "--no-deps", "--no-index", "--no-compile", wheel])
    (site,) = home.glob("lib/python*/site-packages")
    # The dependencies are borrowed. A folder named in a .pth file has its own .pth files ignored,
    # so our editable install is not.
    (site / "borrowed.pth").write_text(f"{sysconfig.get_path('purelib')}\n{sysconfig.get_path('platlib')}\n")
    return Installed(bin=home / "bin", expected=built.source if request.param == "editable" else site / "quorate")


def test_installed_packages_import_from_where_they_were_installed(installed, tmp_path):
    names = [f"quorate.{package}" for package in PACKAGES]
    code = f"import importlib, json; print(json.dumps([importlib.import_module(name).__file__ for name in {names}]))"
    assert installed.python(code, tmp_path) == [
        str(installed.expected / package / "__init__.py") for package in PACKAGES
    ]


def test_installed_command_prints_its_help(installed, tmp_path):
    done = subprocess.run([installed.bin / "quorate", "--help"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert "decode" in done.stdout


def test_installed_metadata_knows_the_version(installed, tmp_path):
    code = "import importlib.metadata, json; print(json.dumps(importlib.metadata.version('quorate')))"
    assert installed.python(code, tmp_path) == PYPROJECT["project"]["version"]


def test_installed_package_works_from_the_repository_root(installed):
    code = "import codecs, json, quorate.codecs; print(json.dumps([codecs.__file__, quorate.codecs.__file__]))"
    assert installed.python(code, ROOT) == [STDLIB_CODECS, str(installed.expected / "codecs" / "__init__.py")]


@pytest.mark.parametrize(
    ("module", "unwanted"),
    [
        ("quorate.codecs", HEAVY | TERMINAL),
        ("quorate.coordinator", HEAVY | TERMINAL),
        ("quorate.cli.main", HEAVY),
        ("pytest_quorate", HEAVY | {"docker", "testcontainers"}),
    ],
)
@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_import_leaves_heavy_libraries_alone(installed, module, unwanted, tmp_path):
    code = f"import json, sys, {module}; print(json.dumps(sorted({unwanted} & sys.modules.keys())))"
    assert installed.python(code, tmp_path) == []


WRONG = """
from quorate.assignors import RangeAssignor
from quorate.cluster import EmbeddedCluster
from quorate.codecs import decode_record
from quorate.consumers import Identity
from quorate.coordinator import group_hash
from quorate.integration import EmbeddedLab
from quorate.pipeline import record_types
from quorate.simulation import Chaos
from quorate.watch import LagSample

RangeAssignor().assign({}, "orders")  # wrong
EmbeddedCluster(racks=3)  # wrong
decode_record("key", None)  # wrong
Identity("billing", 7)  # wrong
group_hash({"orders": "hash"})  # wrong
EmbeddedLab.attach(1)  # wrong
record_types(7)  # wrong
Chaos(broker_stops="often")  # wrong
LagSample(0, None, None)  # wrong
"""


NARROWS = """
from quorate.codecs import CoordinatorRecord, decode_record

record = decode_record(b"", None)
if isinstance(record, CoordinatorRecord):
    reveal_type(record.type_id)
    record.no_such_thing
"""

IN_C = """
from quorate.codecs.extension import extension

native = extension()
if native is not None:
    native.batch_starts(b"")
    native.no_such_thing
native.batch_starts(b"", 7)
"""
PAGES = ("docs/tutorial/tour.md", "docs/tutorial/read-a-log.md", "docs/how-to/decode-from-python.md")


def snippets(page: str) -> str:
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT / page).read_text(), flags=re.MULTILINE | re.DOTALL)
    blocks = [block for block in blocks if "\ndef test_" not in block]  # the arguments of tests are not annotated
    assert blocks, page
    return "\n".join(blocks)


Reports = dict[str, dict[str, list[str]]]
"""Checker → script → lines of its report."""


@pytest.fixture(scope="module")
def reports(installed: Installed, tmp_path_factory) -> Reports:
    """Run mypy and pyright once on scripts of a user: loading libraries takes most of their time.

    mypy's cache, which knows files by their contents, is that of the run before. pyright comes with
    its Node.js from PyPI, and looks for no newer version of itself.
    """
    pytest.importorskip("pyright")
    folder = tmp_path_factory.mktemp("user")
    scripts = {"program.py": (ROOT / "tests" / "user_program.py").read_text(), "wrong.py": WRONG, "narrows.py": NARROWS}
    scripts["in_c.py"] = IN_C
    scripts |= {f"{Path(page).stem.replace('-', '_')}.py": snippets(page) for page in PAGES}
    for name, text in scripts.items():
        (folder / name).write_text(text)
    python = installed.bin / "python"
    reports: Reports = {}
    for checker, options in (
        ("mypy", ("--python-executable", python, "--strict", "--cache-dir", ROOT / "build" / "mypy_cache_of_users")),
        ("pyright", ("--pythonpath", python)),
    ):
        command = [sys.executable, "-P", "-m", checker, *options, *scripts]
        environment = os.environ | {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
        done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        assert re.match(r"Found \d+ errors in 3 files|\d+ errors, ", lines[-1]), done.stdout + done.stderr
        reports[checker] = {
            name: [line for line in lines if re.match(rf"\s*(\S*/)?{re.escape(name)}:", line)] for name in scripts
        }
    return reports


@pytest.mark.parametrize("checker", ["mypy", "pyright"])
@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_program_that_uses_every_package_passes_strict_type_checkers(reports, checker):
    assert reports[checker]["program.py"] == []


def test_the_program_imports_every_package():
    imported = set(re.findall(r"^from quorate\.(\w+)", (ROOT / "tests" / "user_program.py").read_text(), re.MULTILINE))
    assert imported == set(PACKAGES) - {"cli"}


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_what_our_pages_show_passes_a_users_strict_type_checker(reports):
    assert [reports["mypy"][f"{Path(page).stem.replace('-', '_')}.py"] for page in PAGES] == [[]] * 3


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_users_type_checker_sees_our_types(reports):
    """Each package has a py.typed, because `quorate` is a namespace package (PEP 561)."""
    lines = [number for number, line in enumerate(WRONG.splitlines(), 1) if line.endswith("# wrong")]
    assert len(lines) == len(PACKAGES) - 1
    for checker in ("mypy", "pyright"):
        errors = [line for line in reports[checker]["wrong.py"] if re.search(r": error: | - error: ", line)]
        assert [int(line.split(":")[1]) for line in errors] == lines, (checker, errors)


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_a_users_type_checker_narrows_records(reports):
    revealed, wrong = reports["mypy"]["narrows.py"]
    assert revealed.replace("builtins.", "") == 'narrows.py:6: note: Revealed type is "int"'
    assert wrong == 'narrows.py:7: error: "CoordinatorRecord" has no attribute "no_such_thing"  [attr-defined]'


@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_calls_of_functions_in_c_are_checked(reports):
    """At runtime only tests would find them."""
    found = [re.fullmatch(r"in_c\.py:(\d+): error: .*\[(.*)\]", line) for line in reports["mypy"]["in_c.py"]]
    assert [each.groups() for each in found] == [("6", "call-arg"), ("7", "attr-defined"), ("8", "union-attr")]


@pytest.mark.skipif(not COMPILED, reason="installed without a compiler")
@pytest.mark.parametrize("installed", ["wheel"], indirect=True)
def test_the_types_of_the_module_in_c_have_its_names_and_arguments(installed):
    site = installed.expected.parent
    command = [sys.executable, "-P", "-m", "mypy.stubtest", "--ignore-disjoint-bases", "quorate.codecs._native"]
    environment = os.environ | {"PYTHONPATH": str(site), "MYPYPATH": str(site)}
    done = subprocess.run(command, cwd=site, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


STDLIB_CODECS = str(Path(sysconfig.get_path("stdlib")) / "codecs.py")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param(["-c", "SCRIPT"], id="python -c"),
        pytest.param(["-m", "MODULE"], id="python -m"),
        pytest.param(["-X", "frozen_modules=off", "-c", "SCRIPT"], id="without frozen modules"),
    ],
)
def test_codecs_at_the_root_does_not_shadow_the_standard_library(how, tmp_path):
    script = "import codecs, sys; print(codecs.__file__, codecs.lookup('utf-8').name, sep='\\n')"
    (tmp_path / "asks_for_codecs.py").write_text(script)
    command = [{"SCRIPT": script, "MODULE": "asks_for_codecs"}.get(word, word) for word in how]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, *command], cwd=ROOT, env=environment, capture_output=True, text=True)
    assert (done.stdout.splitlines(), done.stderr) == ([STDLIB_CODECS, "utf-8"], "")


def test_pytest_does_not_shadow_the_standard_library():
    import codecs

    assert codecs.__file__ == STDLIB_CODECS
    assert str(ROOT) not in sys.path
