"""Compression with Kafka's framing, and a limit on the decompressed size.

gzip, snappy, lz4 and zstd come from cramjam. This module adds Kafka's framing: the xerial header
for snappy, lz4 frames of independent blocks, as Kafka's reader requires (KIP-57), and lz4 frames
with the wrong header checksum of old clients (KAFKA-3160). Knows nothing about records.
"""

import struct
import zlib
from collections.abc import Callable

from quorate.codecs.errors import QuorateError

_XERIAL_MAGIC = b"\x82SNAPPY\x00"
_XERIAL_HEADER = _XERIAL_MAGIC + struct.pack(">ii", 1, 1)  # version, oldest compatible version
_XERIAL_BLOCK_BYTES = 32 * 1024
_GZIP_MAGIC = b"\x1f\x8b\x08"
_GZIP_MIN_MEMBER = 18
"""Java looks for another member only if more bytes follow than one header and trailer take."""
_GZIP_STEP, _GZIP_MAX_STEP = 128, 1 << 16
"""Bytes of a member that are read at once: at first, and at most."""
_LZ4_MAGIC = b"\x04\x22\x4d\x18"
_LZ4_FLAGS = b"\x60\x40"  # frame version 1, independent blocks without checksums; blocks of at most 64 KiB
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 0x80000000

_INT32 = struct.Struct(">i")
_UINT32_LE = struct.Struct("<I")


class DecompressionError(QuorateError, ValueError):
    """The bytes do not decompress; the message has the error of the library."""


class TooLargeError(QuorateError, ValueError):
    """The decompressed bytes would exceed the limit."""


def decompress(compression: str, data: bytes, limit_bytes: int) -> bytes:
    """Decompress the payload of a batch to at most `limit_bytes`.

    Raises `DecompressionError`, or `TooLargeError` as soon as the limit is exceeded, so that a few
    kilobytes cannot fill the memory.
    """
    match compression:
        case "gzip":
            return _gzip(data, limit_bytes)
        case "snappy":
            return _snappy(data, limit_bytes)
        case "lz4":
            import cramjam

            return _bounded(cramjam.lz4.decompress_into, _first_lz4_frame(_fix_lz4_checksum(data)), limit_bytes)
        case "zstd":
            import cramjam

            return _bounded(cramjam.zstd.decompress_into, data, limit_bytes)
    raise DecompressionError("no Kafka release has this compression")


def compress(compression: str, data: bytes, *, magic: int = 2) -> bytes:
    """Compress a payload so that Kafka's clients and brokers read it.

    Raises `ValueError` for an unknown compression.
    """
    import cramjam

    match compression:
        case "gzip":
            return bytes(cramjam.gzip.compress(data))
        case "snappy":
            return _xerial(data)
        case "lz4":
            return _lz4_frame(data, broken_checksum=magic == 0)
        case "zstd":
            return bytes(cramjam.zstd.compress(data))
    raise ValueError(f"compression {compression!r} is not known; use none, gzip, snappy, lz4 or zstd")


def _bounded(decompress_into: Callable[[bytes, bytearray], int], data: bytes, limit_bytes: int) -> bytes:
    """Decompress into a buffer that grows up to the limit.

    None of the formats has to state its size.
    """
    import cramjam

    size = min(limit_bytes, max(4096, 16 * len(data)))
    while True:
        buffer = bytearray(size)
        try:
            written = decompress_into(data, buffer)
        except cramjam.DecompressionError as error:
            if "write whole buffer" not in str(error):
                raise DecompressionError(str(error)) from None
            if size >= limit_bytes:
                raise TooLargeError(f"more than {limit_bytes:,} bytes") from None
            size = min(limit_bytes, 8 * size)
        else:
            return bytes(memoryview(buffer)[:written])


def _gzip(data: bytes, limit_bytes: int) -> bytes:
    """Decompress one or more concatenated gzip members.

    Trailing bytes that do not begin like a member are ignored, as in Java's reader.
    """
    import cramjam

    try:
        return _bounded(cramjam.gzip.decompress_into, data, limit_bytes)
    except DecompressionError as error:
        size = _gzip_size(data, limit_bytes)
        if size in (None, len(data)):
            raise error from None
        return _bounded(cramjam.gzip.decompress_into, data[:size], limit_bytes)


def _gzip_size(data: bytes, limit_bytes: int) -> int | None:
    """Return the number of bytes that whole members take; `None` if one is damaged.

    Raises `TooLargeError`. The time is linear in the sizes, for any number of members.
    """
    view = memoryview(data)
    position = total = 0
    while not position or (len(data) - position > _GZIP_MIN_MEMBER and data.startswith(_GZIP_MAGIC, position)):
        member = zlib.decompressobj(wbits=31)
        step = _GZIP_STEP
        while not member.eof:
            part = view[position : position + step]
            if not part:
                return None
            try:
                total += len(member.decompress(part, limit_bytes - total + 1))
            except zlib.error:
                return None
            if total > limit_bytes:
                raise TooLargeError(f"more than {limit_bytes:,} bytes")
            position += len(part) - len(member.unused_data)  # a copy, at most as long as `part`
            step = min(2 * step, _GZIP_MAX_STEP)
    return position


