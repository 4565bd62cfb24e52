"""The records of blocks that change groups, for a history without commits. Needs pyarrow."""

from collections.abc import Iterable, Iterator

import numpy as np

from quorate.codecs import LogEntry
from quorate.codecs.log.raw import RawBlock
from quorate.coordinator.bulk_block import rows_of_groups


def entries_of_groups(blocks: Iterable[RawBlock]) -> Iterator[LogEntry]:
    """Yield the records of blocks, in order, without commits that make no difference to groups.

    Commits that create groups are yielded. Some others are as well: the last row of each block, so
    that a caller knows how far it has read, and rows between two records with the same timestamp
    that were not written together.
    """
    for block in blocks:
        if len(block):
            needed = rows_of_groups(block)
            changes = np.cumsum(np.append(0, block.timestamp_ms[1:] != block.timestamp_ms[:-1]))
            first, then = needed[:-1], needed[1:]
            apart = (block.timestamp_ms[first] == block.timestamp_ms[then]) & (changes[first] != changes[then])
            between = np.searchsorted(changes, changes[first[apart]] + 1)
            yield from block.rows(np.unique(np.concatenate([needed, between, [len(block) - 1]]))).entries()
