"""Shared parts of generated decoders and encoders: uuids, varints, tagged fields."""

from quorate.codecs.errors import QuorateError
from quorate.codecs.wire import TaggedField, Uuid


class Inexact(QuorateError):
    """The bytes are not exactly one message: too long, or different from the declaration."""


class _Uuids(dict[bytes, Uuid]):
    """Sixteen bytes → the id.

    Records and requests repeat few ids, and a lookup takes a third of the time of a new object.
    `LIMIT` bounds the memory.
    """

    LIMIT = 1 << 14

    def __missing__(self, data: bytes) -> Uuid:
        if len(self) >= self.LIMIT:
            self.clear()
        found = Uuid(data)
        self[bytes(data)] = found
        return found


UUIDS = _Uuids()


def read_uvarint(data: bytes, position: int) -> tuple[int, int]:
    """Read an unsigned varint; return it and the position after it.

    Raises `IndexError` if the bytes end inside it, and `Inexact` if it has more than five.
    """
    first = data[position]
    return (first, position + 1) if first < 0x80 else uvarint_rest(data, position + 1, first)


def uvarint_rest(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Read the rest of an unsigned varint whose first byte is `first`.

    The result is a signed 32-bit number, as in Java.
    """
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value - 0x100000000 if value >= 0x80000000 else value), position
    raise Inexact


def shortest_uvarint_rest(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Do the same as `uvarint_rest`, for a varint in its shortest form.

    Raises `Inexact` for a varint with more bytes or bits than its number needs.
    """
    value, end = uvarint_rest(data, position, first)
    if data[end - 1] == 0 or (end - position == 4 and data[end - 1] > 0x0F):
        raise Inexact
    return value, end


def uvarint(value: int) -> bytes:
    """Encode an unsigned varint of 32 bits.

    A negative number, which Java reads from five full bytes, is encoded to these again.
    """
    value &= 0xFFFFFFFF
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def merge_tags(
    written: list[tuple[int, bytes]], unknown: tuple[TaggedField, ...], known: frozenset[int]
) -> list[tuple[int, bytes]]:
    """Merge tagged fields in the order in which Kafka writes them.

    Each unknown field precedes the first known one with a greater tag. A negative tag is what Java
    reads from a varint of 2**31 or more. Raises `Inexact` with the reason.
    """
    out: list[tuple[int, bytes]] = []
    pending = [(extra.tag, extra.data) for extra in reversed(unknown)]
    for tag, _ in pending:
        if tag in known:
            raise Inexact("a tag of the declaration is among the unknown ones")
        if not -0x80000000 <= tag <= 0xFFFFFFFF:
            raise Inexact(f"tag {tag} does not fit 32 bits")
    for tag, data in written:
        while pending and pending[-1][0] < tag:
            out.append(pending.pop())
        out.append((tag, data))
    return out + pending[::-1]


def tag_section(fields: list[tuple[int, bytes]]) -> bytes:
    """Encode the tagged fields of a message, given by tag and payload."""
    parts = [uvarint(len(fields))]
    for tag, data in fields:
        parts += uvarint(tag), uvarint(len(data)), data
    return b"".join(parts)


_ONE_BYTE = [bytes([n]) for n in range(0x80)]
