"""Facts and their sentences from generated views of a group, for cases that no capture has."""

import pytest

from quorate.coordinator.history import Cause, EpochBumped, GroupView, Labels, MemberView, diff_views, facts
from quorate.coordinator.history.difference import Written
from quorate.coordinator.state import GroupKind


def member(member_id="m", **how):
    return MemberView(**{"member_id": member_id, "protocol": "consumer", "epoch": 1, "topics": ("a",)} | how)


def group(*members, **how):
    made = {"group_id": "g", "kind": GroupKind.CONSUMER, "state": "Stable", "protocol_type": "consumer"} | {
        "epoch": 1,
        "assignment_epoch": 1,
        "metadata_hash": 7,
        "topics": frozenset({"a"}),
    }
    return GroupView(**made | how, members={one.member_id: one for one in members})


def reasons(before, after, written=None):
    (bump,) = (fact for fact in diff_views(before, after, written) if isinstance(fact, EpochBumped))
    return [reason.cause for reason in bump.reasons]


@pytest.mark.parametrize(
    ("changed", "cause", "sentence"),
    [
        ({"topics": ("a", "b")}, Cause.SUBSCRIPTION, "subscription of member m changed from a to a, b"),
        ({"topics": (), "regex": "x.*"}, Cause.SUBSCRIPTION, "subscription of member m changed from a to /x.*/"),
        ({"assignor": "range"}, Cause.ASSIGNOR, "assignor of member m changed from none to range"),
        ({"rack": "r"}, Cause.MEMBER, "rack of member m changed from none to r"),
        ({"protocol": "classic"}, Cause.MEMBER, "protocol of member m changed from consumer to classic"),
        ({"instance_id": "i"}, Cause.MEMBER, "instance of member m changed from none to i"),
    ],
)
def test_member_change_is_reported_as_reason(changed, cause, sentence):
    before, after = group(member()), group(member(**changed), epoch=2)
    assert str(diff_views(before, after)[0]) == sentence
    assert reasons(before, after) == [cause]


def test_a_member_that_takes_over_the_instance_id_of_another_one_replaces_it():
    before = group(member("old", instance_id="i"), member("m", instance_id="j", topics=("b",)))
    after = group(member("m", instance_id="i", topics=("a",)), epoch=2)
    assert str(diff_views(before, after)[0]) == "static member i rejoined: m replaced old"
    assert reasons(before, after) == [Cause.REPLACED]


def test_hash_change_by_a_subscription_is_no_separate_reason():
    before = group(member())
    wider = {"epoch": 2, "metadata_hash": 8, "topics": frozenset({"a", "b"})}
    assert reasons(before, group(member(topics=("a", "b")), **wider)) == [Cause.SUBSCRIPTION]
    assert reasons(before, group(member(), epoch=2, metadata_hash=8)) == [Cause.HASH]
    both = group(member(), member("n"), epoch=2, metadata_hash=8)
    assert reasons(before, both) == [Cause.JOINED, Cause.HASH]


def test_regex_removed_with_its_member_is_no_separate_reason():
    before = group(member(regex="a.*", topics=()), member("n"), regexes={"a.*": ("a", "ab")})
    assert reasons(before, group(member("n"), epoch=2)) == [Cause.LEFT]
    assert reasons(group(member(), regexes={"a.*": ("a",)}), group(member(), epoch=2)) == [Cause.REGEX]


def test_epoch_without_visible_cause_is_unknown_or_compacted():
    written = Written(epoch=True, topics=False, share_state=False)
    assert reasons(group(member()), group(member(), epoch=2), written) == [Cause.UNKNOWN]
    assert reasons(group(member()), group(member(), epoch=4), written) == [Cause.COMPACTED]
    assert reasons(group(member()), group(member(), epoch=4)) == [Cause.UNKNOWN]
    unwritten = Written(epoch=False, topics=False, share_state=False)
    assert not any(isinstance(fact, EpochBumped) for fact in diff_views(None, group(member()), unwritten))


def test_streams_group_epoch_changes_with_assignor_configs_and_topology():
    before = group(member(), kind=GroupKind.STREAMS, configs=frozenset({("k", "1")}), topology_epoch=0)
    other = group(member(), kind=GroupKind.STREAMS, configs=frozenset({("k", "2")}), topology_epoch=1, epoch=2)
    assert reasons(before, other) == [Cause.CONFIG, Cause.TOPOLOGY]


