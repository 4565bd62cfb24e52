"""An observer that is stopped at any moment continues as if it had not been."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import CONSUMER_OFFSETS, SHARE_GROUP_STATE
from quorate.codecs.log.files import find_partitions
from quorate.codecs.log.raw import RawBlock, read_raw
from quorate.coordinator.state import CoordinatorState
from quorate.watch import WatchEvent, WatchLimits
from quorate.watch.collector import Collector, ObservedGroup
from quorate.watch.store import WatchStore
from quorate.watch.topics import KnownTopics
from tests.coordinator.bulk_logs import NOW, STEPS, Step, blocks, in_order, replay_each
from tests.extent import portion

CAPTURES = Path(__file__).parents[1] / "data" / "captures"

FLUSH, STOP, KILL = "flush", "stop after a flush", "kill"

OF_OFFSETS = ("commit", "old version", "tombstone", "marker")


def places(state: CoordinatorState) -> dict[tuple[str, str, int], tuple[Any, ...]]:
    return {
        (group, topic, number): (
            one.value.offset,
            one.value.commit_timestamp,
            one.leader_epoch,
            one.topic_id,
            one.record_offset,
        )
        for group in state.offsets.committed
        for topic, number, one in state.offsets.of_group(group)
    }


def pending(state: CoordinatorState) -> dict[tuple[int, str, str, int], int]:
    return {
        (producer, group, topic, number): one.record_offset
        for producer, groups in state.offsets.pending.items()
        for group, topics in groups.items()
        for topic, partitions in topics.items()
        for number, one in partitions.items()
    }


class Run:
    """A collector in a folder, and the events that it reported."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.reported: list[WatchEvent] = []
        self._open()

    def _open(self) -> None:
        self.store = WatchStore(self._folder, "a log")
        topics = KnownTopics()
        topics.restore(self.store.names())
        self.collector = Collector(self.store, topics, WatchLimits(), self.reported.extend)

    def restart(self) -> None:
        self.store.close()
        self._open()

    def take(self, some: Sequence[RawBlock]) -> None:
        for block in some:
            self.collector.take(block)

    def state(self) -> CoordinatorState:
        followed = self.collector._partitions
        return followed[0].history.state if followed else CoordinatorState()


def events(reported: Sequence[WatchEvent]) -> list[WatchEvent]:
    """Return the events, without groups that their first commit created.

    A group whose offsets were all deleted has no record from which a restart could know it.
    """
    without = "group created, without members"
    return [replace(one, id=0) for one in reported if not one.sentence.startswith(without)]


def written_groups(run: Run) -> list[ObservedGroup]:
    """Return the groups without those of aborted transactions, of which no record is left."""
    return [one for one in run.collector.groups() if one.view.members or one.committed or one.view.epoch]


def compare(log: Sequence[RawBlock], actions: Sequence[str]) -> Iterator[tuple[Run, Run]]:
    """Yield a run that is never stopped, and one that is, after all blocks; both wrote each."""
    with TemporaryDirectory() as temporary:
        steady, stopped = Run(Path(temporary) / "steady"), Run(Path(temporary) / "stopped")
        for index, block in enumerate(log):
            action = actions[index % len(actions)]
            steady.take([block])
            steady.collector.flush(0, is_live=False)
            if action == KILL:
                stopped.take([block])  # and is killed before it is written
                stopped.restart()
            # As after a restart: everything is read again, and what was written is left out.
            stopped.take(log[: index + 1] if action == KILL else [block])
            stopped.collector.flush(0, is_live=False)
            if action == STOP:
                stopped.restart()
        assert events(stopped.reported) == events(steady.reported)
        for run in (steady, stopped):
            assert run.store.events(limit=10_000, after_id=0, newest_first=False) == run.reported
        assert written_groups(stopped) == written_groups(steady)
        for topic in (CONSUMER_OFFSETS, SHARE_GROUP_STATE):
            assert stopped.collector.next_offsets(topic) == steady.collector.next_offsets(topic)
        yield steady, stopped
        steady.store.close()
        stopped.store.close()


@settings(max_examples=portion(40), deadline=None)
@given(
    STEPS,
    st.lists(st.integers(1, 9), max_size=9),
    st.lists(st.sampled_from([FLUSH, STOP, KILL]), min_size=1, max_size=12),
    st.booleans(),
)
def test_restarts_keep_offsets_and_transactions(
    steps: list[Step], sizes: list[int], actions: list[str], timed: bool
) -> None:
    # Records that contradict each other do not survive Kafka's compaction either.
    steps = [one for one in steps if one[0] in OF_OFFSETS and not (one[0] == "tombstone" and one[5] % 5 == 4)]
    log = [
        replace(block, partition=0, timestamp_ms=NOW + block.offset // 3 if timed else block.timestamp_ms)
        for block in blocks(steps, sizes, in_order)
    ]
    expected = replay_each(steps)
    for runs in compare(log, actions):
        for run in runs:
            assert places(run.state()) == places(expected)
            assert pending(run.state()) == pending(expected)
            assert {one.group_id for one in run.collector.groups()} <= expected.groups.keys()


def parts_of(path: Path, random: Random) -> Iterator[RawBlock]:
    """Yield logs in parts that begin with a new timestamp, so that no write of a broker is cut."""
    for partition in find_partitions(path, topics=(CONSUMER_OFFSETS, SHARE_GROUP_STATE)):
        for block in read_raw(partition):
            changes = np.flatnonzero(block.timestamp_ms[1:] != block.timestamp_ms[:-1])
            cuts = sorted(random.sample(changes.tolist(), min(8, len(changes))))
            for offset in block.offset[cuts].tolist():
                yield block.upto(offset=offset)[0]
                block = block.since(offset + 1)
            yield block


@pytest.mark.parametrize("name", ["classic-3.9", "consumer-4.3", "share-4.3", "streams-4.3", "transactions-4.3"])
def test_restarts_lose_and_repeat_no_event_of_recorded_logs(name: str) -> None:
    random = Random(name)
    log = list(parts_of(CAPTURES / name, random))
    for steady, _ in compare(log, [random.choice([FLUSH, STOP, KILL]) for _ in log]):
        assert steady.reported
