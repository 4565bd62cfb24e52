"""Leader epochs of a log with their start offsets (KIP-101), as in Kafka's LeaderEpochFileCache.

Entries are ordered from oldest to newest.
"""

Epochs = list[tuple[int, int]]


def with_epoch(epochs: Epochs, current: int, end: int) -> Epochs:
    """Return the epochs with the current one, which starts at the log end offset.

    It is added also if no record was written in it (LeaderEpochFileCache.assign).
    """
    if epochs and epochs[-1][0] >= current:
        return epochs
    return [*((epoch, start) for epoch, start in epochs if start < end), (current, end)]


def end_offset_for(epochs: Epochs, epoch: int, end: int) -> tuple[int, int]:
    """Return the largest epoch up to `epoch` and its end offset; (-1, -1) for a newer epoch."""
    if epoch == -1:
        return -1, -1
    known = [one for one, _ in epochs if one <= epoch]
    later = [start for one, start in epochs if one > epoch]
    if known and known[-1] == epoch and not later:
        return epoch, end
    if not later:
        return -1, -1
    return known[-1] if known else epoch, later[0]


def truncate_start(epochs: Epochs, start_offset: int) -> Epochs:
    """Drop epochs that end before the log start offset, and move the oldest one's start to it."""
    keep = max((index for index, (_, start) in enumerate(epochs) if start <= start_offset), default=0)
    left = epochs[keep:]
    if left and left[0][1] < start_offset:
        left[0] = (left[0][0], start_offset)
    return left
