"""`dataclass`: that of the standard library, with methods that are compiled when first used.

The standard library compiles three methods of each dataclass at import, and six if it is frozen.
Most are never called: the embedded cluster has 140 dataclasses, and this took a quarter of the time
until it is ready. Use it in modules that the cluster loads. `InitVar` is not supported.
"""

import dataclasses
from collections.abc import Callable
from functools import partial
from reprlib import recursive_repr
from typing import TYPE_CHECKING, Any

from quorate.codecs.source import Source

__all__ = ["compiled_eq", "compiled_hash", "compiled_init", "dataclass", "make_frozen"]


class _Missing:
    """The default of parameters with a factory."""

    def __repr__(self) -> str:
        return "<factory>"  # in signatures, as in the standard library


_MISSING = _Missing()


class _Lazy:
    """A method that is compiled when it is first looked up, and then replaces this object."""

    def __init__(self, cls: type, name: str, compiled: Callable[[type], Any]) -> None:
        self.cls, self.name, self.compiled = cls, name, compiled

    def __get__(self, instance: object, owner: type) -> Any:
        method = self.compiled(self.cls)
        setattr(self.cls, self.name, method)
        return method.__get__(instance, owner)


if TYPE_CHECKING:
    from dataclasses import dataclass  # type checkers have rules for this name
else:

    def dataclass(cls=None, /, *, frozen=False, slots=False, kw_only=False, eq=True, **others):
        """Do the same as `dataclasses.dataclass`; with `others`, compile all methods at once."""
        given = {"frozen": frozen, "slots": slots, "kw_only": kw_only, "eq": eq}
        if others:
            return dataclasses.dataclass(cls, **given, **others)
        if cls is None:
            return partial(dataclass, **given)
        own = set(cls.__dict__)
        if cls.__doc__ is None:
            cls.__doc__ = cls.__name__  # the standard library would derive one from the signature
        # Compiles two methods if frozen, which is needed for its check of the base classes.
        derived = any("__dataclass_params__" in vars(base) for base in cls.__mro__[1:])
        found = {"frozen": frozen and derived, "slots": slots, "kw_only": kw_only}
        cls = dataclasses.dataclass(init=False, repr=False, eq=False, **found)(cls)
        cls.__dataclass_params__.frozen = frozen
        lazy = {"__init__": partial(compiled_init, frozen=frozen)}
        if eq:
            lazy["__eq__"] = compiled_eq
        if eq and frozen:
            lazy["__hash__"] = compiled_hash
        for name, compiled in lazy.items():
            if name not in own:
                setattr(cls, name, _Lazy(cls, name, compiled))
        if "__repr__" not in own:
            cls.__repr__ = _repr
        if eq and not frozen and "__hash__" not in own:
            cls.__hash__ = None
        if frozen:
            make_frozen(cls, pickled=slots)
        return cls


def compiled_init(
    cls: Any, *, frozen: bool, before: tuple[str, ...] = (), after: tuple[str, ...] = (), **names: Any
) -> Any:
    """Compile the `__init__` of a dataclass.

    `before`, `after`: statements around those that set the fields, with objects by `names`.
    """
    source = Source()
    source.names |= {"__missing": _MISSING, "__set": object.__setattr__, **names}
    source.add(*before)
    parameters: dict[bool, list[str]] = {False: ["self"], True: []}  # positional, and keywords only
    fields = _fields(cls)
    for f in fields:
        value = f.name
        if f.default is not dataclasses.MISSING:
            default = source.bind("__default", f.default)
        elif f.default_factory is not dataclasses.MISSING:
            default, factory = "__missing", source.bind("__factory", f.default_factory)
            value = f"{factory}() if {f.name} is __missing else {f.name}" if f.init else f"{factory}()"
        else:
            default = ""
        if f.init:
            parameters[f.kw_only is True].append(f"{f.name}={default}" if default else f.name)
        elif not default:
            continue  # for `__post_init__`
        elif value == f.name:
            value = default
        source.add(f"__set(self, {f.name!r}, {value})" if frozen else f"self.{f.name} = {value}")
    if hasattr(cls, "__post_init__"):
        source.add("self.__post_init__()")
    source.add(*after, "return None")
    keywords = ["*", *parameters[True]] if parameters[True] else []
    method = _method(cls, "__init__", source, ", ".join(parameters[False] + keywords))
    method.__annotations__ = {**{f.name: f.type for f in fields if f.init}, "return": None}
    return method


def compiled_eq(cls: type) -> Any:
    """Compile the `__eq__` of a dataclass: the same class and equal fields."""
    source = Source()
    compared = [f for f in _fields(cls) if f.compare]
    source.add(
        "if other.__class__ is not self.__class__: return NotImplemented",
        f"return {_values('self', compared)} == {_values('other', compared)}",
    )
    return _method(cls, "__eq__", source, "self, other")


def compiled_hash(cls: type) -> Any:
    """Compile the `__hash__` of a frozen dataclass."""
    source = Source()
    hashed = [f for f in _fields(cls) if (f.compare if f.hash is None else f.hash)]
    source.add(f"return hash({_values('self', hashed)})")
    return _method(cls, "__hash__", source, "self")


def make_frozen(cls: Any, *, pickled: bool) -> None:
    """Reject assignments to fields. `pickled`: also support pickle, for classes with slots."""
    cls.__setattr__ = _reject_assignment
    cls.__delattr__ = _reject_deletion
    if pickled:
        cls.__getstate__ = _state
        cls.__setstate__ = _set_state


def _values(name: str, fields: list[Any]) -> str:
    """Return the source of a tuple of the fields' values."""
    return "(" + "".join(f"{name}.{f.name}, " for f in fields) + ")"


def _method(cls: type, name: str, source: Source, arguments: str) -> Any:
    method = source.method(name, arguments)
    method.__qualname__ = f"{cls.__qualname__}.{name}"
    method.__module__ = cls.__module__
    return method


def _fields(cls: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(cls)


@recursive_repr()
def _repr(self: Any) -> str:
    shown = ", ".join(f"{f.name}={getattr(self, f.name)!r}" for f in _fields(self) if f.repr)
    return f"{type(self).__qualname__}({shown})"


def _reject_assignment(_: object, name: str, __: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")


def _reject_deletion(_: object, name: str) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")


def _state(self: Any) -> list[Any]:
    return [getattr(self, f.name) for f in _fields(self)]


def _set_state(self: Any, state: list[Any]) -> None:
    for f, value in zip(_fields(self), state, strict=True):
        object.__setattr__(self, f.name, value)
