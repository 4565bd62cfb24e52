r"""Regexes in RE2 syntax, as Kafka's coordinators accept them (KIP-848, KIP-1152).

Kafka compiles them with RE2/J, this module with RE2. Both match in time linear in the length of the
name, which Python's `re` does not guarantee. A few patterns have another meaning in RE2/J. Those
that can be detected in the pattern are handled here; the table in
docs/explanation/consumer-groups.md has the rest. tests/coordinator/consumer/test_patterns.py
compares with RE2/J.
"""

import re
from typing import Any

import re2

from quorate.codecs.errors import QuorateError
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.wire import readable

MAX_MEMORY_BYTES = 1 << 17
"""Limit for a compiled regex: about 5,400 instructions, or some 5,000 characters of topic names.

RE2/J has no limit.
It bounds the cost of a request: up to 0.1 s to compile, and up to 10 ms per topic name (measured
with the worst regexes found). Compile time grows fourfold when the size doubles, and compiling
holds the GIL, so a thread would not help. RE2 caches the last 128 regexes, 16 MiB at most.
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
_REASONS = {
    "bad repetition operator": "invalid nested repetition operator",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "invalid repetition size": "invalid repeat count",
    "missing )": "missing closing )",
    "missing ]": "missing closing ]",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",  # plain: RE2/J's
    "unexpected )": "regexp/syntax: internal error",
}
"""Why RE2 rejects a regex → the same in RE2/J, where the words differ."""


class PatternError(QuorateError, ValueError):
    """The pattern is not a valid regex in RE2 syntax, or too large. The reason is RE2/J's."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """A compiled regex."""

    regex: Any

    def matches(self, name: str) -> bool:
        """Return whether the regex matches the whole name."""
        return self.regex.fullmatch(readable(name)) is not None


def compiled(pattern: str) -> Pattern:
    """Compile a regex. Raises `PatternError`."""
    text = _ESCAPE.sub(_escape, readable(pattern))
    options = re2.Options()
    options.log_errors = False  # otherwise RE2 writes to stderr
    options.max_mem = MAX_MEMORY_BYTES
    options.never_capture = True  # matching without capture groups is much faster
    try:
        regex = re2.compile(text, options)
    except re2.error as error:
        (reason,) = error.args
        raise PatternError(_reason(reason.decode("utf-8", "replace"))) from None
    _check(text)
    return Pattern(regex)


def _reason(text: str) -> str:
    """Return RE2/J's words for an error of RE2, which ends with the part of the regex."""
    what, _, part = text.partition(": ")
    if part.startswith("(?<"):  # RE2/J takes a lookbehind for a name
        return _REASONS["invalid named capture group"]
    return _REASONS.get(what, what)


def _escape(found: re.Match[str]) -> str:
    r"""Convert an escape to RE2/J's meaning: no \C (any byte); non-ASCII characters are literal."""
    text = found[0]
    if text == r"\C":
        raise PatternError("invalid escape sequence")
    return text if text.isascii() or text.startswith(r"\Q") else text[1]


def _check(text: str) -> None:
    """Reject what RE2 accepts and RE2/J does not.

    `text` is a valid RE2 regex, so all its classes are closed, which keeps this linear.
    """
    names: set[str] = set()
    for found in _TOKEN.finditer(text):
        match found.lastgroup:
            case "name":
                if re.fullmatch(r"\w+", found["name"], re.ASCII) is None:
                    raise PatternError(_REASONS["invalid named capture group"])
                if found["name"] in names:
                    raise PatternError("duplicate capture group name")
                names.add(found["name"])
            case "least" | "most":  # RE2 takes a count of nine or more digits literally
                if any(len(count) > len(_MAX_REPEAT) for count in found.group("least", "most") if count):
                    raise PatternError("invalid repeat count")
            case "brace":  # RE2/J takes a literal brace for a repetition, and rejects nested ones
                raise PatternError("invalid nested repetition operator")
