"""Reconciliation: each transition of the table, and the resulting assignment."""

from dataclasses import replace
from pathlib import Path

import pytest

from quorate.codecs import Uuid
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.releases import KafkaVersion
from quorate.coordinator.behaviour import Behaviour
from quorate.coordinator.consumer.reconcile import TRANSITIONS, Situation, reconcile
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.state import ConsumerMember, MemberState

T, U = Uuid(bytes(15) + b"\x01"), Uuid(bytes(15) + b"\x02")
IMAGE = MetadataImage.EMPTY.with_topics(
    [TopicImage(name="t", id=T, replicas=((),) * 4), TopicImage(name="u", id=U, replicas=((),) * 4)]
)
STABLE, UNREVOKED, UNRELEASED, UNKNOWN = MemberState


def member(state: MemberState, *assigned: int, pending: tuple[int, ...] = (), epoch: int = 5) -> ConsumerMember:
    return ConsumerMember(
        member_id="m",
        epoch=epoch,
        previous_epoch=epoch - 1,
        state=state,
        assigned={T: dict.fromkeys(assigned, 3)} if assigned else {},
        pending_revocation={T: dict.fromkeys(pending, 3)} if pending else {},
    )


def situation(
    *target: int,
    epoch: int = 6,
    owned: tuple[int, ...] | None = None,
    taken: tuple[int, ...] = (),
    topics: str = "t u",
    changed: bool = False,
) -> Situation:
    """`taken`: partitions of another member."""
    return Situation(
        epoch=epoch,
        target={T: target} if target else {},
        owner_epoch=lambda topic_id, partition: 4 if partition in taken else -1,
        owned=None if owned is None else ([TopicPartitions(topic_id=T, partitions=owned)] if owned else []),
        topics=frozenset(topics.split()),
        subscription_changed=changed,
        image=IMAGE,
        jdk=17,
    )


MOVES = {
    (STABLE, STABLE): (member(STABLE, 0), situation(0, 1)),
    (STABLE, UNREVOKED): (member(STABLE, 0, 1), situation(0)),
    (STABLE, UNRELEASED): (member(STABLE, 0), situation(0, 1, taken=(1,))),
    (UNREVOKED, STABLE): (member(UNREVOKED, 0, pending=(1,)), situation(0, owned=(0,))),
    (UNREVOKED, UNREVOKED): (member(UNREVOKED, 0, 2, pending=(1,)), situation(0, owned=(0, 2))),
    (UNREVOKED, UNRELEASED): (member(UNREVOKED, 0, pending=(1,)), situation(0, 2, owned=(0,), taken=(2,))),
    (UNRELEASED, STABLE): (member(UNRELEASED, 0), situation(0, 1, epoch=5)),
    (UNRELEASED, UNREVOKED): (member(UNRELEASED, 0, 1), situation(0)),
    (UNRELEASED, UNRELEASED): (member(UNRELEASED, 0), situation(0, 1, 2, taken=(2,))),
    (UNKNOWN, STABLE): (member(UNKNOWN, 0), situation(0, owned=())),
    (UNKNOWN, UNRELEASED): (member(UNKNOWN), situation(1, owned=(), taken=(1,))),
}


