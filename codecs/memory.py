"""One word to the C library's allocator: that large arrays will come and go.

glibc hands memory of large arrays back to the system when they are freed, and the system hands it out again page by page, cleared: for arrays that live for one
step of a computation, and are as large as ours, that takes 40 % of all the time. glibc learns better by itself as soon as a large array was freed
once (its mmap threshold rises to that size, up to 32 MiB), so we free one before we start. No page of it is touched. Other allocators are not concerned.
"""

import numpy as np

__all__ = ["expect_large_arrays"]

_LARGEST_BYTES = 31 << 20


def expect_large_arrays() -> None:
    """Have up to some 60 MB of freed memory kept for the next arrays, in this process, from now on."""
    np.empty(_LARGEST_BYTES, dtype=np.uint8)
