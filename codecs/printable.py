"""Text of unknown origin in logs, messages and tables: without control characters, and not too long. Knows no records."""

from collections.abc import Sequence

__all__ = ["brief", "cut", "printable", "some_of"]


def printable(text: str) -> str:
    """The text with whatever a terminal might act upon shown as an escape."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)
    )


def cut(text: str, most: int) -> str:
    """The text, or as much of it as is allowed, with a mark. Kafka takes names of up to 32,767 bytes."""
    return text if len(text) <= most else text[: most - 1] + "…"


def brief(text: str, most: int = 200) -> str:
    """The text for a log line: at most `most` characters of it, printable ones."""
    return cut(printable(cut(text, most)), most)


def some_of(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many others there are."""
    shown = ", ".join(brief(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} others"
