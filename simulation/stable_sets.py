"""Sets whose order depends on no address and no PYTHONHASHSEED.

Python iterates a set of strings in an order that differs in each process. Clients send topics in
that order. `StableSet` and `StableFrozenSet` iterate sorted instead; a simulation gives them to the
modules of clients in place of `set` and `frozenset`. Set displays (`{a, b}`) and comprehensions
keep Python's order.
"""

import builtins
from asyncio import Future
from collections.abc import Callable, Iterator
from typing import Any, cast


def in_stable_order(items: Any) -> list[Any]:
    """Return items sorted; those that cannot be compared in the set's own order."""
    found = list(builtins.set.__iter__(items) if isinstance(items, builtins.set) else items)
    if len(found) < 2 or isinstance(found[0], Future):  # a loop's futures have hashes in order of their creation
        return found
    try:
        return sorted(found)
    except TypeError:
        keys = [repr(one) for one in found]
        return found if any(" at 0x" in key for key in keys) else sorted(found, key=repr)


class _Kind(type):
    """Makes `isinstance` and `issubclass` treat a class as the built-in one."""

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, cls.__mro__[1])

    def __subclasscheck__(cls, subclass: type) -> bool:
        return issubclass(subclass, cls.__mro__[1])


class StableSet(builtins.set[Any], metaclass=_Kind):
    """A set that iterates in sorted order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(in_stable_order(builtins.set.__iter__(self)))

    def pop(self) -> Any:
        """Remove and return the first item. Raises `KeyError` if there is none."""
        for item in self:
            self.remove(item)
            return item
        return super().pop()


class StableFrozenSet(builtins.frozenset[Any], metaclass=_Kind):
    """A frozen set that iterates in sorted order."""

    def __iter__(self) -> Iterator[Any]:
        return iter(in_stable_order(builtins.frozenset.__iter__(self)))


def _stable(kind: Any, name: str) -> Callable[..., Any]:
    own = getattr(kind.__mro__[1], name)

    def call(self: Any, *args: Any) -> Any:
        found = own(self, *args)
        return found if found is NotImplemented else kind(found)

    call.__name__ = name
    call.__doc__ = own.__doc__
    return call


for _kind in (StableSet, StableFrozenSet):
    for _name in ("copy", "difference", "intersection", "symmetric_difference", "union"):
        setattr(_kind, _name, _stable(_kind, _name))
    for _name in ("and", "or", "sub", "xor"):
        for _side in ("", "r"):
            setattr(_kind, f"__{_side}{_name}__", _stable(_kind, f"__{_side}{_name}__"))
del _kind, _name, _side

STABLE = {"set": cast("type", StableSet), "frozenset": cast("type", StableFrozenSet)}
