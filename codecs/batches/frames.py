"""Cutting a file of batches into frames: every format begins with an int64 offset and an int32 length.

Reads in blocks, so that memory depends on the largest batch and not on the file. Knows nothing of what is in a frame but its magic byte's place.
"""

from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO

from quorate.codecs.batches.model import BatchProblem, ProblemReason

__all__ = ["MAX_BATCH_BYTES", "Frame", "frames"]

Frame = tuple[bytes, int, int, int]
"""A buffer, where the frame begins and ends in it, and the position of its beginning in the file."""

MAX_BATCH_BYTES = 128 * 1024 * 1024
"""Default limit for one batch, compressed or not: above what a broker takes in one request (100 MiB), and small beside a machine's memory."""

_BLOCK_BYTES = 1 << 20
_LENGTH = Struct(">i")
_LENGTH_OFFSET = 8
_OVERHEAD = 12
_UP_TO_MAGIC = 17
_MIN_LENGTH = 14  # the smallest message, of format 0


def frames(file: BinaryIO, size: int, *, max_batch_bytes: int = MAX_BATCH_BYTES) -> Iterator[Frame | BatchProblem]:
    """The frames in the first `size` bytes of `file`, which stands at its beginning.

    What cannot be a frame is a problem, and the last thing that comes: the next frame could be anywhere. Zeros up to the end are not a problem:
    `log.preallocate` leaves them, and every broker on Windows.
    """
    buffer = b""
    start = 0
    base = 0  # position of buffer[0]
    most = max_batch_bytes - _OVERHEAD
    unpack_length = _LENGTH.unpack_from
    while True:
        available = len(buffer)
        need = _UP_TO_MAGIC
        while available - start >= _UP_TO_MAGIC:
            (length,) = unpack_length(buffer, start + _LENGTH_OFFSET)
            end = start + _OVERHEAD + length
            if end > available or length < _MIN_LENGTH or length > most:
                need = _OVERHEAD + length
                break
            yield buffer, start, end, base + start
            start = end
        position = base + start
        left = size - position
        if left <= 0:
            return
        if need < _OVERHEAD + _MIN_LENGTH and available - start >= _UP_TO_MAGIC:
            zeros = _zeros(buffer, start, file, left)
            if zeros == left:
                return
            detail = f"the length of the batch is {need - _OVERHEAD:,}, at least {_MIN_LENGTH} is possible"
            if need == _OVERHEAD:
                detail += f"; {zeros:,} bytes here are zero, but more data follows"
            yield BatchProblem(position=position, size_bytes=left, reason=ProblemReason.BAD_LENGTH, detail=detail)
            return
        if need > left:
            if left < _UP_TO_MAGIC and _zeros(buffer, start, file, left) == left:
                return
            said = (
                f"the batch has {need:,} bytes by its header" if left >= _UP_TO_MAGIC else "that is less than a header"
            )
            detail = f"{left:,} bytes are left at the end of the file; {said}"
            yield BatchProblem(position=position, size_bytes=left, reason=ProblemReason.TORN_TAIL, detail=detail)
            return
        if need > max_batch_bytes:
            detail = f"the batch has {need:,} bytes by its header, {max_batch_bytes:,} are allowed"
            yield BatchProblem(position=position, size_bytes=left, reason=ProblemReason.TOO_LARGE, detail=detail)
            return
        missing = need - (available - start)
        block = file.read(min(max(_BLOCK_BYTES, missing), left - (available - start)))
        if len(block) < missing:
            short = available - start + len(block)
            detail = f"the file ended {left - short:,} bytes earlier than when it was opened"
            yield BatchProblem(position=position, size_bytes=short, reason=ProblemReason.TORN_TAIL, detail=detail)
            return
        buffer = buffer[start:] + block
        base = position
        start = 0


def _zeros(buffer: bytes, start: int, file: BinaryIO, left: int) -> int:
    """How many of the next `left` bytes are zero before the first that is not."""
    block = buffer[start : start + left] or file.read(min(_BLOCK_BYTES, left))
    count = 0
    while block:
        stripped = block.lstrip(b"\x00")
        count += len(block) - len(stripped)
        if stripped:
            return count
        block = file.read(min(_BLOCK_BYTES, left - count))
    return count
