"""The generated methods of messages do the same as those of a frozen dataclass."""

import copy
import gc
import inspect
import pickle
import re
import subprocess
import sys
from dataclasses import MISSING, FrozenInstanceError, asdict, dataclass, fields, make_dataclass, replace
from dataclasses import field as dataclass_field
from threading import Barrier, Thread
from typing import Any

import pytest

from quorate.codecs import CoordinatorRecord, TaggedField
from quorate.codecs.api.broker import APIS
from quorate.codecs.extension import extension
from quorate.codecs.message import Message, declare, field, struct, tagged
from quorate.codecs.message_methods import positional, positional_in_python
from quorate.codecs.messages import RECORD_TYPES, OffsetCommitKey, OffsetCommitValue
from quorate.codecs.wire import Array, Int32, String
from quorate.coordinator.results import Result
from tests.codecs.test_accelerator import needs_accelerator

CLASSES = [
    *(spec.cls for types in RECORD_TYPES.values() for each in types.values() for spec in (each.key, each.value)),
    *(cls for api in APIS.values() for cls in api.messages),
]


def plain(cls: type[Message]) -> Any:
    """Return a frozen dataclass with the same fields."""
    given = [
        (f.name, f.type, dataclass_field(kw_only=True, **({} if f.default is MISSING else {"default": f.default})))
        for f in fields(cls)  # type: ignore[arg-type]
    ]
    return make_dataclass(cls.__name__, given, frozen=True)


@pytest.mark.parametrize("cls", CLASSES, ids=lambda cls: cls.__name__)
def test_methods_equal_those_of_a_frozen_dataclass(cls: Any) -> None:
    other = plain(cls)
    given = {f.name: f"{f.name}!" for f in fields(cls)}
    required = {f.name: 1 for f in fields(cls) if f.default is MISSING}
    assert asdict(cls(**given)) == given == asdict(other(**given))
    assert asdict(cls(**required)) == asdict(other(**required))
    assert hash(cls(**given)) == hash(other(**given))
    assert cls(**given) == cls(**given) != cls(**{**given, "unknown_tags": ()})
    assert cls(**given) != other(**given)
    found, expected = inspect.signature(cls).parameters, inspect.signature(other).parameters
    assert [(p.name, p.kind, p.default) for p in found.values()] == [
        (p.name, p.kind, p.default) for p in expected.values()
    ]


def makers(cls: Any, *names: str) -> list[Any]:
    """Return the function of `positional`, and the one in Python."""
    others = {f.name: f.default for f in fields(cls) if f.name not in names}
    return [positional(cls, *names), positional_in_python(cls, names, others)]


@pytest.mark.parametrize("cls", [*CLASSES, CoordinatorRecord], ids=lambda cls: cls.__name__)
def test_objects_made_of_positional_values_equal_those_of_keywords(cls: Any) -> None:
    required = [f.name for f in fields(cls) if f.default is MISSING]
    for names in (required, [f.name for f in reversed(fields(cls))]):
        values = [f"{name}!" for name in names]
        for make in makers(cls, *names):
            made, expected = make(*values), cls(**dict(zip(names, values, strict=True)))
            assert type(made) is cls
            assert made == expected
            assert repr(made) == repr(expected)
            with pytest.raises(TypeError):
                make(*values, 1)
            gc.collect(1)  # of young objects: all others take 10 ms
            assert gc.is_tracked(made)


def test_made_objects_of_frozen_classes_are_frozen_and_others_are_not() -> None:
    for make in makers(OffsetCommitKey, "group", "topic", "partition"):
        with pytest.raises(FrozenInstanceError):
            make("g", "t", 1).group = "h"
    for make in makers(Result, "response"):
        made = make("done")
        assert made == Result(response="done")
        made.records = [1]
        assert made.records == [1]


def test_a_made_object_needs_a_value_for_each_field_without_default() -> None:
    with pytest.raises(TypeError, match="OffsetCommitKey needs topic, partition"):
        positional(OffsetCommitKey, "group")


@pytest.mark.parametrize("name", ["group", "metadata"])
def test_a_function_of_positional_values_needs_distinct_fields(name: str) -> None:
    names = ("group", "topic", "partition", name)
    with pytest.raises(TypeError, match=f"group, topic, partition, {name} are not distinct fields of OffsetCommitKey"):
        positional(OffsetCommitKey, *names)


class Slotted:
    """A class with slots that is no dataclass."""

    __slots__ = ("one", "other")


