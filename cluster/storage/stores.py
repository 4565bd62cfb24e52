"""Stores of a segment's bytes, in memory or in a file, independent of their content.

Files are opened on demand. `Descriptors` limits the number of open files, also with thousands of
partitions.
"""

import os
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

import google_crc32c


class Store(Protocol):
    """Bytes that grow at their end."""

    size: int

    def append(self, data: bytes, sync: Callable[[], object] | None = None) -> None:
        """Append all bytes or none. `sync`: called to flush them, before they count.

        Raises `OSError`.
        """

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes. Raises `OSError`."""

    def delete(self) -> None:
        """Release the store of a deleted segment. Bytes that were read stay valid."""


class MemoryStore:
    """Bytes in memory, as the pieces that were appended.

    Appends and reads of a piece copy nothing.
    """

    __slots__ = ("_pieces", "_starts", "size")

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._starts: list[int] = []
        self.size = 0

    def append(self, data: bytes, sync: Callable[[], object] | None = None) -> None:
        """Append bytes. `sync` is ignored."""
        self._pieces.append(data)
        self._starts.append(self.size)
        self.size += len(data)

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes."""
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
        """Do nothing."""


class Descriptors:
    """The file descriptors that were used last, at most `most`."""

    def __init__(self, most: int = 256) -> None:
        self.most = most
        self._open: OrderedDict[Path, int] = OrderedDict()

    def of(self, path: Path) -> int:
        """Return a file descriptor for reading and writing. Raises `OSError`."""
        found = self._open.get(path)
        if found is None:
            while len(self._open) >= self.most:
                os.close(self._open.popitem(last=False)[1])
            found = self._open[path] = os.open(path, os.O_RDWR | os.O_CLOEXEC)
        else:
            self._open.move_to_end(path)
        return found

    def close(self, path: Path) -> None:
        """Close a file that is deleted or replaced."""
        found = self._open.pop(path, None)
        if found is not None:
            os.close(found)

    def close_all(self) -> None:
        """Close all files."""
        while self._open:
            os.close(self._open.popitem()[1])


class Home(Protocol):
    """`home`: the folder of a log, which can change. That of a deleted log does not exist."""

    home: Path


class FileStore:
    """Bytes in a file `name` in the folder of `files`, up to `size`, with their CRC-32C.

    Bytes after `size` are from a failed write, and are overwritten.
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
        """Current path of the file."""
        home = self.files.home
        if home is not self._home:  # otherwise reuse the path: each append needs it
            self._home, self._path = home, home / self.name
        return self._path

    def rename(self, name: str) -> None:
        """Rename the file, and replace one with that name. Raises `OSError`."""
        self.descriptors.close(self.path)
        self.path.replace(self._home / name)
        self.name, self._path = name, self._home / name

    def append(self, data: bytes, sync: Callable[[], object] | None = None) -> None:
        """Write at the end, then call `sync`. After an `OSError` of either, `size` is unchanged."""
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
        """Truncate the file to `size`.

        If that fails, the next append overwrites the rest, or the next start truncates it.
        """
        try:
            os.ftruncate(self.descriptors.of(self.path), self.size)
        except OSError:
            return

    def read(self, position: int, count: int) -> bytes:
        """Return up to `count` bytes. Raises `OSError`."""
        return os.pread(self.descriptors.of(self.path), min(count, self.size - position), position)

    def sync(self) -> None:
        """Flush the file to disk. Raises `OSError`."""
        os.fsync(self.descriptors.of(self.path))

    def delete(self) -> None:
        """Close the file. `LogFiles` deletes it, in all folders that link to it."""
        self.descriptors.close(self.path)
