"""Split a file of batches into frames.

Every format begins with an int64 offset and an int32 length.

Reads in blocks, so memory depends on the largest batch and not on the file. Looks inside a frame
only to find the next one after damage.
"""

import re
import zlib
from collections.abc import Iterator
from struct import Struct
from typing import BinaryIO

from quorate.codecs.batches import legacy
from quorate.codecs.batches.model import BatchProblem, ProblemReason
from quorate.codecs.batches.v2 import CRC_START, HEADER, HEADER_BYTES

Frame = tuple[bytes, int, int, int]
"""A buffer, where the frame begins and ends in it, and where it begins in the file."""

MAX_BATCH_BYTES = 128 * 1024 * 1024
"""Default limit for one batch, compressed or not.

It is above the largest request that a broker accepts (100 MiB), and fits into memory.
"""

_BLOCK_BYTES = 1 << 20
_LENGTH = Struct(">i")
_OFFSET = Struct(">q")
_LENGTH_OFFSET = 8
_OVERHEAD = 12
_UP_TO_MAGIC = 17
_MIN_LENGTH = 14  # the smallest message, of format 0
# The CRC and the attributes follow; only the lower byte of the attributes is used.
_MAGIC_2 = re.compile(rb"\x02(?=.{4}\x00)", re.DOTALL)
_MAGIC_OFFSET = 16
_GZIP = b"\x1f\x8b"


def frames(
    file: BinaryIO,
    size: int,
    *,
    max_batch_bytes: int = MAX_BATCH_BYTES,
    position: int = 0,
    resynchronise: bool = False,
) -> Iterator[Frame | BatchProblem]:
    """Yield the frames up to byte `size` of `file`, which is at `position`.

    Bytes that cannot be a frame are yielded as a problem, which comes last. With `resynchronise`
    the problem covers the bytes before the next batch of magic 2 with a valid CRC, and frames
    continue there. Without such a batch `rest_lost` is set. Zeros up to the end are not a problem:
    `log.preallocate` leaves them, and every broker on Windows.
    """
    buffer = b""
    start = 0
    base = position  # of buffer[0]
    most = max_batch_bytes - _OVERHEAD
    unpack_length = _LENGTH.unpack_from
    while True:
        available = len(buffer)
        need = _UP_TO_MAGIC
        no_batch = base == 0 and begins_with_no_batch(buffer)
        while available - start >= _UP_TO_MAGIC and not no_batch:
            (length,) = unpack_length(buffer, start + _LENGTH_OFFSET)
            end = start + _OVERHEAD + length
            if end > available or length < _MIN_LENGTH or length > most:
                need = _OVERHEAD + length
                break
            yield buffer, start, end, base + start
            start = end
        buffer = buffer[start:]
        base += start
        start = 0
        available = len(buffer)
        left = size - base
        if left <= 0:
            return
        possible = _OVERHEAD + _MIN_LENGTH <= need <= max_batch_bytes or available < _UP_TO_MAGIC
        if need <= left and possible:
            missing = need - available
            block = file.read(min(max(_BLOCK_BYTES, missing), left - available))
            buffer += block
            if len(block) < missing:
                detail = f"the file is {left - len(buffer):,} bytes shorter than when it was opened"
                yield BatchProblem(position=base, size_bytes=len(buffer), reason=ProblemReason.TORN_TAIL, detail=detail)
                return
            continue
        if available < _UP_TO_MAGIC:
            buffer += file.read(left - available)
        header = buffer[:_UP_TO_MAGIC]
        zeros, rest = _past_zeros(buffer, file, left)
        if zeros == left:
            return
        problem = _problem(header, base, left, max_batch_bytes, zeros)
        torn = problem.reason is ProblemReason.TORN_TAIL
        if not (torn or base == 0 or resynchronise):
            yield problem
            return
        # A batch may begin with zeros, those of its offset: the first byte that is not zero is
        # its magic byte or before.
        skipped = max(0, zeros - _MAGIC_OFFSET)
        found = next_batch(bytes(zeros - skipped) + rest, base + skipped, file, size, max_batch_bytes=max_batch_bytes)
        yield _classified(problem, header, found, resynchronise)
        if not resynchronise or found is None:
            return
        buffer, base = found


def begins_with_no_batch(buffer: bytes) -> bool:
    """Whether a file begins with bytes that are no batch although their length fits into `buffer`.

    A base offset never becomes large enough to set its first byte. But the CRC does not cover it,
    so bytes with a valid CRC are a batch nevertheless.
    """
    if len(buffer) < _UP_TO_MAGIC or not buffer[0]:
        return False
    end = _OVERHEAD + _LENGTH.unpack_from(buffer, _LENGTH_OFFSET)[0]
    if not _OVERHEAD + _MIN_LENGTH <= end <= len(buffer):
        return False
    magic = buffer[_MAGIC_OFFSET]
    if magic > 2 or end < min_batch_bytes(magic):
        return True
    written, computed = crcs(buffer, 0, end)
    return written != computed


def min_batch_bytes(magic: int) -> int:
    """Return the size of the smallest batch of magic 0, 1 or 2."""
    return HEADER_BYTES if magic == 2 else legacy.MIN_BYTES[magic]


def crcs(buffer: bytes, start: int, end: int) -> tuple[int, int]:
    """Return the CRC in the header of a frame of magic 0, 1 or 2, and the computed CRC."""
    if buffer[start + _MAGIC_OFFSET] == 2:
        import google_crc32c

        return int.from_bytes(buffer[start + 17 : start + CRC_START]), google_crc32c.value(
            buffer[start + CRC_START : end]
        )
    written = int.from_bytes(buffer[start + 12 : start + legacy.CRC_START])
    return written, zlib.crc32(buffer[start + legacy.CRC_START : end])


