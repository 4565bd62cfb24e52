"""Lazily compiled dataclasses do the same as those of the standard library."""

import copy
import dataclasses
import inspect
import pickle
import subprocess
import sys
from collections.abc import Callable
from itertools import product
from threading import Barrier, Thread
from typing import Any

import pytest

from quorate.codecs import lazy_dataclass

OPTIONS = [
    {"frozen": frozen, "slots": slots, "kw_only": kw_only, "eq": eq}
    for frozen, slots, kw_only, eq in product((False, True), repeat=4)
]


def every_kind_of_field() -> type:
    class Order:
        number: int
        price: float = 2.5
        lines: list[str] = dataclasses.field(default_factory=list)
        secret: str = dataclasses.field(default="s", repr=False)
        note: str = dataclasses.field(default="n", compare=False)
        weight: int = dataclasses.field(default=1, hash=False)
        urgent: bool = dataclasses.field(default=False, kw_only=True)
        state: str = dataclasses.field(init=False, default="new")
        history: list[str] = dataclasses.field(init=False, default_factory=lambda: ["new"])

    return Order


def derived_field() -> type:
    class Total:
        """Has a field that `__post_init__` sets."""

        parts: tuple[int, ...]
        total: int = dataclasses.field(init=False, compare=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "total", sum(self.parts))

    return Total


def own_methods() -> type:
    class Own:
        name: str

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own) and str(self.name).lower() == str(other.name).lower()

        def __hash__(self) -> int:
            return 7

        def __repr__(self) -> str:
            return f"<{self.name}>"

    return Own


def no_fields() -> type:
    class Nothing:
        pass

    return Nothing


def outcome(action: Callable[[], Any]) -> Any:
    try:
        return action()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def deleted(each: Any, name: str) -> None:
    delattr(each, name)


CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((), {"number": 1}),
    ((), {"number": 1, "lines": ["a"], "urgent": True, "price": 0.5}),
    ((1, 2.0, ["a"], "t", "m", 3), {"urgent": True}),
    ((1, 2.0, ["a"], "t", "m", 3, True), {}),
    ((), {"parts": (1, 2)}),
    (((1, 2),), {}),
    ((), {"name": "N"}),
    ((), {"state": "old"}),
]


def behaviour(cls: Any) -> list[Any]:
    found: list[Any] = [
        str(inspect.signature(cls)),
        [(f.name, f.init, f.repr, f.compare, f.hash, f.kw_only, f.default) for f in dataclasses.fields(cls)],
        getattr(cls, "__match_args__", None),
        getattr(cls, "__slots__", None),
        cls.__hash__ is None,
        cls.__init__.__qualname__,
    ]
    for args, kwargs in CALLS:
        one, other = (outcome(lambda args=args, kwargs=kwargs: cls(*args, **kwargs)) for _ in range(2))
        found.append(repr(one) if isinstance(one, cls) else one)
        if not isinstance(one, cls):
            continue
        found += [one == other, one != other, one == object(), dataclasses.asdict(one), repr(copy.deepcopy(one))]
        found.append(
            outcome(lambda one=one, other=other: hash(one) == hash(other)) if cls.__eq__ is not object.__eq__ else 0
        )
        for field in dataclasses.fields(cls):
            found.append(outcome(lambda one=one, field=field: setattr(one, field.name, "x")))
            found.append(repr(one))
        for field in dataclasses.fields(cls):
            if field.init:
                found.append(
                    outcome(lambda other=other, field=field: dataclasses.replace(other, **{field.name: ()})) == other
                )
        for field in dataclasses.fields(cls)[:1]:
            found.append(outcome(lambda one=one, field=field: deleted(one, field.name)))
    return found


@pytest.mark.parametrize("body", [every_kind_of_field, derived_field, own_methods, no_fields])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda each: "-".join(name for name, on in each.items() if on))
def test_it_does_the_same_as_that_of_the_standard_library(body: Callable[[], type], options: dict[str, bool]) -> None:
    # The standard library would look at the signature for a class without a docstring.
    found, expected = body(), body()
    expected.__doc__ = found.__doc__ or found.__name__
    lazy: Any = lazy_dataclass.dataclass(**options)(found)  # type: ignore[call-overload]
    plain: Any = dataclasses.dataclass(**options)(expected)  # type: ignore[call-overload]
    assert behaviour(lazy) == behaviour(plain)
    assert lazy.__doc__ == plain.__doc__


