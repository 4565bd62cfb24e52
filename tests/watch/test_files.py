"""Observers of recorded logs: captures of real brokers, in which the history is known."""

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.codecs.errors import InputError
from quorate.codecs.log import read_log
from quorate.coordinator.history import EpochBumped, events
from quorate.coordinator.history.facts import GenerationBegan, Move, TargetChanged
from quorate.watch import EventKind, MemberLeft, Observer, PartitionsChanged, Upgraded, rebalance

CAPTURES = Path(__file__).parents[1] / "data" / "captures"


@contextmanager
def watched(name: str, **options: object) -> Iterator[Observer]:
    with Observer.of_files(CAPTURES / name, **options) as observer:
        observer.wait_until_caught_up()
        assert not observer.problems()
        yield observer


@pytest.mark.parametrize("name", ["classic-3.9", "consumer-4.3", "share-4.3", "streams-4.3", "transactions-4.3"])
def test_each_epoch_and_generation_is_one_rebalance(name):
    expected: Counter[tuple[str, int]] = Counter()
    moved: dict[tuple[int | None, int], list[Move]] = {}
    for event in events(read_log(CAPTURES / name)):
        for fact in event.facts:
            if isinstance(fact, EpochBumped | GenerationBegan):
                expected[event.group_id, fact.after] += 1
            if isinstance(fact, TargetChanged) and fact.classic:
                moved[event.partition, event.offset] = list(fact.moves)
    assert expected
    with watched(name) as observer:
        for kind in (EventKind.REBALANCE_BEGAN, EventKind.REBALANCE_ENDED):
            found = observer.events(kinds=[kind], limit=10_000)
            seen = Counter((one.group_id, one.epoch) for one in found)
            open_at_the_end = expected - seen
            assert seen <= expected
            # A rebalance that the log does not end has no end here.
            assert not open_at_the_end or kind is EventKind.REBALANCE_ENDED
            assert all(one.cause is not None for one in found)
        for one in found:
            if (one.partition, one.offset) in moved:
                assert len(one.moved) == len(moved[one.partition, one.offset])


def test_an_upgrade_and_new_partitions_are_recognized():
    with watched("upgrade-4.0-to-4.3-and-back") as observer:
        found = {one.epoch: one for one in observer.events(group_id="bill-orders", kinds=[EventKind.REBALANCE_ENDED])}
        assert isinstance(found[3].cause, Upgraded)
        assert isinstance(found[4].cause, PartitionsChanged)
        assert found[4].cause.topics == ("orders",)
        assert len(found[4].moved) == 5
        assert found[4].duration_ms == 245
        between = observer.group("bill-orders", at_ms=found[4].at_ms - 1)
        assert {row.epoch for row in between.members} == {3, 4}
        sentences = observer.difference("bill-orders", from_ms=found[3].at_ms, to_ms=found[4].at_ms)
        assert any("orders" in sentence for sentence in sentences)
        spans = observer.ownership("bill-orders", from_ms=0, to_ms=found[5].at_ms)
        assert {span.partition for span in spans if span.topic == "orders"} == set(range(9))


def test_a_second_start_resumes_and_repeats_nothing(tmp_path):
    with watched("consumer-4.3", state=tmp_path) as observer:
        before = observer.events(limit=10_000)
        moments = {one.group_id: observer.group(one.group_id) for one in observer.groups()}
    with watched("consumer-4.3", state=tmp_path) as observer:
        assert observer.events(limit=10_000) == before
        assert observer.status().records == 0
        for group_id, moment in moments.items():
            again = observer.group(group_id)
            assert (again.members, again.partitions) == (moment.members, moment.partitions)
        left = observer.events(kinds=[EventKind.REBALANCE_ENDED], limit=10_000)
        assert any(rebalance(cause=MemberLeft)(one) for one in left)


def test_a_state_folder_is_of_one_log(tmp_path):
    with watched("share-4.3", state=tmp_path):
        pass
    with pytest.raises(InputError, match="belongs to"), watched("consumer-4.3", state=tmp_path):
        pass


def test_a_state_folder_has_one_observer(tmp_path):
    second = Observer.of_files(CAPTURES / "share-4.3", state=tmp_path)
    with watched("share-4.3", state=tmp_path), pytest.raises(InputError, match="another observer"):
        second.start()
