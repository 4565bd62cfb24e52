"""Values of a description with their place in the file, which error messages include.

This module does not know what a group is.
"""

from collections.abc import Callable, Collection, Iterator
from typing import Any, NoReturn

from quorate.codecs.errors import InputError
from quorate.codecs.printable import suggestion


class ParsedValue:
    """A value of a parsed file, and the path to it, such as `members.worker-1.owned.orders[2]`."""

    def __init__(self, value: Any, file: str, path: str = "") -> None:
        self.value = value
        self.file = file
        self.path = path

    def fail(self, problem: str, *remedy: str) -> NoReturn:
        """Raise `InputError` with the place of this value."""
        raise InputError(f"{self.file}: {self.path + ': ' if self.path else ''}{problem}", *remedy)

    def entries(self, what: str) -> "Iterator[tuple[str, ParsedValue]]":
        """Yield the entries of a mapping; numeric names are converted to text."""
        if not isinstance(self.value, dict):
            self.fail(f"must be a mapping of {what}, not {_kind(self.value)}")
        for key, value in self.value.items():
            if isinstance(key, bool) or not isinstance(key, str | int):
                self.fail(f"the name {key!r} is not text", "quote it: YAML reads yes, no, on, off and null as values")
            name = str(key)
            yield name, ParsedValue(value, self.file, f"{self.path}.{name}" if self.path else name)

    def fields(self, known: Collection[str]) -> "dict[str, ParsedValue]":
        """Return the mapping's entries without null values. Unknown names are errors."""
        found = {}
        for name, node in self.entries(", ".join(known)):
            if name not in known:
                node.fail("unknown field", suggestion(name, known, f"fields are {', '.join(known)}", 1))
            if node.value is not None:
                found[name] = node
        return found

    def items(self, what: str) -> "list[ParsedValue]":
        """Return the items of a list."""
        if not isinstance(self.value, list):
            self.fail(f"must be a list of {what}, not {_kind(self.value)}")
        return [ParsedValue(value, self.file, f"{self.path}[{index}]") for index, value in enumerate(self.value)]

    def text(self) -> str:
        """Return the value as text; numbers are converted."""
        if isinstance(self.value, bool) or not isinstance(self.value, str | int):
            remedy = (
                ("quote it: YAML reads yes, no, on and off as true and false",) if isinstance(self.value, bool) else ()
            )
            self.fail(f"must be text, not {_kind(self.value)}", *remedy)
        return str(self.value)

    def one_of(self, choices: Collection[str]) -> str:
        """Return the value, which must be one of `choices`."""
        text = self.text()
        if text not in choices:
            self.fail(f"unknown value {text!r}", f"use one of {', '.join(choices)}")
        return text

    def number(self, *, least: int = 0, most: int | None = None) -> int:
        """Return the value, which must be an integer within bounds."""
        if isinstance(self.value, bool) or not isinstance(self.value, int):
            self.fail(f"must be an integer, not {_kind(self.value)}")
        if self.value < least or (most is not None and self.value > most):
            self.fail(f"{self.value:,} is out of range: {least:,} {'or more' if most is None else f'to {most:,}'}")
        return self.value

    def read(self, reader: Callable[[str], Any]) -> Any:
        """Return what `reader` returns for the text; a `ValueError` becomes an `InputError`."""
        try:
            return reader(self.text())
        except ValueError as error:
            self.fail(str(error))


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, dict):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    text = repr(value)
    return text if len(text) <= 40 else text[:40] + "…"