def _snappy(data: bytes, limit_bytes: int) -> bytes:
    """Decompress snappy, with xerial's framing (Java and most clients) or raw; Kafka reads both."""
    if not data.startswith(_XERIAL_MAGIC):
        return _snappy_block(data, limit_bytes)
    blocks: list[bytes] = []
    total = 0
    position, end = 0, len(data)
    while position < end:
        if data.startswith(_XERIAL_MAGIC, position):  # streams may be concatenated, each with its header
            position += len(_XERIAL_HEADER)
            if position > end:
                raise DecompressionError("xerial snappy: the header is cut off")
            continue
        if end - position < 4:
            break  # Java's reader also ends the stream where fewer bytes than a length are left
        (size,) = _INT32.unpack_from(data, position)
        position += 4
        if not 0 <= size <= end - position:
            raise DecompressionError(f"xerial snappy: a block of {size:,} bytes, but {end - position:,} are left")
        blocks.append(_snappy_block(data[position : position + size], limit_bytes, total))
        total += len(blocks[-1])
        position += size
    return b"".join(blocks)


def _snappy_block(block: bytes, limit_bytes: int, already: int = 0) -> bytes:
    import cramjam

    try:
        size = cramjam.snappy.decompress_raw_len(block)
        if already + size > limit_bytes:
            raise TooLargeError(f"more than {limit_bytes:,} bytes")
        # Snappy's best ratio is 64 bytes from 3. Allocate nothing for an impossible claim.
        if size > 64 * len(block):
            raise DecompressionError(f"snappy: {len(block):,} bytes cannot decompress to the claimed {size:,}")
        return bytes(cramjam.snappy.decompress_raw(block))
    except cramjam.DecompressionError as error:
        raise DecompressionError(str(error)) from None


def _xerial(data: bytes) -> bytes:
    import cramjam

    parts: list[bytes] = [_XERIAL_HEADER]
    for start in range(0, len(data), _XERIAL_BLOCK_BYTES):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + _XERIAL_BLOCK_BYTES]))
        parts += (_INT32.pack(len(block)), block)
    return b"".join(parts)


def _lz4_header_end(data: bytes) -> int | None:
    """Return where the header checksum of an lz4 frame is; `None` if no frame begins here."""
    if len(data) < 7 or not data.startswith(_LZ4_MAGIC):
        return None
    flags = data[4]
    end = 6 + (8 if flags & 0x08 else 0) + (4 if flags & 0x01 else 0)  # content size, dictionary id
    return end if end < len(data) else None


def _header_checksum(descriptor: bytes) -> int:
    import xxhash

    return (xxhash.xxh32_intdigest(descriptor) >> 8) & 0xFF


def _fix_lz4_checksum(data: bytes) -> bytes:
    """Correct the header checksum of KAFKA-3160, which includes the magic number."""
    end = _lz4_header_end(data)
    if end is None or data[end] == _header_checksum(data[4:end]) or data[end] != _header_checksum(data[:end]):
        return data
    return data[:end] + bytes((_header_checksum(data[4:end]),)) + data[end + 1 :]


def _first_lz4_frame(data: bytes) -> bytes:
    """Return the first frame, which is what Kafka's reader uses; all bytes if it has no end."""
    end = _lz4_header_end(data)
    if end is None:
        return data
    block_checksum, content_checksum = (4 if data[4] & flag else 0 for flag in (0x10, 0x04))
    position = end + 1
    while position + 4 <= len(data):
        (size,) = _UINT32_LE.unpack_from(data, position)
        position += 4
        size &= ~_LZ4_STORED
        if not size:
            return data[: position + content_checksum]
        position += size + block_checksum
    return data


def _lz4_frame(data: bytes, *, broken_checksum: bool) -> bytes:
    """Return an lz4 frame of independent blocks: Kafka's reader rejects linked ones.

    For magic 0 the header has the checksum that old clients expect.
    """
    import cramjam

    header = _LZ4_MAGIC + _LZ4_FLAGS
    parts: list[bytes] = [header, bytes((_header_checksum(header if broken_checksum else _LZ4_FLAGS),))]
    for start in range(0, len(data), _LZ4_BLOCK_BYTES):
        plain = data[start : start + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            parts += (_UINT32_LE.pack(len(block)), block)
        else:
            parts += (_UINT32_LE.pack(len(plain) | _LZ4_STORED), plain)
    parts.append(_UINT32_LE.pack(0))
    return b"".join(parts)