def test_fields_that_hash_leaves_out_do_not_change_it() -> None:
    @lazy_dataclass.dataclass(frozen=True, slots=True)
    class Each:
        a: int
        b: int = dataclasses.field(default=0, compare=False)
        c: int = dataclasses.field(default=0, hash=False)

    assert hash(Each(1, 2, 3)) == hash(Each(1, 4, 5)) != hash(Each(2, 2, 3))
    assert Each(1, 2, 3) == Each(1, 4, 3) != Each(1, 2, 5)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Base:
    """At the top level, so that pickle finds it."""

    a: int
    b: list[int] = dataclasses.field(default_factory=list)


@lazy_dataclass.dataclass(frozen=True, slots=True)
class Derived(Base):
    """Has a field more."""

    c: int = 3


class Plain(Base):
    """Is no dataclass of its own."""

    __slots__ = ("d",)

    def __init__(self, a: int) -> None:
        super().__init__(a)
        object.__setattr__(self, "d", 4)


def test_classes_inherit_fields_and_methods() -> None:
    assert repr(Derived(1, c=2)) == "Derived(a=1, b=[], c=2)"
    assert Derived(1) == Derived(1) != Base(1)
    assert (Plain(1).a, Plain(1).b, Plain(2) == Plain(2), Plain(2) == Base(2)) == (1, [], True, False)
    assert Base(1).b is not Base(1).b


DECORATORS = [lazy_dataclass.dataclass, dataclasses.dataclass]


@pytest.mark.parametrize("inner", DECORATORS, ids=["lazy", "plain"])
@pytest.mark.parametrize("outer", DECORATORS, ids=["lazy", "plain"])
@pytest.mark.parametrize("frozen", [False, True])
@pytest.mark.parametrize("derived_frozen", [False, True])
def test_either_decorator_can_inherit_from_the_other(
    inner: Any, outer: Any, frozen: bool, derived_frozen: bool
) -> None:
    @inner(frozen=frozen, slots=True)
    class First:
        a: int

    class Second(First):
        b: int = 2

    if frozen is not derived_frozen:
        with pytest.raises(TypeError, match="cannot inherit"):
            outer(frozen=derived_frozen, slots=True)(Second)
        return
    second = outer(frozen=derived_frozen, slots=True)(Second)
    assert second(1) == second(1, 2) != second(2)
    assert repr(second(1)).endswith("Second(a=1, b=2)")
    expected: Any = (dataclasses.FrozenInstanceError, "cannot assign to field 'a'") if frozen else None
    assert outcome(lambda: setattr(second(1), "a", 3)) == expected


@pytest.mark.parametrize("one", [Base(1, [2]), Derived(1, [2], 3)], ids=repr)
def test_objects_can_be_pickled(one: Any) -> None:
    assert pickle.loads(pickle.dumps(one)) == copy.copy(one) == one


def test_a_repr_ends_at_an_object_that_contains_itself() -> None:
    one = Base(1)
    one.b.append(one)  # type: ignore[arg-type]
    assert repr(one) == "Base(a=1, b=[...])"


def test_other_parameters_are_those_of_the_standard_library() -> None:
    @lazy_dataclass.dataclass(order=True, frozen=True)
    class Version:
        major: int

    assert Version(1) < Version(2)


def test_threads_that_first_use_a_class_at_once_get_the_same_methods() -> None:
    for _ in range(20):

        @lazy_dataclass.dataclass(frozen=True, slots=True)
        class Shade:
            name: str

        barrier, made = Barrier(4), []

        def make(cls: Any = Shade, barrier: Barrier = barrier, made: list[Any] = made) -> None:
            barrier.wait()
            made.append(cls("x"))

        threads = [Thread(target=make) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert len(set(made)) == 1


COMPILED_AT_IMPORT = """
import importlib
import sys

for name in sys.argv[1:]:
    importlib.import_module(name)

for module in list(sys.modules.values()):
    if module.__name__.startswith("quorate."):
        for cls in vars(module).values():
            if isinstance(cls, type) and cls.__module__ == module.__name__ and "__dataclass_fields__" in vars(cls):
                init = vars(cls).get("__init__")
                if getattr(getattr(init, "__code__", None), "co_filename", "") == "<string>":
                    print(cls.__qualname__)
"""


@pytest.mark.parametrize(
    ("modules", "compiled"),
    [
        (["quorate.cluster.embedded"], {"AbortedTransaction", "KafkaVersion"}),
        (["quorate.cli.groups.read", "quorate.coordinator.bulk"], {"KafkaVersion"}),
    ],
    ids=["cluster", "groups-list"],
)
def test_few_dataclasses_are_compiled_at_import(modules: list[str], compiled: set[str]) -> None:
    """These have an order. Another would add a thousandth to the time until a cluster is ready."""
    found = subprocess.run(
        [sys.executable, "-P", "-c", COMPILED_AT_IMPORT, *modules], capture_output=True, text=True, check=True
    ).stdout.split()
    assert set(found) == compiled