def test_the_table_has_the_moves_of_these_examples_and_no_others() -> None:
    assert set(MOVES) == {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


def test_the_documentation_has_the_table() -> None:
    page = Path(__file__).resolve().parents[2] / "docs/explanation/consumer-groups.md"
    rows = [line.split("|")[1:3] for line in page.read_text("utf-8").splitlines() if line.startswith("| UN")]
    rows += [line.split("|")[1:3] for line in page.read_text("utf-8").splitlines() if line.startswith("| STABLE")]
    reported = {state.strip(): {one.strip() for one in others.split(",")} for state, others in rows}
    assert reported == {before.name: {after.name for after in afters} for before, afters in TRANSITIONS.items()}


@pytest.mark.parametrize("move", MOVES, ids=lambda move: f"{move[0].name} to {move[1].name}")
def test_a_step_makes_the_move(move: tuple[MemberState, MemberState]) -> None:
    before, seen = MOVES[move]
    after = reconcile(before, seen)
    assert (before.state, after.state) == move
    assert after.previous_epoch == before.epoch
    assert after.epoch == (before.epoch if after.state is UNREVOKED else seen.epoch)


def test_partitions_to_give_up_come_first_and_keep_the_epoch() -> None:
    after = reconcile(member(STABLE, 0, 1), situation(1, 2))
    assert after.assigned == {T: {1: 3}}
    assert after.pending_revocation == {T: {0: 3}}
    assert after.epoch == 5


def test_what_is_added_is_dated_by_the_target_and_what_stays_keeps_its_date() -> None:
    after = reconcile(member(STABLE, 1), situation(1, 2))
    assert after.assigned == {T: {1: 3, 2: 6}}


def test_nothing_is_given_up_twice_if_the_member_says_that_it_has_nothing() -> None:
    after = reconcile(member(STABLE, 0, 1), situation(1, 2, owned=()))
    assert (after.assigned, after.pending_revocation) == ({T: {1: 3, 2: 6}}, {})


def test_a_member_that_still_owns_what_it_has_to_give_up_stays_as_it_is() -> None:
    waiting = member(UNREVOKED, 0, pending=(1,))
    assert reconcile(waiting, situation(0, owned=(0, 1))) is waiting
    assert reconcile(waiting, situation(0, owned=None)) is waiting


def test_a_partition_that_comes_back_before_it_was_given_up_counts_as_free() -> None:
    after = reconcile(member(UNREVOKED, 0, pending=(1,)), situation(0, 1, owned=(0,), taken=(1,)))
    assert (after.state, after.assigned) == (STABLE, {T: {0: 3, 1: 6}})


def test_topics_that_are_no_longer_subscribed_to_are_given_up_at_once() -> None:
    after = reconcile(member(STABLE, 0, 1, epoch=6), situation(0, 1, topics="u", changed=True))
    assert (after.state, after.assigned, after.epoch) == (UNREVOKED, {}, 6)
    assert after.pending_revocation == {T: {0: 3, 1: 3}}
    gone = reconcile(member(STABLE, 0, 1, epoch=6), situation(0, 1, topics="u", changed=True, owned=()))
    assert (gone.state, gone.assigned, gone.pending_revocation) == (STABLE, {}, {})


def test_what_a_topic_that_is_given_up_adds_to_what_is_being_given_up_already() -> None:
    waiting = member(UNREVOKED, 0, 2, pending=(1, 3), epoch=6)
    after = reconcile(waiting, situation(0, 2, topics="u", changed=True, owned=(0, 1)))
    assert (after.state, after.assigned) == (UNREVOKED, {})
    assert after.pending_revocation == {T: {0: 3, 1: 3, 2: 3, 3: 3}}


def test_a_target_for_topics_that_are_no_longer_subscribed_to_is_not_handed_out() -> None:
    assert reconcile(member(STABLE), situation(0, 1, topics="u")).assigned == {}


def test_members_in_unknown_states_join_again_unless_they_own_nothing() -> None:
    for owned in (None, (0,)):
        with pytest.raises(ApiError) as caught:
            reconcile(member(UNKNOWN, 0), situation(0, owned=owned))
        assert caught.value.code == ErrorCode.FENCED_MEMBER_EPOCH
        assert str(caught.value) == "member m is in an unknown state; it must rejoin"


def test_a_member_that_is_where_it_should_be_is_not_touched() -> None:
    there = replace(member(STABLE, 0), epoch=6)
    assert reconcile(there, situation(0)) is there


def test_topics_that_are_gone_are_given_up_with_the_next_target_not_before() -> None:
    """Only a heartbeat that changes the subscription takes topics away at once (KAFKA-19431)."""
    there = member(STABLE, 0, 1, epoch=6)
    assert reconcile(there, situation(0, 1, topics="u")) is there
    waiting = member(UNREVOKED, 0, pending=(1,), epoch=6)
    assert reconcile(waiting, situation(0, topics="u", owned=(0, 1))) is waiting


def test_what_is_given_up_at_once_dates_the_previous_epoch() -> None:
    before = replace(member(STABLE, 0, 1, epoch=6), previous_epoch=2)
    after = reconcile(before, situation(0, 1, topics="u", changed=True, owned=()))
    assert (after.epoch, after.previous_epoch) == (6, 6)


def test_a_member_without_topics_gives_up_everything_and_a_new_one_stays_as_it_is() -> None:
    new = replace(member(STABLE, epoch=6), previous_epoch=-1)
    assert reconcile(new, situation(topics="", changed=True)) is new
    old = replace(member(STABLE, epoch=6), previous_epoch=5)
    assert reconcile(old, situation(topics="", changed=True)) == replace(old, previous_epoch=6)
    holds = replace(member(STABLE, 0, epoch=6), previous_epoch=-1)
    after = reconcile(holds, situation(topics="", changed=True, owned=(0,)))
    assert (after.state, after.assigned, after.pending_revocation) == (UNREVOKED, {}, {T: {0: 3}})
    revoking = member(UNREVOKED, 0, pending=(1,), epoch=6)
    after = reconcile(revoking, situation(topics="", changed=True, owned=(0, 1)))
    assert (after.state, after.assigned, after.pending_revocation) == (UNREVOKED, {}, {T: {0: 3, 1: 3}})


def test_a_move_that_the_table_does_not_have_is_not_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSITIONS, STABLE, frozenset())  # type: ignore[call-overload]
    with pytest.raises(AssertionError, match="member m cannot change from STABLE to UNREVOKED_PARTITIONS"):
        reconcile(member(STABLE, 0, 1), situation(1))


def test_before_kafka_4_3_a_member_that_revokes_again_goes_one_epoch_on() -> None:
    """KAFKA-19974: since 4.3 it stays at its epoch until it reaches the target's."""
    older = replace(situation(0, owned=(0, 1)), behaviour=Behaviour.of(KafkaVersion(4, 0, 2)))
    first = reconcile(member(STABLE, 0, 1, epoch=5), older)
    assert (first.state, first.epoch) == (UNREVOKED, 5)
    again = reconcile(member(UNREVOKED, 0, 1, pending=(2,), epoch=5), older)
    assert (again.state, again.epoch) == (UNREVOKED, 6)
    newest = reconcile(member(UNREVOKED, 0, 1, pending=(2,), epoch=5), situation(0, owned=(0, 1)))
    assert (newest.state, newest.epoch) == (UNREVOKED, 5)


def test_before_kafka_4_2_a_member_gets_what_its_target_says_whatever_it_subscribes_to() -> None:
    """KAFKA-19431."""
    older = replace(situation(0, 1, topics="u"), behaviour=Behaviour.of(KafkaVersion(4, 0, 2)))
    assert reconcile(member(STABLE), older).assigned == {T: {0: 6, 1: 6}}
