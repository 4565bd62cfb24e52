"""Progress and damage of a log, on stderr."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quorate.cli.errors import show_error
from quorate.codecs.batches.model import ProblemReason
from quorate.codecs.log.model import LogProblem

_NEXT_BATCH = "use --skip-corrupt to continue with the next batch"
_REMEDIES = {
    ProblemReason.CRC_MISMATCH: _NEXT_BATCH,
    ProblemReason.UNKNOWN_MAGIC: _NEXT_BATCH,
    ProblemReason.NO_BEGINNING: "use --skip-corrupt to start at the first complete batch",
    ProblemReason.BAD_LENGTH: "use --skip-corrupt to continue at the next complete batch",
}
_REMEDIES_WITHOUT_RECORDS = {
    ProblemReason.UNREADABLE: "its records were not decoded; other files are",
    ProblemReason.NOT_A_LOG: "its content was not decoded; "
    "give the .log files of a partition, its folder, or a broker's log directory",
    ProblemReason.CUT_OFF: "data after this position is missing; all other files were read",
}


def show_damage(problem: LogProblem, *, skipped: bool = False) -> None:
    """Print a damaged batch or file as an error; reading continues.

    `skipped`: the command always continues after damage, also within a file.
    """
    show_error(str(problem), _remedy(problem, skipped=skipped))


def show_missing(reason: ProblemReason, text: str) -> None:
    """Print a damaged batch or file that is missing from a result of Spark, which has its text."""
    remedy = _REMEDIES_WITHOUT_RECORDS.get(reason, "the result may lack its records; batches that are whole were read")
    show_error(text, remedy)


def _remedy(problem: LogProblem, *, skipped: bool) -> str:
    if problem.reason in _REMEDIES_WITHOUT_RECORDS:
        return _REMEDIES_WITHOUT_RECORDS[problem.reason]
    before = "records before it were decoded; " if problem.position else ""
    if problem.rest_lost:
        return f"{before}no complete batch follows, the rest of the file is lost"
    if skipped:
        return "all other batches were read; the result may lack the records of this one"
    if problem.reason in _REMEDIES:
        return before + _REMEDIES[problem.reason]
    if problem.base_offset is not None and problem.base_offset < 0:
        return before + _NEXT_BATCH
    if problem.reason is ProblemReason.TOO_LARGE and problem.base_offset is None:
        return before + _REMEDIES[ProblemReason.BAD_LENGTH]
    return "all other batches were decoded; with --skip-corrupt the exit status is 0"


@contextmanager
def byte_progress(total_bytes: int) -> Iterator[Callable[[int], None] | None]:
    """Yield a function that moves a progress bar to a number of bytes out of `total_bytes`.

    Yields `None` unless stderr is a terminal and stdout is not, so that the bar does not mix with
    data.
    """
    if not sys.stderr.isatty() or sys.stdout.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total_bytes)
        yield lambda completed: bar.update(task, completed=completed)
