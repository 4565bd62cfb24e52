"""Which assignor a group uses: one that all members can run, as they prefer; else the server's."""

from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quorate.codecs.api.consumer_group_heartbeat import ClientAssignor
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.coordinator.client_assignors.selection import Selected, selected
from tests.coordinator.client_assignors.scene import Scene

Versions = tuple[str, int, int]


def member(*assignors: Versions) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=None,
        rack_id=None,
        client_id="",
        client_host="",
        subscribed_topic_names=(),
        subscribed_topic_regex="",
        server_assignor=None,
        classic_member_metadata=None,
        client_assignors=tuple(
            ClientAssignor(name=name, minimum_version=low, maximum_version=high, metadata_version=low)
            for name, low, high in assignors
        ),
    )


def name_of(*members: ConsumerGroupMemberMetadataValue) -> str | None:
    found = selected(members)
    return None if found is None else found.name


def test_an_assignor_has_to_be_common_to_all() -> None:
    assert name_of(member(("a", 0, 0), ("b", 0, 0)), member(("b", 0, 0))) == "b"
    assert name_of(member(("a", 0, 0)), member(("b", 0, 0))) is None
    assert name_of(member(("a", 0, 0)), member()) is None
    assert name_of() is None


def test_versions_have_to_meet_in_all_members_not_in_pairs() -> None:
    assert selected([member(("a", 0, 3)), member(("a", 2, 5)), member(("a", 1, 2))]) == Selected("a", 2, 2)
    assert name_of(member(("a", 0, 1)), member(("a", 1, 2)), member(("a", 2, 3))) is None
    assert name_of(member(("a", 0, 1), ("b", 0, 0)), member(("a", 2, 3), ("b", 0, 0))) == "b"


def test_what_most_members_prefer_is_used() -> None:
    a, b, c = ("a", 0, 0), ("b", 0, 0), ("c", 0, 0)
    assert name_of(member(b, a), member(b, a), member(a, b)) == "b"
    assert name_of(member(c, b, a), member(b, a), member(a, b), member(a, b)) == "a", (
        "c counts for nothing: not all have it"
    )
    assert name_of(member(b, c, a), member(a, c, b)) == "a", "by name, if nothing else tells them apart"
    assert name_of(member(b, a, c), member(c, a, b), member(b, a, c), member(c, a, b)) == "b"


NAMES = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)
LISTS = st.lists(
    NAMES.flatmap(
        lambda names: st.tuples(*(st.tuples(st.just(name), st.integers(0, 2), st.integers(2, 4)) for name in names))
    ),
    max_size=5,
)


@given(lists=LISTS, seed=st.integers())
def test_the_choice_is_common_and_does_not_hang_on_the_order_of_members(
    lists: list[tuple[Versions, ...]], seed: int
) -> None:
    members = [member(*one) for one in lists]
    found = selected(members)
    common = set.intersection(*({name for name, _, _ in one} for one in lists)) if lists else set()
    assert (found is not None) == bool(common), "all ranges here meet in version 2"
    if found is not None:
        assert found.name in common
        for one in lists:
            low, high = next((low, high) for name, low, high in one if name == found.name)
            assert low <= found.minimum_version <= found.maximum_version <= high
    Random(seed).shuffle(members)
    assert selected(members) == found


def test_a_group_goes_over_to_another_assignor_when_the_last_member_can_run_it() -> None:
    """A rolling restart with a new assignor: until all have it, the old one is used."""
    old, new = ClientAssignor(name="old"), ClientAssignor(name="new")
    scene = Scene()
    scene.join("A", assignors=(new, old))
    assert scene.prepare("A").assignor_name == "new"
    scene.join("B", assignors=(old,))
    assert scene.beat("A").should_compute_assignment
    assert scene.prepare("A").assignor_name == "old"
    assert scene.compute("A") is ErrorCode.NONE
    scene.settle()
    scene.beat("B", client_assignors=(new, old))
    assert scene.compute("B") is ErrorCode.NONE
    assert scene.group.computed_by is not None
    assert scene.group.computed_by.assignor == "new"
