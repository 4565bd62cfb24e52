"""What `verify` and `verify-client` print: verdicts, tables of counts, and files of JUnit XML."""

from collections import Counter
from collections.abc import Callable, Iterable
from enum import StrEnum
from pathlib import Path

import click

from quorate.cli.errors import UserError, check_writable
from quorate.cli.output import echo_lines, table_lines


def _writable(_: click.Context, __: click.Parameter, file: Path | None) -> Path | None:
    """Check the file before the run, whose results would be lost. Raises `UserError`."""
    if file is not None:
        check_writable("--junit", file)
    return file


junit_option = click.option(
    "--junit",
    type=click.Path(dir_okay=False, path_type=Path),
    callback=_writable,
    metavar="FILE",
    help="Write JUnit XML.",
)


def echo_rule(name: str, suite: str, source: str, rule: str) -> None:
    """Print a rule of a list."""
    click.echo(f"{click.style(name, bold=True)}  {suite}, {source}\n  {rule}")


def echo_verdict(outcome: str, suite: str, name: str, rule: str, source: str, detail: str) -> None:
    """Print a verdict that is not "passed", with the rule and what was found."""
    colour = "red" if outcome == "differs" else "yellow"
    click.echo(f"{click.style(outcome, fg=colour)}  {suite}: {name}\n  {rule} ({source})\n  {detail}")


def show_counts(outcomes: type[StrEnum], found: Iterable[tuple[str, StrEnum]]) -> None:
    """Print a table of how often each outcome was found, by suite."""
    counted = Counter(found)
    suites = list(dict.fromkeys(suite for suite, _ in counted))
    rows = [["SUITE", *(str(outcome).upper() for outcome in outcomes)]]
    rows += [[suite, *(str(counted[suite, outcome]) for outcome in outcomes)] for suite in suites]
    rows.append(["all", *(str(sum(counted[suite, outcome] for suite in suites)) for outcome in outcomes)])
    echo_lines(table_lines(rows, right={1, 2, 3}))


def write_junit(file: Path | None, report: Callable[[], bytes]) -> None:
    """Write JUnit XML, if a file is given. Raises `UserError`."""
    if file is None:
        return
    try:
        file.write_bytes(report())
    except OSError as error:
        raise UserError(f"cannot write {file}: {error.strerror}") from None
