"""Handling of data loss at a start: refuse the start, or accept the loss and keep damaged files."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from quorate.cluster.errors import ClusterError
from quorate.cluster.storage.findings import FolderFindings, Loss
from quorate.cluster.storage.log_files import INDEXES
from quorate.codecs.log.files import segment_path

_MAX_LISTED = 10


def refusal(losses: Sequence[Loss], notes: Sequence[str] = ()) -> ClusterError:
    """Return the error of a refused start: the first losses, in one line, and the remedy.

    `notes`: possible causes, which come first.
    """
    details = "; ".join([*notes, *(f"{loss}; {loss.lost} would be lost" for loss in losses[:_MAX_LISTED])])
    if len(losses) > _MAX_LISTED:
        details += f"; and {len(losses) - _MAX_LISTED} more losses"
    return ClusterError(
        f"{details}; restore the data from a copy, or start without it: --accept-data-loss, "
        f"or accept_data_loss=True in Python"
    )


class Originals:
    """The folder `damaged-TIME`, to which damaged files are copied before they are changed.

    It is created on first use.
    """

    def __init__(self, root: Path, now_ms: int) -> None:
        self._root = root
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        self.folder = root / f"damaged-{at:%Y%m%d-%H%M%S}"

    def keep(self, path: Path) -> bool:
        """Copy a file, and return whether it exists. Raises `OSError`."""
        if not path.is_file():
            return False
        target = self.folder / path.relative_to(self._root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(path, target)
        return True


def repair(found: FolderFindings, originals: Originals) -> list[str]:
    """Reduce a folder to its intact batches, and return a note for each loss. Raises `OSError`."""
    notes = []
    for loss in found.losses:
        kept = originals.keep(loss.path)
        where = f"; the damaged file is kept in {originals.folder}" if kept else ""
        notes.append(f"{loss}; {loss.lost} are lost{where}")
    for base, one in found.segments.items():
        path = segment_path(found.folder, base)
        if one.indexes_unchanged is False:
            for suffix in INDEXES:
                originals.keep(path.with_suffix(suffix))
        if len(one.keep) > 1 or (one.keep and one.keep[0][0] > 0):
            _rewrite(path, one.keep)
    found.repaired = found.has_gaps = True
    if found.checksums is not None:
        found.checksums.snapshot = (0, 0)
        closed = found.checksums.closed
        found.checksums.closed = {base: one for base, one in closed.items() if base in found.segments}
    return notes


def _rewrite(path: Path, keep: Sequence[tuple[int, int]]) -> None:
    rewritten = path.with_name(f"{path.name}.tmp")
    with path.open("rb") as source, rewritten.open("wb") as target:
        for begin, end in keep:
            source.seek(begin)
            left = end - begin
            while left and (block := source.read(min(1 << 20, left))):
                target.write(block)
                left -= len(block)
    rewritten.replace(path)