def test_classes_that_only_have_slots_need_all_values() -> None:
    for make in (positional(Slotted, "other", "one"), positional_in_python(Slotted, ("other", "one"), {})):
        made: Any = make(2, 1)
        assert (made.one, made.other) == (1, 2)
    with pytest.raises(TypeError, match="Slotted needs other"):
        positional(Slotted, "one")


@needs_accelerator
def test_slots_and_values_of_different_numbers_are_rejected() -> None:
    cls = OffsetCommitKey
    for given, defaults in ((0, ()), (2, ()), (1, (1,)), (-1, (1, 2)), (sys.maxsize, (1,)), (-sys.maxsize - 1, ())):
        with pytest.raises(ValueError, match="each slot needs one value"):
            extension().Maker(cls, ("group",), given, defaults)
    for names in (("group", "no"), ("group", 1), ("group", "\ud800")):
        references = sys.getrefcount(cls)
        with pytest.raises((TypeError, UnicodeEncodeError)):
            extension().Maker(cls, names, 2, ())
        assert sys.getrefcount(cls) == references


def test_functions_of_positional_values_have_no_keyword_arguments() -> None:
    for make in makers(OffsetCommitKey, "group", "topic", "partition"):
        with pytest.raises(TypeError, match="keyword"):
            make("g", "t", partition=1)


def test_wrong_arguments_name_the_class_and_the_argument() -> None:
    key: Any = OffsetCommitKey
    with pytest.raises(TypeError, match=r"OffsetCommitKey.__init__\(\) missing 2 required .*'topic' and 'partition'"):
        key(group="g")
    with pytest.raises(TypeError, match=r"OffsetCommitKey.__init__\(\) got an unexpected keyword argument 'groups'"):
        key(group="g", topic="t", partition=1, groups="h")


def test_messages_are_immutable_and_can_be_copied() -> None:
    value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=2, unknown_tags=(TaggedField(9, b"x"),))
    with pytest.raises(FrozenInstanceError, match="cannot assign to field 'offset'"):
        value.offset = 2  # type: ignore[misc]
    with pytest.raises(FrozenInstanceError, match="cannot delete field 'offset'"):
        del value.offset
    assert pickle.loads(pickle.dumps(value)) == copy.copy(value) == copy.deepcopy(value) == value
    assert replace(value, offset=2).unknown_tags == value.unknown_tags
    assert not hasattr(value, "__dict__")


def test_threads_that_first_use_a_class_at_once_get_the_same_methods() -> None:
    for _ in range(20):

        @struct
        class Shade(Message):
            name: String
            numbers: Array[Int32] = tagged(0, default=())

        barrier, made = Barrier(4), []

        def make(cls: Any = Shade, barrier: Barrier = barrier, made: list[Any] = made) -> None:
            barrier.wait()
            made.append(cls(name="x"))

        threads = [Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert len(set(made)) == 1


def test_the_declaration_is_checked_when_it_is_first_used() -> None:
    def refuse(spec: Any) -> None:
        raise TypeError(f"{spec.name} is refused")

    class Colour(Message):
        shade: Int32 = field(since=1, default=0)

    with pytest.raises(TypeError, match="Colour is refused"):
        _ = declare(Colour, range(2), None, refuse).spec


def test_a_struct_as_default_is_created_when_it_is_needed() -> None:
    @struct
    class Inner(Message):
        number: Int32 = field(default=7)

    class Outer(Message):
        given: Inner = field(default=Inner)
        tags: Inner = tagged(0, default=Inner)

    declare(Outer, range(1), 0)
    assert Outer() == Outer(given=Inner(number=7), tags=Inner())
    assert [f.default for f in Outer.spec.fields] == [Inner(number=7)] * 2


def test_a_class_that_is_no_message_has_no_spec() -> None:
    assert not hasattr(Message, "spec")
    assert not hasattr(Message, "__signature__")


def test_help_of_a_message_shows_its_fields() -> None:
    code = "from quorate.codecs.messages import OffsetCommitKey; help(OffsetCommitKey)"
    shown = subprocess.run([sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True).stdout
    assert "OffsetCommitKey(*,group:" in re.sub(r"[\s|]", "", shown)  # Python 3.13 breaks the line


@dataclass
class Holder:
    """Has a message as a field."""

    message: OffsetCommitKey


def test_a_message_inside_a_dataclass_becomes_a_mapping() -> None:
    holder = Holder(OffsetCommitKey(group="g", topic="t", partition=1))
    assert asdict(holder)["message"]["group"] == "g"
