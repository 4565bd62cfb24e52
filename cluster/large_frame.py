"""A large request while it is being received: in memory of its own, which the system has back as soon as it is not needed.

Buffers of the C library's allocator would stay with the process: 60 connections that each sent half
of 10 MB left it 200 MB larger for good.
"""

import sys
from mmap import mmap

__all__ = ["LARGE_BYTES", "LargeFrame"]

LARGE_BYTES = 1 << 18
"""So many bytes of a request have to be there before it gets memory of its own: an announcement
alone costs nothing.
"""


class LargeFrame:
    """`size` bytes that come in pieces.

    A page of memory is taken when something is written there. Raises `OSError` if the system has no
    room.
    """

    __slots__ = ("_memory", "_size", "missing_bytes")

    def __init__(self, size: int) -> None:
        if sys.platform == "win32":
            self._memory = mmap(-1, size)
        else:
            from mmap import MAP_ANONYMOUS, MAP_PRIVATE

            self._memory = mmap(-1, size, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self._size = self.missing_bytes = size

    def add(self, data: bytes | bytearray) -> None:
        """Write what follows; no more than is missing."""
        self._memory.write(data)
        self.missing_bytes -= len(data)

    def __len__(self) -> int:
        return self._size

    def take(self) -> bytes:
        """The frame, whose memory is given back."""
        frame = self._memory[:]
        self._memory.close()
        return frame

    def discard(self) -> None:
        """Give the memory back."""
        self._memory.close()
