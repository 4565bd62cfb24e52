"""Check the CRC-32C of many small batches with one computation.

A checksum is cheap, but a call per batch is not: with one record per batch, the calls take half of
the time. So one CRC is computed over a copy of all batches, in which the bytes between the covered
ranges are replaced. A CRC register that is fed its own four bytes becomes 0, and four other bytes
turn 0 into the initial value of every checksum. If these bytes are put between the batches, using
the CRCs in the headers, the register ends as it began if all CRCs match.

A match means that all batches are intact. A CRC is linear, so errors in several batches cancel out
only with the probability (2⁻³²) with which one CRC misses an error. Without a match, the caller
checks the batches one by one.
"""

import google_crc32c
import numpy as np
import numpy.typing as npt

from quorate.codecs.columnar.frame import Ints

Crcs = npt.NDArray[np.uint32]

POLYNOMIAL = 0x82F63B78  # CRC-32C, Castagnoli, bits reversed
ONES = 0xFFFFFFFF
"""The initial value of a register; the checksum is the register with all bits inverted."""


def _bytes_for(register: int) -> int:
    """Return the four bytes, the first one lowest, that turn a register of 0 into this one.

    This is the register before 32 zero bits.
    """
    for _ in range(32):
        register = (register ^ POLYNOMIAL) << 1 | 1 if register >> 31 else register << 1
    return register


START = _bytes_for(ONES)


def all_intact(block: bytes, start: Ints, end: Ints, claimed: Crcs, covered_from: int) -> bool:
    """Whether the CRC of every batch matches `claimed`.

    A CRC covers its batch from `covered_from` (at least 8) bytes after its start. The batches
    follow each other without gaps, and each has at least `covered_from` bytes.
    """
    first, last = int(start[0]), int(end[-1])
    copy = np.empty(last - first + 4, dtype=np.uint8)
    copy[:-4] = np.frombuffer(block, np.uint8)[first:last]
    registers = (claimed ^ np.uint32(ONES)).astype("<u4")
    copy[-4:] = registers[-1:].view(np.uint8)
    between = np.zeros(len(start), dtype=[("register", "<u4"), ("zeros", f"V{covered_from - 8}"), ("start", "<u4")])
    between["register"][0] = ONES  # the initial value
    between["register"][1:] = registers[:-1]
    between["start"] = START
    headers = np.lib.stride_tricks.as_strided(
        np.ndarray((1,), f"V{covered_from}", copy.data), (len(copy) - covered_from + 1,), (1,)
    )
    headers[start - first] = between.view(f"V{covered_from}")
    checksum: int = google_crc32c.value(copy)
    return checksum == ONES
