"""`TemporaryFolder`: a temporary folder for as long as this process lives, with certificates or a socket in it.

One that a killed process left behind goes with the next that is made.

The file `owner` in it is locked by the process that made it, and the system gives the lock up for
whoever dies; nothing else is touched: neither other names, nor other users' folders, nor what has
no such file.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

__all__ = ["TemporaryFolder"]

_PREFIX = "quorate-run-"
_OWNER = "owner"


class TemporaryFolder:
    """A folder that only this user can open; gone with `close`, at the end of the `with`, or of the process.

    Raises `OSError`.
    """

    def __init__(self) -> None:
        _remove_stale(Path(tempfile.gettempdir()))
        while True:
            self._folder = tempfile.TemporaryDirectory(prefix=_PREFIX, ignore_cleanup_errors=True)
            self.path = Path(self._folder.name)
            self._owner = _locked(self.path / _OWNER, os.O_CREAT)
            if self._owner is not None:
                return
            self._folder.cleanup()  # who looks for stale ones had the lock in that very moment, and takes the folder

    def close(self) -> None:
        """Remove it."""
        self._folder.cleanup()
        if self._owner is not None:
            os.close(self._owner)
            self._owner = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _locked(path: Path, flags: int) -> int | None:
    """The open file, locked; `None` if another has it, or if it is not there (any more)."""
    try:
        import fcntl
    except ImportError:  # Windows: nothing is found to be stale there
        return os.open(path, os.O_RDWR | flags)
    try:
        file = os.open(path, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(file), path.stat(follow_symlinks=False)):
            return file
    except OSError:
        pass
    os.close(file)
    return None


def _remove_stale(where: Path) -> None:
    if os.name != "posix":
        return
    for folder in where.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.stat(follow_symlinks=False).st_uid != os.geteuid():
                continue
            owner = _locked(folder / _OWNER, 0)
            if owner is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(owner)
