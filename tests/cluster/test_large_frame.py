"""Memory of large requests, which one request leaves to the next."""

from quorate.cluster.large_frame import SPARE_BYTES, FrameMemory, LargeFrame


def received(memory: FrameMemory, content: bytes) -> bytes:
    frame = LargeFrame(len(content), memory)
    for start in range(0, len(content), 1_000):
        frame.add(content[start : start + 1_000])
    assert (frame.missing_bytes, len(frame)) == (0, len(content))
    return frame.take()


def test_a_frame_contains_nothing_of_the_one_before() -> None:
    memory = FrameMemory()
    for content in (b"a" * 9_999, b"b" * 3_500, b"c" * 8_000, b"d" * 70_000):
        assert received(memory, content) == content


def test_the_next_frame_has_the_same_memory() -> None:
    memory = FrameMemory()
    first = memory.take(10_000)
    memory.give_back(first)
    assert memory.take(20_000) is first  # twice the size of the first
    memory.give_back(first)
    assert memory.take(20_001) is not first


def test_frames_that_are_received_together_have_memory_of_their_own() -> None:
    memory = FrameMemory()
    one, other = LargeFrame(3, memory), LargeFrame(3, memory)
    one.add(b"one")
    other.add(b"two")
    assert (one.take(), other.take()) == (b"one", b"two")


def test_at_most_one_block_is_kept() -> None:
    memory = FrameMemory()
    kept, returned = memory.take(10_000), memory.take(10_000)
    memory.give_back(kept)
    memory.give_back(returned)
    assert not kept.closed
    assert returned.closed


def test_a_block_above_the_limit_is_not_kept() -> None:
    memory = FrameMemory()
    large = memory.take(SPARE_BYTES + 1)
    memory.give_back(large)
    assert large.closed
    assert not memory.take(SPARE_BYTES).closed
