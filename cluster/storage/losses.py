"""What is done about data that a start finds missing: it is refused, or the loss is accepted, and what is damaged is kept in a folder of its own."""

import shutil
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from quorate.cluster.errors import ClusterError
from quorate.cluster.storage.findings import FolderFindings, Loss
from quorate.cluster.storage.log_files import INDEXES
from quorate.codecs.log.files import segment_path

__all__ = ["Originals", "refusal", "repair"]

_MOST_NAMED = 10


def refusal(losses: Sequence[Loss], notes: Sequence[str] = ()) -> ClusterError:
    """Why a start is refused: the first losses in full, in one line, and what to do.

    `notes`: of what they may come from.
    """
    told = "; ".join([*notes, *(f"{one}; {one.lost} would be lost" for one in losses[:_MOST_NAMED])])
    if len(losses) > _MOST_NAMED:
        told += f"; and {len(losses) - _MOST_NAMED} more losses"
    return ClusterError(
        f"{told}; restore what is damaged from a copy, or start without it: --accept-data-loss, "
        f"or accept_data_loss=True in Python"
    )


class Originals:
    """The folder that damaged files are copied to before they are changed, `damaged-` and the time, made when it is needed."""

    def __init__(self, root: Path, now_ms: int) -> None:
        self._root = root
        at = datetime.fromtimestamp(now_ms / 1000, UTC)
        self.folder = root / f"damaged-{at:%Y%m%d-%H%M%S}"

    def keep(self, path: Path) -> bool:
        """Copy a file, if it is there. Returns whether it is. Raises `OSError`."""
        if not path.is_file():
            return False
        target = self.folder / path.relative_to(self._root)
        target.parent.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            shutil.copy2(path, target)
        return True


def repair(found: FolderFindings, originals: Originals) -> list[str]:
    """Leave of a folder what is whole; returns what to say of each loss. Raises `OSError`."""
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
    made = path.with_name(f"{path.name}.tmp")
    with path.open("rb") as source, made.open("wb") as target:
        for begin, end in keep:
            source.seek(begin)
            left = end - begin
            while left and (block := source.read(min(1 << 20, left))):
                target.write(block)
                left -= len(block)
    made.replace(path)
