"""`NativeDict` does the same as `CountedDict` in Python."""

import copy
import gc
import pickle
import weakref
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors.java_order import TimelineMap
from quorate.assignors.java_order.timeline_map import CountedDict
from quorate.codecs.extension import extension
from tests.codecs.test_accelerator import needs_accelerator

keys = st.sampled_from("abcdefgh") | st.integers(0, 20) | st.tuples(st.integers(0, 3), st.integers(0, 3))
steps = st.lists(
    st.tuples(st.just("__setitem__"), keys, st.integers())
    | st.tuples(st.sampled_from(["__getitem__", "__delitem__", "__contains__", "get", "pop"]), keys),
    max_size=60,
)


def counted(cls: Any) -> Any:
    made = cls()
    made.slots = 2
    return made


def outcome(function: Callable[..., Any], *arguments: Any) -> tuple[str, Any]:
    try:
        return "returned", function(*arguments)
    except (KeyError, TypeError) as error:
        return type(error).__name__, error.args


@needs_accelerator
@given(steps)
def test_puts_lookups_and_errors_equal_those_in_python(steps: list[tuple[Any, ...]]) -> None:
    native, python = counted(extension().NativeDict), counted(CountedDict)
    for name, *arguments in steps:
        assert outcome(getattr(native, name), *arguments) == outcome(getattr(python, name), *arguments)
        assert (native.slots, list(native.items())) == (python.slots, list(python.items()))


@needs_accelerator
def test_a_timeline_map_has_the_dict_in_c() -> None:
    assert issubclass(TimelineMap, extension().NativeDict)
    assert not issubclass(TimelineMap, CountedDict)


class Unequal:
    """Its comparison with an equal hash raises."""

    def __hash__(self) -> int:
        return hash("a")

    def __eq__(self, other: object) -> bool:
        raise TypeError("no comparison")


@pytest.mark.parametrize("key", [[], Unequal()], ids=["unhashable", "incomparable"])
def test_errors_of_keys_are_raised(key: Any) -> None:
    timeline: TimelineMap[Any, int] = TimelineMap()
    timeline["a"] = 1
    for call in (timeline.__getitem__, timeline.__contains__, timeline.__delitem__):
        with pytest.raises(TypeError):
            call(key)
    with pytest.raises(TypeError):
        timeline[key] = 1
    assert timeline == {"a": 1}


def test_maps_in_a_cycle_are_collected() -> None:
    class Value:
        """Weakly referable."""

    timeline: TimelineMap[str, Any] = TimelineMap()
    value = Value()
    timeline["itself"], timeline["value"] = timeline, value
    alive = weakref.ref(value)
    del timeline, value
    gc.collect()
    assert alive() is None


def test_a_subclass_that_refers_to_its_own_maps_is_collected() -> None:
    class Own(TimelineMap[str, int]):
        """Has a map as an attribute."""

    Own.instance = Own()  # type: ignore[attr-defined]
    alive = weakref.ref(Own)
    del Own
    gc.collect()
    assert alive() is None


def pickled(timeline: TimelineMap[str, int]) -> Any:
    return pickle.loads(pickle.dumps(timeline))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, pickled], ids=lambda function: function.__name__)
def test_copies_have_the_same_slots(copied: Callable[[Any], Any]) -> None:
    timeline: TimelineMap[str, int] = TimelineMap(len)
    timeline.put_new(map(str, range(100)), range(100))
    for number in range(5, 100):
        del timeline[str(number)]
    other = copied(timeline)
    assert type(other) is TimelineMap
    assert (other.slots, [*other.items()], [*other.ordered()]) == (128, [*timeline.items()], [*timeline.ordered()])
    other["x"] = 1
    assert other._hash_of is len
    assert "x" not in timeline
