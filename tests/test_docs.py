"""Runs what README.md and docs/ show.

- ```python blocks are executed, those of a page in one namespace; with `>>>` they are doctests.
- ```python blocks that begin with `# NAME.py` are saved as that file instead, for the commands
  below them.
- ```console blocks: each `$ command` is run, and what is shown below it must be what it prints
  (stdout, then stderr; `...` stands for anything). Nothing shown means that only the exit status
  counts. A command may fail only where the page shows its `error:`.
- Tests shown in docs/how-to/scenarios*.md are only defined; tests/integration runs them.
- ```sh blocks are for what needs a cluster, a registry or a new machine; they are not run.

Pages are run in an empty folder with recorded log directories. Those that start Spark find the one
of the pipeline's tests, with a session of their own in it.
"""

import doctest
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sybil import Example, Sybil
from sybil.evaluators.python import PythonEvaluator
from sybil.parsers.markdown import CodeBlockParser, PythonCodeBlockParser

from tests.conftest import INTERPRETED

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])
WITH_SPARK = [page for page in PAGES if "SparkSession" in page.read_text("utf-8")]
GENERATES_CODE = "spark-report.md"
"""The page that runs all jobs with code generation, as Spark does by default."""
LANGUAGES = {"console", "diff", "ini", "json", "markdown", "python", "sh", "text", "toml", "yaml"}

ENVIRONMENT = {"COLUMNS": "120", "NO_COLOR": "1", "TERM": "dumb"}


def run_console(example: Example) -> str | None:
    """Run each command of a block.

    Returns what differs, which sybil reports with the line of the block.
    """
    commands = re.split(r"^\$ ", example.parsed, flags=re.MULTILINE)
    if commands[0].strip():
        return f"the block starts with output instead of '$ command': {commands[0]!r}"
    for text in commands[1:]:
        command, _, wanted = re.sub(r"\\\n", "", text).partition("\n")
        path = f"{sysconfig.get_path('scripts')}{os.pathsep}{os.environ['PATH']}"
        done = subprocess.run(
            command,
            shell=True,
            env=os.environ | ENVIRONMENT | {"PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
        )
        printed = done.stdout + done.stderr
        if done.returncode != 0 and "error:" not in wanted:
            return f"$ {command}\nended with status {done.returncode}:\n{printed}"
        if wanted.strip() and not _same(wanted, printed):
            return f"$ {command}\nprinted\n\n{printed}\ninstead of\n\n{wanted}"
    return None


def _same(wanted: str, printed: str) -> bool:
    def tidy(text: str) -> str:
        return "\n".join(line.rstrip() for line in text.strip("\n").splitlines()) + "\n"

    return doctest.OutputChecker().check_output(tidy(wanted), tidy(printed), doctest.ELLIPSIS)


class FileOrCode:
    """Evaluates a block of Python, or saves it as the file that its first line names."""

    def __init__(self) -> None:
        self.run = PythonEvaluator()

    def __call__(self, example: Example) -> str | None:
        named = re.match(r"# (\w+\.py)\n", example.parsed)
        if named is None:
            return self.run(example)
        Path(named[1]).write_text(example.parsed)
        return None


class PythonBlockParser(PythonCodeBlockParser):
    """Finds blocks of Python, and doctests in them."""

    def __init__(self, doctest_optionflags: int) -> None:
        super().__init__(doctest_optionflags=doctest_optionflags)
        self.codeblock_parser = CodeBlockParser("python", FileOrCode())


SNIPPETS = Sybil(
    parsers=[
        PythonBlockParser(doctest_optionflags=doctest.ELLIPSIS),
        CodeBlockParser(language="console", evaluator=run_console),
    ]
)


def page_ids(pages: list[Path]) -> list[Any]:
    return [pytest.param(page, id=str(page.relative_to(ROOT))) for page in pages]


@pytest.fixture
def working_folder(tmp_path, monkeypatch) -> None:
    prepare(tmp_path, monkeypatch)


@pytest.fixture
def working_folder_of_spark(page, spark, jvm_folder, monkeypatch) -> Iterator[None]:
    """Let the builder of a page find a new session: without the source, and with Spark's defaults.

    Starting a Spark and its Python processes takes longer than most pages.
    """
    session = spark.newSession()
    if page.name == GENERATES_CODE:
        for name in INTERPRETED:
            session.conf.unset(name)
    for name in ("_instantiatedSession", "_activeSession"):
        monkeypatch.setattr(type(spark), name, session)
    active = spark._jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession
    active(session._jsparkSession)
    for left in jvm_folder.iterdir():  # by the page before
        shutil.rmtree(left) if left.is_dir() and not left.is_symlink() else left.unlink()
    prepare(jvm_folder, monkeypatch)
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    yield
    active(spark._jsparkSession)
    assert os.environ["PYSPARK_PYTHON"] == sys.executable, "a Spark that starts on the page needs it"


def prepare(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, capture in (
        ("kafka-logs", "upgrade-4.0-to-4.3-and-back"),
        ("share-logs", "share-4.3"),
        ("streams-logs", "streams-4.3"),
    ):
        (folder / name).symlink_to(ROOT / "tests" / "data" / "captures" / capture)
    monkeypatch.chdir(folder)
    monkeypatch.syspath_prepend(folder)  # as for a script in it, which imports the files that a page shows


def run_page(page: Path) -> None:
    for example in SNIPPETS.parse(page):
        example.evaluate()


@pytest.mark.parametrize("page", page_ids([page for page in PAGES if page not in WITH_SPARK]))
def test_snippets_do_what_the_page_says(page, working_folder):
    run_page(page)


@pytest.mark.parametrize("page", page_ids(WITH_SPARK))
def test_snippets_of_pages_with_spark_do_what_the_page_says(page, working_folder_of_spark):
    run_page(page)


def test_the_first_pages_show_something_that_runs():
    for page in ("README.md", "docs/tutorial/read-a-log.md"):
        assert list(SNIPPETS.parse(ROOT / page)), page


@pytest.mark.parametrize("page", page_ids(PAGES))
def test_every_block_names_a_language_that_we_know(page):
    fences = re.findall(r"^ *```(.*)$", page.read_text(), flags=re.MULTILINE)
    assert set(fences[::2]) <= LANGUAGES
    assert set(fences[1::2]) <= {""}


def test_scenario_pages_show_the_tests_as_they_are():
    command = [sys.executable, "-P", ROOT / "scripts" / "fill_scenario_pages.py", "--check"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


@pytest.mark.parametrize(
    ("block", "complaint"),
    [
        ("$ echo one; echo two\none\ntwo", None),
        ("$ echo one; echo two\n...\ntwo", None),
        ("$ echo one\n$ echo two\ntwo", None),
        ("$ echo \\\n    one\none", None),
        ("$ echo one", None),
        ("$ echo 'error: no'; exit 1\nerror: no", None),
        ("$ echo one\ntwo", "printed"),
        ("$ echo one\n$ echo two\nthree", "printed"),
        ("$ exit 3", "status 3"),
        ("one", "starts with output"),
    ],
)
def test_console_blocks_are_held_to_what_they_show(block, complaint, tmp_path):
    page = tmp_path / "page.md"
    page.write_text(f"```console\n{block}\n```\n")
    (example,) = SNIPPETS.parse(page)
    if complaint is None:
        example.evaluate()
    else:
        with pytest.raises(AssertionError, match=complaint):
            example.evaluate()
