"""Parameters of queries: known names only, each once, within bounds."""

from collections.abc import Iterable

from starlette.datastructures import QueryParams

from quorate.codecs.errors import InputError

LATEST_MS = 2**53 - 1
"""The largest integer that JavaScript keeps exactly."""
_MOST_VALUES = 50


class ParameterError(InputError):
    """A parameter is unknown, missing, repeated or out of bounds."""


class Parameters:
    """The parameters of a query, of which only `known` ones are allowed."""

    def __init__(self, query: QueryParams, known: Iterable[str], *, repeated: Iterable[str] = ()) -> None:
        self._query = query
        names, often = set(known), set(repeated)
        for name in query:
            if name not in names | often:
                takes = ", ".join(sorted(names | often)) or "none"
                raise ParameterError(f"unknown parameter {name!r}", f"parameters of this path: {takes}")
            if name not in often and len(query.getlist(name)) > 1:
                raise ParameterError(f"parameter {name!r} is given more than once", "give it once")

    def text(self, name: str) -> str | None:
        """Return a text, or `None` if it is not given."""
        return self._query.get(name)

    def required(self, name: str) -> str:
        """Return a text. Raises `ParameterError` if it is not given."""
        value = self.text(name)
        if value is None:
            raise ParameterError(f"parameter {name!r} is missing", f"add {name}=…")
        return value

    def integer(self, name: str, default: int | None = None, *, least: int = 0, most: int = LATEST_MS) -> int | None:
        """Return an integer between `least` and `most`, or the default."""
        value = self.text(name)
        if value is None:
            return default
        if not (value.isascii() and value.isdecimal() and len(value) <= 16 and least <= int(value) <= most):
            raise ParameterError(f"{name}={value[:40]!r} is no integer from {least} to {most}", "correct or omit it")
        return int(value)

    def count(self, name: str, default: int, *, most: int) -> int:
        """Return an integer from 1 to `most`."""
        value = self.integer(name, default, least=1, most=most)
        return default if value is None else value

    def span(self) -> tuple[int, int]:
        """Return `from_ms` and `to_ms`, both required and in order."""
        ends = []
        for name in ("from_ms", "to_ms"):
            self.required(name)
            ends.append(self.integer(name) or 0)
        if ends[0] > ends[1]:
            raise ParameterError(f"from_ms={ends[0]} is after to_ms={ends[1]}", "exchange them")
        return ends[0], ends[1]

    def texts(self, name: str) -> list[str]:
        """Return all values of a parameter that may be repeated."""
        values = self._query.getlist(name)
        if len(values) > _MOST_VALUES:
            raise ParameterError(
                f"parameter {name!r} is given {len(values)} times", f"give it {_MOST_VALUES} times at most"
            )
        return values
