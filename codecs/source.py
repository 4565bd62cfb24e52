"""Generated code: the source of a function, and objects that it fills."""

from typing import Any

_TWINS: dict[type, Any] = {}


def open_twin(cls: type) -> Any:
    """Return a class with the slots of `cls` whose instances are writable.

    They become instances of `cls` by assigning `__class__`, which is done for speed only. With
    setters of the slots instead, and without the accelerator in C, reading a segment record by
    record (`read_log`) takes 11 to 26 % more CPU, and loading commits of new keys (`load_state`)
    15 to 20 % (`python bench/coordinator_load.py`, three paired rounds, 2026-11).
    """
    if cls not in _TWINS:
        own = tuple(cls.__dict__["__slots__"])
        writable = {"__slots__": own, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
        _TWINS[cls] = type("_" + cls.__name__, cls.__bases__, writable)
    return _TWINS[cls]


class Source:
    """The source code of a function to generate, with the objects that it refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._count = 0

    def add(self, *lines: str) -> None:
        """Append statements at the current depth."""
        self.lines += ["    " * self.depth + line for line in lines]

    def fresh(self, prefix: str) -> str:
        """Return an unused name."""
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, thing: Any) -> str:
        """Return a name for `thing` in the generated code."""
        name = self.fresh(prefix)
        self.names[name] = thing
        return name

    def function(self, name: str, arguments: str) -> Any:
        """Compile the function and return it."""
        # Helpers are bound as default arguments: a local is looked up faster than a global.
        return self.method(name, f"{arguments}, {', '.join(f'{n}={n}' for n in self.names)}")

    def method(self, name: str, arguments: str) -> Any:
        """Do the same as `function`, for a function that has no other arguments."""
        text = f"def {name}({arguments}):\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(text, f"<quorate {name}>", "exec"), namespace)
        return namespace[name]
