r"""Regular expressions in RE2's syntax, as Kafka's coordinator takes them (KIP-848 says RE2/J), for Python's `re`.

The two agree on what most expressions mean, but not on what an expression is: RE2 has no look-around, back references, atomic or conditional groups and possessive
repetition, and it has POSIX classes, `\Q…\E`, `\z`, `\pL` and flags in the middle. Topics have ASCII names, so classes of Unicode are their ASCII part.
Python looks for matches by backtracking: unlike RE2 it can take exponential time for expressions that are made for that.
"""

import re
import unicodedata
from functools import lru_cache

__all__ = ["PatternError", "compiled", "translated"]

MAX_REPEAT = 1000
"""RE2 refuses larger counts."""

_ASCII = [chr(code) for code in range(128)]

_POSIX = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": "\\x00-\\x7f",
    "blank": "\\t ",
    "cntrl": "\\x00-\\x1f\\x7f",
    "digit": "0-9",
    "graph": "!-~",
    "lower": "a-z",
    "print": " -~",
    "punct": "!-/:-@\\[-`{-~",
    "space": "\\t\\n\\v\\f\\r ",
    "upper": "A-Z",
    "word": "0-9A-Za-z_",
    "xdigit": "0-9A-Fa-f",
}
_PERL = {"d": "0-9", "s": "\\t\\n\\f\\r ", "w": "0-9A-Za-z_"}
_CONTROL = {"a": 7, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11}
_CATEGORIES = {"C", "L", "M", "N", "P", "S", "Z"}
_ANY = "[\\x00-\\U0010ffff]"


class PatternError(ValueError):
    """Not an expression in RE2's syntax."""


@lru_cache(maxsize=1024)
def compiled(pattern: str) -> re.Pattern[str]:
    """The expression for Python; match with `fullmatch`. Raises `PatternError`."""
    try:
        return re.compile(translated(pattern), re.ASCII)
    except (re.error, OverflowError, RecursionError) as error:
        raise PatternError(str(error)) from None


def translated(pattern: str) -> str:
    """The same expression in Python's syntax. Raises `PatternError`."""
    return _Translation(pattern).whole()


class _Flags:
    """Flags as they are set at a place in the pattern: i, m, s as in Perl, U swaps greedy and lazy."""

    __slots__ = ("on",)

    def __init__(self, on: frozenset[str] = frozenset()) -> None:
        self.on = on

    def wrap(self, text: str) -> str:
        """`text` where these flags hold: those for Python."""
        on = "".join(sorted(self.on & {"i"}))
        return f"(?{on}:{text})" if on else text


