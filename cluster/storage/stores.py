"""Where the bytes of a segment are: in memory, or in a file. Knows nothing of what the bytes mean.

Files are opened when they are needed; `Descriptors` keeps the last ones open, so that thousands of
partitions need no thousands of file descriptors.
"""

import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import google_crc32c

__all__ = ["Descriptors", "FileStore", "MemoryStore", "Store"]


class Store(Protocol):
    """Bytes that grow at their end."""

    size: int

    def append(self, data: bytes, sync: Callable[[], object] | None = None) -> None:
        """Add all of it, or nothing.

        Raises `OSError`. `sync`: called before it counts, to have it on the disk.
        """

    def read(self, position: int, count: int) -> bytes:
        """Up to so many bytes. Raises `OSError`."""

    def delete(self) -> None:
        """There is no such segment any more. What was read stays readable."""


class MemoryStore:
    """Bytes in memory, in the pieces in which they came: so nothing is copied when they grow, and a piece is given out as it is."""

    __slots__ = ("_pieces", "_starts", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0

    def append(self, data: bytes, sync: Callable[[], object] | None = None) -> None:
        """Add it; there is no disk."""
        self._pieces.append(data)
        self._starts.append(self.size)
        self.size += len(data)

    def read(self, position: int, count: int) -> bytes:
        """Up to so many bytes."""
        end = min(position + count, self.size)
        if position >= end:
            return b""
        first = bisect_right(self._starts, position) - 1
        last = bisect_left(self._starts, end)
        pieces = self._pieces[first:last]
        over = self._starts[last - 1] + len(pieces[-1]) - end
        if over:
            pieces[-1] = pieces[-1][: len(pieces[-1]) - over]
        if position > self._starts[first]:
            pieces[0] = pieces[0][position - self._starts[first] :]
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def delete(self) -> None:
        """Nothing is left behind."""


class Descriptors:
    """Open files, the `most` that were used last."""

    def __init__(self, most: int = 256) -> None:
        self.most = most
        self._open: OrderedDict[Path, int] = OrderedDict()

    def of(self, path: Path) -> int:
        """A file that is open for reading and writing. Raises `OSError`."""
        found = self._open.get(path)
        if found is None:
            while len(self._open) >= self.most:
                os.close(self._open.popitem(last=False)[1])
            found = self._open[path] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        else:
            self._open.move_to_end(path)
        return found

    def close(self, path: Path) -> None:
        """The file is not needed any more, or is another one from now on."""
        found = self._open.pop(path, None)
        if found is not None:
            os.close(found)

    def close_all(self) -> None:
        """None is needed any more."""
        while self._open:
            os.close(self._open.popitem()[1])


class Home(Protocol):
    """`home`: the folder of a log.

    It can become another one; that of a deleted log does not exist.
    """

    home: Path


class FileStore:
    """Bytes in a file, up to `size`, with their CRC-32C; what follows is the rest of a write that failed, and is overwritten.

    `files`: in whose folder the file is, called `name`.
    """

    __slots__ = ("_home", "_path", "crc", "descriptors", "files", "name", "size")

    def __init__(self, files: Home, name: str, descriptors: Descriptors, size: int = 0, crc: int = 0) -> None:
        self.files = files
        self.name = name
        self._home = files.home
        self._path = self._home / name
        self.descriptors = descriptors
        self.size = size
        self.crc = crc

    @property
    def path(self) -> Path:
        """Where it is now."""
        home = self.files.home
        if home is not self._home:  # else the same object, as each append looks for it
            self._home, self._path = home, home / self.name
        return self._path

    def rename(self, name: str) -> None:
        """Have the file take the place of another one in the folder. Raises `OSError`."""
        self.descriptors.close(self.path)
        self.path.replace(self._home / name)
        self.name, self._path = name, self._home / name

    def append(self, data: bytes, sync: Callable[[], object] | None = None) -> None:
        """Write after the end, then `sync`.

        After an `OSError` of either, the file is as before, or at least what counts of it.
        """
        descriptor = self.descriptors.of(self.path)
        done = 0
        try:
            while done < len(data):
                done += os.pwrite(descriptor, data[done:] if done else data, self.size + done)
            if sync is not None:
                sync()
        except OSError:
            if done:
                self.cut()
            raise
        self.size += len(data)
        self.crc = google_crc32c.extend(self.crc, data)

    def cut(self) -> None:
        """Cut off what is behind the end.

        If that cannot be, it is overwritten by what comes, or cut off when the log is opened again.
        """
        try:
            os.ftruncate(self.descriptors.of(self.path), self.size)
        except OSError:
            return

    def read(self, position: int, count: int) -> bytes:
        """Up to so many bytes."""
        return os.pread(self.descriptors.of(self.path), min(count, self.size - position), position)

    def sync(self) -> None:
        """Bring the file to the disk. Raises `OSError`."""
        os.fsync(self.descriptors.of(self.path))

    def delete(self) -> None:
        """Close the file; who deletes it is the partition's folder, which knows of its names."""
        self.descriptors.close(self.path)
