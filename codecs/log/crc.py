"""Checking the CRC-32C of many small batches by one computation.

A checksum is cheap, but a call for each batch is not: with one record in a batch, the calls take
half of all the time. So one CRC is computed over all batches, in a copy in which what stands
between the bytes that their checksums cover is replaced. A CRC's register that is fed its own four
bytes becomes 0, and there are four bytes that make it, from 0, what every checksum starts with. Put
between two batches, the first ones as the header claims them, these make the register end as it
began if all claims are true. If it does, all batches are intact: a CRC is linear, so errors in
several batches can cancel each other only with the probability, 2⁻³², with which a single CRC
misses an error. If it does not, they are looked at one by one.
"""

import google_crc32c
import numpy as np
import numpy.typing as npt

from quorate.codecs.columnar.frame import Ints

__all__ = ["all_intact"]

Crcs = npt.NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78  # CRC-32C, Castagnoli, bits reversed
ONES = 0xFFFFFFFF
"""What a register starts with; the checksum is the register with all bits turned over."""


def _leading_to(register: int) -> int:
    """The four bytes, the first one lowest, that turn a register of 0 into this one: what it was 32 zero bits ago."""
    for _ in range(32):
        register = (register ^ POLYNOMIAL) << 1 | 1 if register >> 31 else register << 1
    return register


START = _leading_to(ONES)


def all_intact(block: bytes, start: Ints, end: Ints, claimed: Crcs, covered_from: int) -> bool:
    """Whether the CRC of every batch, from `covered_from` (at least 8) bytes behind its start to its end, is what it claims.

    The batches follow each other without gaps, and each has at least `covered_from` bytes.
    """
    first, last = int(start[0]), int(end[-1])
    copy = np.empty(last - first + 4, dtype=np.uint8)
    copy[:-4] = np.frombuffer(block, np.uint8)[first:last]
    registers = (claimed ^ np.uint32(ONES)).astype("<u4")
    copy[-4:] = registers[-1:].view(np.uint8)
    between = np.zeros(len(start), dtype=[("register", "<u4"), ("zeros", f"V{covered_from - 8}"), ("start", "<u4")])
    between["register"][0] = ONES  # what all of it starts with
    between["register"][1:] = registers[:-1]
    between["start"] = START
    headers = np.lib.stride_tricks.as_strided(
        np.ndarray((1,), f"V{covered_from}", copy.data), (len(copy) - covered_from + 1,), (1,)
    )
    headers[start - first] = between.view(f"V{covered_from}")
    checksum: int = google_crc32c.value(copy)
    return checksum == ONES
