"""Selection of a client-side assignor that all members support."""

from collections import Counter
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.client_assignors import ClientAssignor
from quorate.coordinator.client_assignors.selection import Offer, Selected, selected
from tests.coordinator.client_assignors.scene import Scene, computes


def of(*offers: Offer) -> Selected | None:
    """Return the assignor that members with these lists use."""
    return selected(Counter(offers))


def name_of(*offers: Offer) -> str | None:
    found = of(*offers)
    return None if found is None else found.name


def member(*assignors: tuple[str, int, int]) -> Offer:
    return assignors


def test_assignor_must_be_supported_by_all_members() -> None:
    assert name_of(member(("a", 0, 0), ("b", 0, 0)), member(("b", 0, 0))) == "b"
    assert name_of(member(("a", 0, 0)), member(("b", 0, 0))) is None
    assert name_of(member(("a", 0, 0)), member()) is None
    assert name_of() is None


def test_versions_must_overlap_for_all_members() -> None:
    assert of(member(("a", 0, 3)), member(("a", 2, 5)), member(("a", 1, 2))) == Selected("a", 2, 2)
    assert name_of(member(("a", 0, 1)), member(("a", 1, 2)), member(("a", 2, 3))) is None
    assert name_of(member(("a", 0, 1), ("b", 0, 0)), member(("a", 2, 3), ("b", 0, 0))) == "b"


def test_assignor_that_most_members_prefer_is_selected() -> None:
    a, b, c = ("a", 0, 0), ("b", 0, 0), ("c", 0, 0)
    assert name_of(member(b, a), member(b, a), member(a, b)) == "b"
    assert name_of(member(c, b, a), member(b, a), member(a, b), member(a, b)) == "a", "c is not common to all"
    assert name_of(member(b, c, a), member(c, a, b)) == "c", "c is preferred more"
    assert name_of(member(b, c, a), member(a, c, b)) == "a", "ties are broken by name"


NAMES = st.lists(st.sampled_from("abcd"), unique=True, max_size=4)
LISTS = st.lists(
    NAMES.flatmap(
        lambda names: st.tuples(*(st.tuples(st.just(name), st.integers(0, 2), st.integers(2, 4)) for name in names))
    ),
    max_size=5,
)


@given(lists=LISTS, seed=st.integers())
def test_selection_does_not_depend_on_the_order_of_members(lists: list[Offer], seed: int) -> None:
    found = of(*lists)
    common = set.intersection(*({name for name, _, _ in one} for one in lists)) if lists else set()
    assert (found is not None) == bool(common), "all ranges contain version 2"
    if found is not None:
        assert found.name in common
        for one in lists:
            low, high = next((low, high) for name, low, high in one if name == found.name)
            assert low <= found.minimum_version <= found.maximum_version <= high
    Random(seed).shuffle(lists)
    assert of(*lists) == found


def test_group_switches_assignors_when_the_last_member_supports_it() -> None:
    """A rolling restart with a new assignor: until all have it, the old one is used."""
    old, new = ClientAssignor(name="old"), ClientAssignor(name="new")
    scene = Scene()
    scene.join("A", assignors=(new, old))
    assert scene.prepare("A").assignor_name == "new"
    scene.join("B", assignors=(old,))
    assert computes(scene.beat("A"))
    assert scene.prepare("A").assignor_name == "old"
    assert scene.compute("A") is ErrorCode.NONE
    scene.settle()
    scene.beat("B", client_assignors=(new, old))
    assert scene.compute("B") is ErrorCode.NONE
    assert scene.computed_by is not None
    assert scene.computed_by.assignor == "new"


def test_rejoining_static_member_counts_once_in_the_selection() -> None:
    scene = Scene()
    scene.join("A", instance_id="a", assignors=())
    scene.join("B")
    scene.settle()
    assert scene.computed_by is None
    scene.leave("A", epoch=-2)
    assert computes(scene.join("A2", instance_id="a"))
    assert scene.group.assignment_epoch < scene.group.epoch
