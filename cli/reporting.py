"""What goes to stderr beside the data: the progress bar, and what is wrong with the bytes of a log."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from quorate.cli.errors import show_error
from quorate.codecs.batches.model import ProblemReason
from quorate.codecs.log.model import LogProblem

__all__ = ["byte_progress", "show_damage"]

_NEXT_BATCH = "use --skip-corrupt to go on with the next batch"
_REMEDIES = {
    ProblemReason.CRC_MISMATCH: _NEXT_BATCH,
    ProblemReason.UNKNOWN_MAGIC: _NEXT_BATCH,
    ProblemReason.NO_BEGINNING: "use --skip-corrupt to begin with the first whole batch",
    ProblemReason.BAD_LENGTH: "use --skip-corrupt to look for the next whole batch and go on there",
}
_REMEDIES_WITHOUT_RECORDS = {
    ProblemReason.UNREADABLE: "what is in it was not decoded; other files are",
    ProblemReason.NOT_A_LOG: "nothing in it was decoded; give the .log files of a partition, its folder, or a broker's log directory",
    ProblemReason.CUT_OFF: "what was in it behind this place is not there; all other files were read",
}


def show_damage(problem: LogProblem, *, skipped: bool = False) -> None:
    """Say it in the form of an error; what comes after it is still read.

    `skipped`: also what comes after it in the file, without being asked for.
    """
    show_error(str(problem), _remedy(problem, skipped=skipped))


def _remedy(problem: LogProblem, *, skipped: bool) -> str:
    if problem.reason in _REMEDIES_WITHOUT_RECORDS:
        return _REMEDIES_WITHOUT_RECORDS[problem.reason]
    before = "records before it were decoded; " if problem.position else ""
    if problem.rest_lost:
        return f"{before}no whole batch was found behind it, the rest of the file is lost"
    if skipped:
        return "what else there is was read: what is shown may lack what was in there"
    if problem.reason in _REMEDIES:
        return before + _REMEDIES[problem.reason]
    if problem.reason is ProblemReason.TOO_LARGE and problem.base_offset is None:
        return before + _REMEDIES[ProblemReason.BAD_LENGTH]
    return "all other batches were decoded; --skip-corrupt takes that for good"


@contextmanager
def byte_progress(total_bytes: int, wanted: bool) -> Iterator[Callable[[int], None] | None]:
    """A progress bar over `total_bytes`, told how many are behind.

    Only where it does not get between the data: the data must go elsewhere.
    """
    if not wanted or not sys.stderr.isatty() or sys.stdout.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=total_bytes)
        yield lambda behind: bar.update(task, completed=behind)
