"""Where the logs of a directory begin, brought to the disk by a thread of its own: `log-start-offset-checkpoint`."""

from pathlib import Path
from typing import TYPE_CHECKING

from quorate.cluster.flushing import Flusher, Unflushed

if TYPE_CHECKING:
    from quorate.cluster.storage.data import DataDirectory

__all__ = ["StartOffsets"]


class StartOffsets:
    """Where the logs of a directory begin, brought to the disk by the flusher, if there is one."""

    def __init__(self, data: "DataDirectory") -> None:
        self._data = data
        self.flusher: Flusher | None = None
        self._on_its_way: dict[Path, bytes] = {}

    def write(self) -> None:
        """Have it be there soon. Without a flusher it is when this returns. Raises `OSError`."""
        if self.flusher is not None and self.flusher.ask(self):
            return
        work = self.unflushed()
        error = work.flush()
        if error is not None:
            raise error
        self.flushed(0, more=False)

    def unflushed(self) -> Unflushed:
        """What has changed."""
        self._on_its_way = self._data.changed_starts()
        return Unflushed(replaced=self._on_its_way)

    def flushed(self, until: int, *, more: bool) -> None:
        """It is there."""
        self._data.starts_written(self._on_its_way)

    def flush_failed(self, error: OSError) -> None:
        """It is not, and is written with the next change."""
        self._data.starts_failed(error)