class _Translation:
    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self.at = 0
        self.names: set[str] = set()

    def whole(self) -> str:
        text = self.alternatives(_Flags())
        if self.at < len(self.pattern):
            raise PatternError(f"unexpected ) at {self.at}")
        return text

    def peek(self, text: str) -> bool:
        return self.pattern.startswith(text, self.at)

    def take(self) -> str:
        if self.at >= len(self.pattern):
            raise PatternError("ends too early")
        self.at += 1
        return self.pattern[self.at - 1]

    def alternatives(self, flags: _Flags) -> str:
        """Up to the end, or to the parenthesis that closes this group. Flags set on the way hold to the end of the group."""
        branches: list[list[str]] = [[]]
        repeatable = False
        repeated = False
        while self.at < len(self.pattern) and not self.peek(")"):
            char = self.pattern[self.at]
            if char == "|":
                self.at += 1
                branches.append([])
                repeatable = repeated = False
            elif char in "*+?" or (char == "{" and self.counts() is not None):
                if not repeatable:
                    raise PatternError(f"nothing to repeat at {self.at}")
                if repeated:
                    raise PatternError(f"repeated twice at {self.at}")
                branches[-1][-1] = f"(?:{branches[-1][-1]}){self.repetition(flags)}"
                repeated = True
            elif self.peek("(?") and (found := self.flags_only(flags)) is not None:
                flags = found
                repeated = False  # but what stands before the flags can be repeated after them
            else:
                branches[-1].append(self.atom(flags))
                repeatable, repeated = True, char == "{"  # RE2/J takes a brace that is just a brace for a repetition
        return "|".join("".join(branch) for branch in branches)

    def counts(self) -> tuple[int, int | None, int] | None:
        """Least, most and end of a {count} here; `None` if the brace is just a brace."""
        found = re.compile(r"\{(\d+)(?:(,)(\d*))?\}", re.ASCII).match(self.pattern, self.at)
        if found is None:
            return None
        least = int(found[1])
        most = least if found[2] is None else int(found[3]) if found[3] else None
        return least, most, found.end()

    def repetition(self, flags: _Flags) -> str:
        counts = self.counts() if self.peek("{") else None
        if counts is None:
            text = self.take()
        else:
            least, most, self.at = counts
            if least > MAX_REPEAT or (most is not None and (most > MAX_REPEAT or most < least)):
                raise PatternError(f"{{{least},{most}}} is no count")
            text = f"{{{least},{'' if most is None else most}}}"
        lazy = self.peek("?")
        self.at += lazy
        return text + ("?" if lazy != ("U" in flags.on) else "")

    def flags_only(self, flags: _Flags) -> _Flags | None:
        """The flags after a (?flags) here; `None` if it is something else."""
        found = re.compile(r"\(\?([imsU]*)(-[imsU]+)?\)", re.ASCII).match(self.pattern, self.at)
        if found is None:
            return None
        self.at = found.end()
        return _Flags((flags.on | set(found[1])) - set(found[2] or ""))

    def atom(self, flags: _Flags) -> str:
        char = self.take()
        match char:
            case "(":
                return self.group(flags)
            case "[":
                return flags.wrap(self.char_class())
            case "\\":
                return flags.wrap(self.escape())
            case ".":
                return _ANY if "s" in flags.on else "[^\\n]"
            case "^":
                return "(?:^|(?<=\\n))" if "m" in flags.on else "\\A"
            case "$":
                return "(?=\\n|\\Z)" if "m" in flags.on else "\\Z"
        return flags.wrap(re.escape(char))

    def group(self, flags: _Flags) -> str:
        if self.peek("?"):
            found = re.compile(r"\?(?:P?<(\w+)>|([imsU]*)(-[imsU]+)?:)", re.ASCII).match(self.pattern, self.at)
            if found is None:
                raise PatternError(f"unknown kind of group at {self.at - 1}")
            if found[1] is not None:
                if found[1] in self.names:
                    raise PatternError(f"group {found[1]} is there twice")
                self.names.add(found[1])
            else:
                flags = _Flags((flags.on | set(found[2])) - set(found[3] or ""))
            self.at = found.end()
        inner = self.alternatives(flags)
        if not self.peek(")"):
            raise PatternError("missing )")
        self.at += 1
        return f"(?:{inner})"

    def escape(self) -> str:
        """What follows a backslash outside of classes."""
        char = self.take()
        match char:
            case "A" | "b" | "B":
                return f"\\{char}"
            case "z":
                return "\\Z"
            case "Q":
                end = self.pattern.find("\\E", self.at)
                text = self.pattern[self.at :] if end < 0 else self.pattern[self.at : end]
                self.at = len(self.pattern) if end < 0 else end + 2
                return re.escape(text)
        kind = self.class_escape(char)
        return re.escape(self.one(char)) if kind is None else f"[{kind}]"

    def class_escape(self, char: str) -> str | None:
        """The inside of a class for an escape that stands for several characters; `None` for one that stands for one."""
        if char.lower() in _PERL:
            return _PERL[char] if char.islower() else _complement(_PERL[char.lower()])
        if char not in "pP":
            return None
        name = self.take()
        if name == "{":
            end = self.pattern.find("}", self.at)
            if end < 0:
                raise PatternError("missing }")
            name, self.at = self.pattern[self.at : end], end + 1
        negated = (char == "P") != name.startswith("^")
        inside = _unicode(name.removeprefix("^"))
        return _complement(inside) if negated else inside

    def one(self, char: str) -> str:
        """The character that an escape stands for."""
        if char in _CONTROL:
            return chr(_CONTROL[char])
        if char == "x":
            found = re.compile(r"\{([0-9A-Fa-f]+)\}|([0-9A-Fa-f]{2})").match(self.pattern, self.at)
            code = -1 if found is None else int(found[1] or found[2], 16)
            if found is None or code > 0x10FFFF:
                raise PatternError(f"\\x without a character at {self.at}")
            self.at = found.end()
            return chr(code)
        if char in "01234567":
            # \1 to \7 alone would be back references; with another octal digit they are characters.
            more = re.compile(r"[0-7]{0,2}").match(self.pattern, self.at)
            digits = more[0] if more is not None else ""
            if char != "0" and not digits:
                raise PatternError(f"back reference \\{char}")
            self.at += len(digits)
            return chr(int(char + digits, 8))
        if ord(char) < 128 and not char.isalnum():
            return char
        raise PatternError(f"unknown escape \\{char}")

    def char_class(self) -> str:
        start = self.at - 1
        negated = self.peek("^")
        self.at += negated
        parts: list[str] = []
        first = True
        while first or not self.peek("]"):
            if self.at >= len(self.pattern):
                raise PatternError(f"missing ] of the class at {start}")
            first = False
            found = re.compile(r"\[:(\^?)(\w+):\]").match(self.pattern, self.at)
            if found is not None:
                if found[2] not in _POSIX:
                    raise PatternError(f"unknown class {found[0]}")
                self.at = found.end()
                parts.append(_complement(_POSIX[found[2]]) if found[1] else _POSIX[found[2]])
                continue
            low = self.class_item()
            if low.kind is not None:
                parts.append(low.kind)
                continue
            high = low
            if self.peek("-") and not self.pattern.startswith("-]", self.at):
                self.at += 1
                high = self.class_item()
                if high.kind is not None or high.char < low.char:
                    raise PatternError(f"no range in the class at {start}")
            parts.append(f"{_in_class(low.char)}-{_in_class(high.char)}" if high is not low else _in_class(low.char))
        self.at += 1
        return f"[{'^' if negated else ''}{''.join(parts)}]"

    def class_item(self) -> "_Item":
        char = self.take()
        if char != "\\":
            return _Item(char, None)
        char = self.take()
        kind = self.class_escape(char)
        return _Item("", kind) if kind is not None else _Item(self.one(char), None)


