"""Atomic replacement of files: a reader sees the old content or the new one, never a mix."""

import os
from pathlib import Path


def sync_folder(folder: Path) -> None:
    """Flush a folder's entries to disk (`fsync`). Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file.

    `durable`: flush the content before the rename, and the rename before returning. Raises
    `OSError`, and then the old file is unchanged.
    """
    temporary = path.with_name(path.name + ".tmp")
    with temporary.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    temporary.replace(path)
    if durable:
        sync_folder(path.parent)
