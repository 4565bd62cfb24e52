"""Replacing a file as a whole: whoever reads it finds the old one or the new one, after a power failure, too, where that is asked for."""

import os
from pathlib import Path

__all__ = ["sync_folder", "write_atomically"]


def sync_folder(folder: Path) -> None:
    """Bring to the disk which files are in a folder. Raises `OSError`."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_atomically(path: Path, data: bytes, *, durable: bool = False) -> None:
    """Replace a file.

    `durable`: it is on the disk before it has the name, and the name before this returns. Raises
    `OSError`, and then the old one is there.
    """
    made = path.with_name(path.name + ".tmp")
    with made.open("wb") as file:
        file.write(data)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    made.replace(path)
    if durable:
        sync_folder(path.parent)