def next_batch(
    buffer: bytes, position: int, file: BinaryIO, size: int, *, max_batch_bytes: int = MAX_BATCH_BYTES
) -> tuple[bytes, int] | None:
    """Find the next whole batch of magic 2 with a valid CRC after `position`.

    Returns the bytes read from its first byte on, and its position in the file. `buffer` is at
    `position`; more is read from `file`, up to byte `size`. The work is bounded by a multiple of
    the bytes to search, however many of them look like headers.
    """
    import google_crc32c

    allowed = 4 * (size - position) + _BLOCK_BYTES
    min_start = 1  # no batch begins at `position` itself
    while True:
        need = 0
        for match in _MAGIC_2.finditer(buffer, min_start + _MAGIC_OFFSET):
            start = match.start() - _MAGIC_OFFSET
            need = HEADER_BYTES
            if start + need <= len(buffer):
                offset, length, epoch, _, crc, _, last_delta, _, _, _, _, _, count = HEADER.unpack_from(buffer, start)
                need = _OVERHEAD + length
                if not HEADER_BYTES <= need <= max_batch_bytes or min(offset, epoch + 1, last_delta, count) < 0:
                    continue
            if position + start + need > size:
                continue
            if start + need > len(buffer):
                break
            allowed -= need
            if allowed < 0:
                return None
            if google_crc32c.value(buffer[start + CRC_START : start + need]) == crc:
                return buffer[start:], position + start
        else:
            start = max(min_start, len(buffer) - CRC_START)
            need = 0
        buffer = buffer[start:]
        position += start
        min_start = 0
        wanted = min(max(_BLOCK_BYTES, need - len(buffer)), size - position - len(buffer))
        more = file.read(wanted) if wanted > 0 else b""
        if len(more) < wanted:
            size = position + len(buffer) + len(more)  # the file became shorter
        if not more and not need:
            return None
        buffer += more


def _problem(header: bytes, position: int, left: int, max_batch_bytes: int, zeros: int) -> BatchProblem:
    """Return why no frame can begin with this header.

    The header may be cut off. `left` is the number of bytes up to the end of the file.
    """
    reason = ProblemReason.TORN_TAIL
    detail = f"{left:,} bytes are left at the end of the file"
    if len(header) < _UP_TO_MAGIC:
        detail += "; a batch header is longer"
    else:
        (length,) = _LENGTH.unpack_from(header, _LENGTH_OFFSET)
        need = _OVERHEAD + length
        if length < _MIN_LENGTH:
            reason = ProblemReason.BAD_LENGTH
            detail = f"the batch has length {length:,}; the minimum is {_MIN_LENGTH}"
            if length == 0:
                detail += f"; {zeros:,} bytes here are zero, but more data follows"
        elif need > max_batch_bytes:
            reason = ProblemReason.TOO_LARGE
            detail = f"the header says the batch has {need:,} bytes; the limit is {max_batch_bytes:,}"
            if need > left:
                detail += f", and only {left:,} are left in the file"
        elif need <= left:  # `begins_with_no_batch`
            reason = ProblemReason.BAD_LENGTH
            detail = f"the header says the base offset is {_OFFSET.unpack_from(header)[0]:,}, which is not possible"
        else:
            detail += f"; the header says the batch has {need:,} bytes"
    return BatchProblem(position=position, size_bytes=left, reason=reason, detail=detail)


def _classified(
    problem: BatchProblem, header: bytes, found: tuple[bytes, int] | None, resynchronise: bool
) -> BatchProblem:
    """Return the problem with its final reason, given the next whole batch, if there is one."""
    position, reason, detail, size = problem.position, problem.reason, problem.detail, problem.size_bytes
    magic = header[_MAGIC_OFFSET] if len(header) > _MAGIC_OFFSET else 0
    if found is not None:
        buffer, place = found
        first, following = _OFFSET.unpack_from(header)[0], _OFFSET.unpack_from(buffer)[0]
        if position == 0 and (magic > 2 or not 0 <= first < following):
            # These bytes are not a length, so the message does not mention it.
            reason = ProblemReason.NO_BEGINNING
            detail = "the file does not begin with a batch, its first bytes are missing or overwritten"
            detail += f"; the first whole batch begins at {place:,}, with offset {following:,}"
        else:
            if reason is ProblemReason.TORN_TAIL:
                reason = ProblemReason.BAD_LENGTH
            detail += f"; a whole batch begins {place - position:,} bytes later, at {place:,}"
        size = place - position if resynchronise else size
        return BatchProblem(position=position, size_bytes=size, reason=reason, detail=detail)
    plausible = header[0] == 0 and magic <= 2
    if reason is ProblemReason.TORN_TAIL and plausible:
        return problem
    if position == 0 and not (reason is ProblemReason.TOO_LARGE and plausible):
        packed = ": it is gzip-compressed, decompress it first" if header.startswith(_GZIP) else ""
        reason = ProblemReason.NOT_A_LOG
        detail = f"this is not a log segment, or its beginning is damaged{packed}; {detail}"
    elif reason is ProblemReason.TORN_TAIL:
        reason = ProblemReason.BAD_LENGTH
        detail += f"; its magic would be {magic}" if magic > 2 else "; no batch begins with these bytes"
    return BatchProblem(position=position, size_bytes=size, reason=reason, detail=detail, rest_lost=True)


def _past_zeros(buffer: bytes, file: BinaryIO, left: int) -> tuple[int, bytes]:
    """Count the zeros that the next `left` bytes begin with; return also the bytes after them."""
    block = buffer[:left]
    count = 0
    while block:
        stripped = block.lstrip(b"\x00")
        count += len(block) - len(stripped)
        if stripped:
            return count, stripped
        block = file.read(min(_BLOCK_BYTES, left - count))
    return count, b""