class _Item:
    """One character of a class, or the inside of a class that stands for several."""

    __slots__ = ("char", "kind")

    def __init__(self, char: str, kind: str | None) -> None:
        self.char = char
        self.kind = kind


def _in_class(char: str) -> str:
    return f"\\U{ord(char):08x}"


def _complement(inside: str) -> str:
    """The inside of a class with all characters that are not in this one."""
    pattern = re.compile(f"[{inside}]") if inside else None
    kept = [char for char in _ASCII if pattern is None or not pattern.match(char)]
    return "".join(map(_in_class, kept)) + "\\x80-\\U0010ffff"


def _unicode(name: str) -> str:
    """The inside of a class with the ASCII characters of a category, such as L or Lu, or of a script."""
    if name == "Any":
        return "\\x00-\\U0010ffff"
    if name in ("Latin", "Common"):
        return "".join(_in_class(char) for char in _ASCII if char.isalpha() == (name == "Latin"))
    if name in _SCRIPTS:
        return "\\u0100"  # nothing in ASCII
    if name[:1] not in _CATEGORIES or name not in _KNOWN_CATEGORIES:
        raise PatternError(f"unknown class \\p{{{name}}}")
    return "".join(_in_class(char) for char in _ASCII if unicodedata.category(char).startswith(name)) or "\\u0100"


_KNOWN_CATEGORIES = _CATEGORIES | {unicodedata.category(chr(code)) for code in range(0x30000)} - {"Cn"}
_SCRIPTS = frozenset(
    [
        "Arabic",
        "Armenian",
        "Bengali",
        "Bopomofo",
        "Braille",
        "Cherokee",
        "Coptic",
        "Cyrillic",
        "Devanagari",
        "Ethiopic",
        "Georgian",
        "Gothic",
        "Greek",
        "Gujarati",
        "Gurmukhi",
        "Han",
        "Hangul",
        "Hebrew",
        "Hiragana",
        "Inherited",
        "Kannada",
        "Katakana",
        "Khmer",
        "Lao",
        "Malayalam",
        "Mongolian",
        "Myanmar",
        "Ogham",
        "Oriya",
        "Runic",
        "Sinhala",
        "Syriac",
        "Tamil",
        "Telugu",
        "Thaana",
        "Thai",
        "Tibetan",
        "Yi",
    ]
)
