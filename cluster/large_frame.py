"""A large request while it is being received, in memory that is returned to the system after use.

Buffers of the C library's allocator would stay with the process: 60 connections that each sent half
of a 10 MB request left it 200 MB larger.
"""

import sys
from mmap import mmap

LARGE_BYTES = 1 << 18
"""How many bytes of a request must arrive before it gets memory of its own, so that a size prefix
alone costs nothing.
"""


class LargeFrame:
    """A frame of `size` bytes that arrives in pieces.

    Memory is allocated page by page, on writes. Raises `OSError` if the system has no memory left.
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
        """Append bytes, at most `missing_bytes`."""
        self._memory.write(data)
        self.missing_bytes -= len(data)

    def __len__(self) -> int:
        return self._size

    def take(self) -> bytes:
        """Return the frame, and free its memory."""
        frame = self._memory[:]
        self._memory.close()
        return frame

    def discard(self) -> None:
        """Free the memory."""
        self._memory.close()
