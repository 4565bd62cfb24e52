"""Fail if comments, docstrings, messages, names or pages contain words of the list `WORDS`.

`make lint` checks all files of the project. Arguments are files or folders to check instead.

`plain: REASON` in a comment of the same line, or of the line above, allows a word that is used in
its own sense, such as the expressions of Spark.
"""

import ast
import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

WORDS = {
    r"told|tells?|telling": "return, report, notify, receive",
    r"behind": "after, following",
    r"(goes|go|going|went) on": "continue, resume, run until",
    r"besides?": "next to, in addition to",
    r"anew": "again, from scratch",
    r"answer(s|ed|ing)?": "response, respond, return",
    r"asked|asks|asking": "request, requested",
    r"settings?": "config, option",
    r"(?<!regular )expressions?": "regex",
    r"put out": "fenced, removed",
    r"(made|make|makes) up": "generated, synthetic",
    r"rooms?": "package, module",
    r"(some|no|any|every)body|whoever": "member, client, broker",
    r"hears?|heard": "receive, be notified",
    r"(is|are|was|were) (not |no longer )?there": "exists, is missing",
    r"(is|are|was|were) (not )?to (be|have|become)": "must, target, assigned",
    r"of no use": "not usable, missing",
}
"""Regex of words that are not to be used → words to use instead."""

NAME_PARTS = {
    "anew",
    "answer",
    "answered",
    "answers",
    "asked",
    "asks",
    "behind",
    "beside",
    "heard",
    "hears",
    "nobody",
    "room",
    "rooms",
    "somebody",
    "tell",
    "tells",
    "told",
    "whoever",
}
"""Words that names must not contain."""

_PROSE = re.compile("|".join(rf"(?P<w{number}>\b(?:{word})\b)" for number, word in enumerate(WORDS)), re.IGNORECASE)
_STRINGS = {tokenize.STRING, getattr(tokenize, "FSTRING_MIDDLE", tokenize.STRING)}  # the latter since Python 3.12
_REASON = re.compile(r"\bplain: \w")


def main(arguments: list[str]) -> None:
    """Print the places, and exit with status 1 if there are any."""
    listed = subprocess.run(["git", "ls-files", "-z", *arguments], capture_output=True, text=True, check=True).stdout
    found: list[str] = []
    for name in listed.split("\0"):
        path = Path(name)
        if path.suffix not in {".py", ".md", ".toml", ".yml", ""} or not path.is_file():
            continue
        if name != "scripts/plain_english.py":
            found += check(path)
    if found:
        sys.exit("\n".join([*found, f"{len(found)} places; CONTRIBUTING.md has the glossary"]))
    print("plain English")


def check(path: Path) -> list[str]:
    """Return lines of the form `path:line: word; write …`."""
    try:
        text = path.read_text("utf-8")
    except UnicodeDecodeError:
        return []
    lines = text.splitlines()
    places = python_places(text) if path.suffix == ".py" else page_places(lines)
    found: dict[tuple[int, str], str] = {}
    for line, word, instead in places:
        if not any(_REASON.search(lines[at]) for at in (line - 1, line - 2) if 0 <= at < len(lines)):
            found[line, word] = f"{path}:{line}: {word!r}; write {instead}"
    return [found[at] for at in sorted(found)]


def prose(text: str, first_line: int) -> Iterator[tuple[int, str, str]]:
    """Yield the line, the word, and what to write instead."""
    for one in _PROSE.finditer(text):
        instead = list(WORDS.values())[int(str(one.lastgroup)[1:])]
        yield first_line + text.count("\n", 0, one.start()), one[0], instead


def page_places(lines: list[str]) -> Iterator[tuple[int, str, str]]:
    """Yield the places in a page, without its code blocks."""
    fenced = False
    for number, line in enumerate(lines, 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        elif not fenced:
            yield from prose(re.sub(r"`[^`]*`|\]\([^)]*\)", "", line), number)


def python_places(text: str) -> Iterator[tuple[int, str, str]]:
    """Yield the places in comments, in strings of several words, and in defined names."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT or (token.type in _STRINGS and " " in token.string):
            yield from prose(re.sub(r"`[^`\n]*`", _blank, token.string), token.start[0])
    for node in ast.walk(ast.parse(text)):
        for name, line in _defined(node):
            for part in set(name.lower().split("_")) & NAME_PARTS:
                yield line, name, f"a name without {part!r}"


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _defined(node: ast.AST) -> Iterator[tuple[str, int]]:
    match node:
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            yield re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name), node.lineno
        case ast.arg():
            yield node.arg, node.lineno
        case ast.Name(ctx=ast.Store()):
            yield node.id, node.lineno
        case ast.Attribute(ctx=ast.Store()):
            yield node.attr, node.lineno


if __name__ == "__main__":
    main(sys.argv[1:])
