"""Checking the CRC-32C of many small batches by one computation.

A checksum is cheap, but a call for each batch is not: with one record in a batch, the calls take half of all the time. A CRC is linear: that of a block is the
sum (XOR) of those of its parts, each moved on by the number of bytes that follow it. So the block's CRC is computed once, from its bytes and again from the
checksums that its batches' headers claim. If both agree, all batches are intact; errors in several batches can cancel each other with the same probability,
2⁻³², with which a single CRC misses an error. If they differ, the batches are looked at one by one.

Moving a CRC on by n bytes multiplies it by a constant that depends on n; tables hold the products for each digit of n and each byte of the CRC.
"""

from functools import cache

import google_crc32c
import numpy as np
import numpy.typing as npt

from quorate.codecs.columnar.frame import Ints

__all__ = ["all_intact"]

Crcs = npt.NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78  # CRC-32C, Castagnoli, bits reversed
ONES = 0xFFFFFFFF
DIGIT_BITS = 6
DIGITS = 5
SPAN = 1 << (2 * DIGIT_BITS)
"""Checksums are first moved to the next multiple of this, which takes two digits, and summed there."""


@cache
def _by_zero_byte() -> Crcs:
    """The CRC register after one zero byte, for each low byte of it."""
    table = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, (table >> 1) ^ np.uint32(POLYNOMIAL), table >> 1).astype(np.uint32)
    return table


def _after_zero(register: Crcs) -> Crcs:
    moved: Crcs = _by_zero_byte()[register & 0xFF] ^ (register >> 8)
    return moved


@cache
def _tables() -> npt.NDArray[np.uint32]:
    """`[digit, value of the digit, byte of the register, value of the byte]` → that byte's share in the register moved on by `value << (6 * digit)` bytes."""
    tables = np.zeros((DIGITS, 1 << DIGIT_BITS, 4, 256), dtype=np.uint32)
    unmoved = np.arange(256, dtype=np.uint32)[None, :] << np.array([[0], [8], [16], [24]], dtype=np.uint32)
    step = _after_zero  # moves on by one unit of the digit
    for digit in range(DIGITS):
        tables[digit, 0] = unmoved
        for value in range(1, 1 << DIGIT_BITS):
            tables[digit, value] = step(tables[digit, value - 1])
        unit = step(tables[digit, -1])

        def step(register: Crcs, unit: npt.NDArray[np.uint32] = unit) -> Crcs:
            moved: Crcs = unit[0][register & 0xFF]
            for byte in (1, 2, 3):
                moved = moved ^ unit[byte][(register >> (8 * byte)) & 0xFF]
            return moved

    return tables


def _moved(register: Crcs, by: Ints, digits: int) -> Crcs:
    """Each register moved on by its number of zero bytes, which has at most `digits` digits."""
    tables = _tables().reshape(DIGITS, -1)
    for digit in range(digits):
        table = tables[digit]
        place = (by >> (DIGIT_BITS * digit) & ((1 << DIGIT_BITS) - 1)) << 10
        moved = table[place | (register & 0xFF)]
        for byte in (1, 2, 3):
            moved ^= table[(place | byte << 8) | ((register >> (8 * byte)) & 0xFF)]
        register = moved
    return register


@cache
def _ones_moved(limit: int) -> Crcs:
    """A register of ones moved on by 0, 1, 2, … bytes."""
    lengths = np.arange(limit, dtype=np.int64)
    return _moved(np.full(limit, ONES, dtype=np.uint32), lengths, 3)


LONGEST = 1 << (3 * DIGIT_BITS - 2)
"""Batches of more bytes are better checked one by one."""


def all_intact(block: bytes, start: Ints, end: Ints, claimed: Crcs, covered_from: int) -> bool:
    """Whether the CRC of every batch, from `covered_from` bytes behind its start to its end, is what it claims.

    The batches follow each other without gaps, and each has at least `covered_from` and less than `LONGEST` bytes. Says `False` also if it cannot tell.
    """
    first, last = int(start[0]), int(end[-1])
    if last - first >= 1 << (DIGIT_BITS * DIGITS) or int((end - start).max()) >= LONGEST:
        return False
    bytes_ = np.frombuffer(block, np.uint8)[first:last].copy()
    headers = np.lib.stride_tricks.as_strided(
        np.ndarray((1,), f"V{covered_from}", bytes_.data), (len(bytes_) - covered_from + 1,), (1,)
    )
    headers[start - first] = np.zeros((), f"V{covered_from}")  # what no CRC covers counts as zeros
    size = last - first
    actual = (
        google_crc32c.value(bytes_.tobytes())
        ^ ONES
        ^ int(_moved(np.array([ONES], dtype=np.uint32), np.array([size]), DIGITS)[0])
    )

    # What a CRC routine returns contains the ones that the register starts with and is turned over with at the end.
    register = claimed ^ np.uint32(ONES) ^ _ones_moved(LONGEST)[end - start - covered_from]
    span = (end - first + SPAN - 1) // SPAN
    summed = _summed(_moved(register, span * SPAN - (end - first), 2), span)
    total = int(np.bitwise_xor.reduce(_moved(summed[1], size + SPAN - summed[0] * SPAN, DIGITS)))
    # Everything was moved on by one span too far, so that the last one, which may be cut short, is treated like the others.
    return total == int(_moved(np.array([actual], dtype=np.uint32), np.array([SPAN]), DIGITS)[0])


def _summed(registers: Crcs, span: Ints) -> tuple[Ints, Crcs]:
    """The spans that occur, in ascending order as given, and the sum of the registers in each."""
    firsts = np.flatnonzero(np.append(True, span[1:] != span[:-1]))
    return span[firsts], np.bitwise_xor.reduceat(registers, firsts)