def test_streams_group_epoch_changes_with_the_topics_of_its_topology():
    """The metadata hash covers these topics, so it is no separate reason."""
    streams = {"kind": GroupKind.STREAMS, "topology_epoch": 0}
    missing = group(member(), **streams, validated_topology_epoch=-1)
    ready = group(member(), **streams, validated_topology_epoch=0, epoch=2, metadata_hash=8)
    assert reasons(missing, ready) == [Cause.TOPOLOGY_READY]
    assert reasons(ready, group(member(), **streams, validated_topology_epoch=-1, epoch=3, metadata_hash=9)) == [
        Cause.TOPOLOGY_NOT_READY
    ]
    assert reasons(ready, group(member(), **streams, validated_topology_epoch=0, epoch=3, metadata_hash=9)) == [
        Cause.HASH
    ]


def test_standby_tasks_move_and_are_gained_like_active_ones():
    standby = frozenset({("standby of subtopology 0", 1)})
    before = group(member(protocol="streams"), kind=GroupKind.STREAMS)
    after = group(
        member(protocol="streams", standby=standby, standby_target=standby), kind=GroupKind.STREAMS, assignment_epoch=2
    )
    assert [str(fact) for fact in diff_views(before, after)] == [
        "target assignment of epoch 2: standby of subtopology 0 1 to m",
        "member m is at epoch 1, assigned standby of subtopology 0 1",
    ]


def test_a_member_of_another_process_is_the_reason():
    before = group(member(protocol="streams", process_id="p"), kind=GroupKind.STREAMS)
    after = group(member(protocol="streams", process_id="q"), kind=GroupKind.STREAMS, epoch=2)
    assert str(diff_views(before, after)[0]) == "process of member m changed from p to q"
    assert reasons(before, after) == [Cause.MEMBER]


def test_member_is_the_reason_when_an_empty_classic_group_is_replaced():
    """In a group with members, the conversion itself is the reason."""
    classic = {"kind": GroupKind.CLASSIC, "metadata_hash": None, "topics": frozenset()}
    joined = group(member(), epoch=2)
    assert reasons(group(**classic), joined) == [Cause.JOINED]
    assert reasons(group(member("old", protocol="classic"), **classic), joined) == [Cause.CONVERTED]
    assert isinstance(diff_views(group(**classic), joined)[0], facts.GroupConverted)
    for_offsets = group(**classic | {"protocol_type": ""})
    assert diff_views(for_offsets, joined)[0] == facts.GroupCreated(kind=GroupKind.CONSUMER, for_offsets=False)


def test_moves_name_previous_and_new_members():
    before = group(member("x", target=frozenset({("a", 0), ("a", 1)})), member("y", target=frozenset({("a", 2)})))
    after = group(member("y", target=frozenset({("a", 0), ("a", 2), ("a", 3)})), epoch=2, assignment_epoch=2)
    (changed,) = (fact for fact in diff_views(before, after) if isinstance(fact, facts.TargetChanged))
    assert str(changed) == "target assignment of epoch 2: a 0 from x to y; a 1 from x to no member; a 3 to y"


def test_a_shared_partition_has_several_owners():
    shared = frozenset({("a", 0)})
    before = group(member("x", target=shared), kind=GroupKind.SHARE)
    after = group(member("x", target=shared), member("y", target=shared), kind=GroupKind.SHARE, assignment_epoch=2)
    (changed,) = (fact for fact in diff_views(before, after) if isinstance(fact, facts.TargetChanged))
    assert changed.moves == (facts.Move(partition=("a", 0), before=("x",), after=("x", "y")),)


def test_long_lists_of_reasons_are_shortened():
    crowd = group(*(member(f"m{number}") for number in range(7)), epoch=2)
    (bump,) = (fact for fact in diff_views(group(), crowd) if isinstance(fact, EpochBumped))
    assert len(bump.reasons) == 7
    assert bump.why(Labels()).endswith("member m3 joined; 3 more")


@pytest.mark.parametrize(
    ("fact", "sentence"),
    [
        (facts.RegexResolved(regex="x", before=("a",), after=None), "regex x is no longer used"),
        (
            facts.RegexResolved(regex="x", before=("a",), after=("b",)),
            "regex x now matches b and no longer matches a",
        ),
        (facts.RegexResolved(regex="x", before=(), after=()), "regex x matches nothing"),
        (
            facts.GenerationBegan(before=1, after=2, protocol=None, leader=None, members=0),
            "generation 2: no members",
        ),
        (facts.HashChanged(before=-1, after=0), "metadata hash 0xffffffffffffffff was removed"),
    ],
)
def test_sentences_of_facts_without_a_capture(fact, sentence):
    assert str(fact) == sentence
