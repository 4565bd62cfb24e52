"""Leader epochs of a log: each, oldest first, with the offset where it begins (KIP-101), as Kafka's LeaderEpochFileCache keeps them.

Knows of no batches.
"""

__all__ = ["Epochs", "begun_at", "end_of", "up_to"]

Epochs = list[tuple[int, int]]


def up_to(epochs: Epochs, led: int, end: int) -> Epochs:
    """The epochs of a log that ends at `end`, up to `led`, in which it is led now: that begins where the log ended before, also with nothing written in it (LeaderEpochFileCache.assign)."""
    if epochs and epochs[-1][0] >= led:
        return epochs
    return [*((epoch, start) for epoch, start in epochs if start < end), (led, end)]


def end_of(epochs: Epochs, epoch: int, end: int) -> tuple[int, int]:
    """The largest leader epoch up to `epoch`, and where it ended; (-1, -1) for one that is later than all."""
    if epoch == -1:
        return -1, -1
    known = [one for one, _ in epochs if one <= epoch]
    later = [start for one, start in epochs if one > epoch]
    if known and known[-1] == epoch and not later:
        return epoch, end
    if not later:
        return -1, -1
    return known[-1] if known else epoch, later[0]


def begun_at(epochs: Epochs, start_offset: int) -> Epochs:
    """The epochs of a log that begins at an offset now: without those that ended before; the one that it begins in, begins with it."""
    keep = max((index for index, (_, start) in enumerate(epochs) if start <= start_offset), default=0)
    left = epochs[keep:]
    if left and left[0][1] < start_offset:
        left[0] = (left[0][0], start_offset)
    return left
