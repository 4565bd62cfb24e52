"""`TemporaryFolder`: a folder for certificates or sockets that exists as long as this process.

Folders of killed processes are removed when the next one is created.

The process locks the file `owner` in its folder; the system releases the lock when the process
ends. Only such folders of the same user are removed.
"""

import os
import shutil
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

_PREFIX = "quorate-run-"
_OWNER = "owner"


class TemporaryFolder:
    """A folder that only this user can open; removed by `close`, after a `with`, or at exit.

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
            self._folder.cleanup()  # another process held the lock while it searched for stale folders

    def close(self) -> None:
        """Remove the folder."""
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
    """Return the open, locked file; `None` if another process has locked or removed it."""
    try:
        import fcntl
    except ImportError:  # Windows, where stale folders are not removed
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
