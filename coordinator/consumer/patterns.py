r"""Regexes in RE2 syntax, as Kafka's coordinators take them (KIP-848, KIP-1152).

Kafka compiles them with RE2/J, this module with RE2 itself: both match in time linear in the length
of the name, whatever the regex (Python's `re` does not). They read a few patterns differently. What
can be told from the pattern alone is settled here; the table in docs/explanation/consumer-groups.md
has the rest, which tests/coordinator/test_patterns.py holds against RE2/J.
"""

import re
from dataclasses import dataclass
from typing import Any

import re2

from quorate.codecs.errors import QuorateError
from quorate.codecs.wire import readable

__all__ = ["MAX_MEMORY_BYTES", "Pattern", "PatternError", "compiled"]

MAX_MEMORY_BYTES = 1 << 17
"""Of a compiled regex: about 5,400 instructions, which is a list of some 5,000 characters of topic
names. RE2/J has no limit.

It bounds what one request can cost: up to 0.1 s to compile, and up to 10 ms for a topic's name
(measured on the worst regexes found). Compiling takes four times as long for twice the size, and
holds Python's lock, so that no thread would help. RE2 keeps the 128 regexes compiled last, so they
have 16 MiB together at most.
"""

_QUOTED = r"\\Q.*?(?:\\E|\Z)"
_ESCAPE = re.compile(rf"{_QUOTED}|\\.", re.DOTALL)
_COUNT = r"(?:0|[1-9]\d*)"
_TOKEN = re.compile(
    rf"""{_QUOTED}|\\[pPx]\{{.*?\}}|\\.|\[\^?\]?(?:\[:\^?\w+:\]|\\.|[^\]\\])*\]|\(\?P?<(?P<name>.*?)>
    |\{{(?P<least>{_COUNT})(?:,(?P<most>{_COUNT})?)?\}}|(?P<brace>\{{)(?=[*+?]|\{{{_COUNT}(?:,{_COUNT}?)?\}})""",
    re.DOTALL | re.VERBOSE | re.ASCII,
)
_MAX_REPEAT = "1000"


class PatternError(QuorateError, ValueError):
    """The pattern is not a regex in RE2 syntax, or it is too large."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regex."""

    regex: Any

    def matches(self, name: str) -> bool:
        """Whether the regex matches the whole name."""
        return self.regex.fullmatch(readable(name)) is not None


def compiled(pattern: str) -> Pattern:
    """Compile a regex. Raises `PatternError`."""
    text = _ESCAPE.sub(_escape, readable(pattern))
    options = re2.Options()
    options.log_errors = False  # RE2 would write to the process's stderr
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True  # only whether a name matches is needed, which costs much less
    try:
        regex = re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        raise PatternError(reason.decode("utf-8", "replace")) from None
    _check(text)
    return Pattern(regex)


def _escape(found: re.Match[str]) -> str:
    r"""An escape as RE2/J reads it: it has no \C (any byte), and takes any character outside of ASCII for itself."""
    text = found[0]
    if text == r"\C":
        raise PatternError(rf"invalid escape sequence: {text}")
    return text if text.isascii() or text.startswith(r"\Q") else text[1]


def _check(text: str) -> None:
    """Refuse what RE2 reads and RE2/J does not.

    `text` is a regex for RE2, so all its classes are closed, which keeps this linear.
    """
    names: set[str] = set()
    for found in _TOKEN.finditer(text):
        match found.lastgroup:
            case "name":
                if re.fullmatch(r"\w+", found["name"], re.ASCII) is None:
                    raise PatternError(f"invalid named capture group: {found[0]}")
                if found["name"] in names:
                    raise PatternError(f"duplicate capture group name: {found[0]}")
                names.add(found["name"])
            case "least" | "most":  # a count of nine digits and more is text to RE2
                if any(len(count) > len(_MAX_REPEAT) for count in found.group("least", "most") if count):
                    raise PatternError(f"invalid repeat count: {found[0]}")
            case "brace":  # RE2/J takes a brace that is only text for a repetition, and repeats no repetition
                raise PatternError(f"invalid nested repetition operator: {found[0]}")
