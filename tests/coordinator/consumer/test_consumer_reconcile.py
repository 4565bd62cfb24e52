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
from quorate.coordinator.state.consumer_member import recorded

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
        assigned_partitions=recorded({T: dict.fromkeys(assigned, 3)} if assigned else {}),
        partitions_pending_revocation=recorded({T: dict.fromkeys(pending, 3)} if pending else {}),
    )


def situation(
    *target: int,
    epoch: int = 6,
    owned: tuple[int, ...] | None = None,
    taken: tuple[int, ...] = (),
    topics: str = "t u",
    changed: bool = False,
) -> Situation:
    """Return reconciliation input. `taken`: partitions that another member owns."""
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


def test_transition_table_equals_these_examples() -> None:
    assert set(MOVES) == {(before, after) for before, afters in TRANSITIONS.items() for after in afters}


def test_documentation_has_the_table() -> None:
    page = Path(__file__).resolve().parents[3] / "docs/explanation/consumer-groups.md"
    rows = [line.split("|")[1:3] for line in page.read_text("utf-8").splitlines() if line.startswith("| UN")]
    rows += [line.split("|")[1:3] for line in page.read_text("utf-8").splitlines() if line.startswith("| STABLE")]
    reported = {state.strip(): {one.strip() for one in others.split(",")} for state, others in rows}
    assert reported == {before.name: {after.name for after in afters} for before, afters in TRANSITIONS.items()}


@pytest.mark.parametrize("move", MOVES, ids=lambda move: f"{move[0].name} to {move[1].name}")
def test_reconciliation_step_makes_the_transition(move: tuple[MemberState, MemberState]) -> None:
    before, seen = MOVES[move]
    after = reconcile(before, seen)
    assert (before.state, after.state) == move
    assert after.previous_epoch == before.epoch
    assert after.epoch == (before.epoch if after.state is UNREVOKED else seen.epoch)


def test_revocation_comes_first_and_keeps_the_epoch() -> None:
    after = reconcile(member(STABLE, 0, 1), situation(1, 2))
    assert after.assigned == {T: {1: 3}}
    assert after.pending_revocation == {T: {0: 3}}
    assert after.epoch == 5


def test_new_partitions_have_the_targets_assignment_epoch_and_others_keep_theirs() -> None:
    after = reconcile(member(STABLE, 1), situation(1, 2))
    assert after.assigned == {T: {1: 3, 2: 6}}


def test_member_that_reports_no_partitions_need_not_revoke() -> None:
    after = reconcile(member(STABLE, 0, 1), situation(1, 2, owned=()))
    assert (after.assigned, after.pending_revocation) == ({T: {1: 3, 2: 6}}, {})


def test_member_that_still_owns_revoked_partitions_stays_unchanged() -> None:
    waiting = member(UNREVOKED, 0, pending=(1,))
    assert reconcile(waiting, situation(0, owned=(0, 1))) is waiting
    assert reconcile(waiting, situation(0, owned=None)) is waiting


def test_partition_assigned_again_during_its_revocation_is_free() -> None:
    after = reconcile(member(UNREVOKED, 0, pending=(1,)), situation(0, 1, owned=(0,), taken=(1,)))
    assert (after.state, after.assigned) == (STABLE, {T: {0: 3, 1: 6}})


def test_unsubscribed_topics_are_revoked_at_once() -> None:
    after = reconcile(member(STABLE, 0, 1, epoch=6), situation(0, 1, topics="u", changed=True))
    assert (after.state, after.assigned, after.epoch) == (UNREVOKED, {}, 6)
    assert after.pending_revocation == {T: {0: 3, 1: 3}}
    gone = reconcile(member(STABLE, 0, 1, epoch=6), situation(0, 1, topics="u", changed=True, owned=()))
    assert (gone.state, gone.assigned, gone.pending_revocation) == (STABLE, {}, {})


def test_unsubscribed_topics_are_added_to_pending_revocations() -> None:
    waiting = member(UNREVOKED, 0, 2, pending=(1, 3), epoch=6)
    after = reconcile(waiting, situation(0, 2, topics="u", changed=True, owned=(0, 1)))
    assert (after.state, after.assigned) == (UNREVOKED, {})
    assert after.pending_revocation == {T: {0: 3, 1: 3, 2: 3, 3: 3}}


def test_unsubscribed_topics_in_the_target_are_not_assigned() -> None:
    assert reconcile(member(STABLE), situation(0, 1, topics="u")).assigned == {}


def test_member_in_an_unknown_state_must_rejoin_unless_it_owns_nothing() -> None:
    for owned in (None, (0,)):
        with pytest.raises(ApiError) as caught:
            reconcile(member(UNKNOWN, 0), situation(0, owned=owned))
        assert caught.value.code == ErrorCode.FENCED_MEMBER_EPOCH
        assert str(caught.value) == "member m is in an unknown state; it must rejoin"


def test_member_at_its_target_is_not_changed() -> None:
    there = replace(member(STABLE, 0), epoch=6)
    assert reconcile(there, situation(0)) is there


def test_unsubscribed_topics_stay_until_the_next_target_without_a_subscription_change() -> None:
    """Only a heartbeat that changes the subscription revokes topics at once (KAFKA-19431)."""
    there = member(STABLE, 0, 1, epoch=6)
    assert reconcile(there, situation(0, 1, topics="u")) is there
    waiting = member(UNREVOKED, 0, pending=(1,), epoch=6)
    assert reconcile(waiting, situation(0, topics="u", owned=(0, 1))) is waiting


def test_revocation_of_unsubscribed_topics_sets_the_previous_epoch() -> None:
    before = replace(member(STABLE, 0, 1, epoch=6), previous_epoch=2)
    after = reconcile(before, situation(0, 1, topics="u", changed=True, owned=()))
    assert (after.epoch, after.previous_epoch) == (6, 6)


def test_member_without_topics_revokes_all_and_a_new_member_is_unchanged() -> None:
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


def test_transition_outside_the_table_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(TRANSITIONS, STABLE, frozenset())  # type: ignore[call-overload]
    with pytest.raises(AssertionError, match="member m cannot change from STABLE to UNREVOKED_PARTITIONS"):
        reconcile(member(STABLE, 0, 1), situation(1))


def test_before_kafka_4_3_another_revocation_increments_the_member_epoch() -> None:
    """KAFKA-19974: since 4.3 the member keeps its epoch until it reaches the target."""
    older = replace(situation(0, owned=(0, 1)), behaviour=Behaviour.of(KafkaVersion(4, 0, 2)))
    first = reconcile(member(STABLE, 0, 1, epoch=5), older)
    assert (first.state, first.epoch) == (UNREVOKED, 5)
    again = reconcile(member(UNREVOKED, 0, 1, pending=(2,), epoch=5), older)
    assert (again.state, again.epoch) == (UNREVOKED, 6)
    newest = reconcile(member(UNREVOKED, 0, 1, pending=(2,), epoch=5), situation(0, owned=(0, 1)))
    assert (newest.state, newest.epoch) == (UNREVOKED, 5)


def test_before_kafka_4_2_targets_apply_to_unsubscribed_topics() -> None:
    """KAFKA-19431."""
    older = replace(situation(0, 1, topics="u"), behaviour=Behaviour.of(KafkaVersion(4, 0, 2)))
    assert reconcile(member(STABLE), older).assigned == {T: {0: 6, 1: 6}}
