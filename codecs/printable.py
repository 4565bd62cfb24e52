"""Text for logs, messages and tables: names of unknown origin without control characters and not too long, times, hashes, numbers.

Knows no records.
"""

import re
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

__all__ = [
    "brief",
    "brief_id",
    "counted",
    "cut",
    "hash_text",
    "listed",
    "printable",
    "some_of",
    "spans",
    "time_text",
]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_BASE64 = re.compile(r"[0-9A-Za-z_+/-]{22}")


def printable(text: str) -> str:
    """The text with whatever a terminal might act upon shown as an escape."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)
    )


def cut(text: str, most: int) -> str:
    """The text, or as much of it as is allowed, with a mark.

    Kafka takes names of up to 32,767 bytes.
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def brief(text: str, most: int = 200) -> str:
    """The text for a log line: at most `most` characters of it, printable ones."""
    return cut(printable(cut(text, most)), most)


def some_of(names: Sequence[str], most: int = 3) -> str:
    """The first names of a list, and how many others there are."""
    shown = ", ".join(brief(name) for name in names[:most])
    return shown if len(names) <= most else f"{shown} and {len(names) - most:,} others"


def listed(names: Sequence[str], most: int = 5) -> str:
    """The first names of a list, and how many there are in all: for an error that says what there is."""
    more = f", … ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def counted(number: int, what: str) -> str:
    """A number of things: 1 member, 2,000 members."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def time_text(timestamp_ms: int) -> str:
    """2026-11-21 10:17:12.345, in UTC; the number itself if it is no time that a calendar has."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.")
            + f"{timestamp_ms % 1000:03}"
        )
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def spans(items: Iterable[int]) -> str:
    """Partitions as spans: 0-2 5."""
    spans: list[list[int]] = []
    for item in sorted(items):
        if spans and item == spans[-1][1] + 1:
            spans[-1][1] = item
        else:
            spans.append([item, item])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def brief_id(text: str) -> str:
    """A member id without what is behind the first eight characters of its random part; any other text as it is.

    Members of the newer protocols make up 16 bytes in base64, coordinators of classic groups append
    a UUID to the client's name (KIP-394).
    """
    random = _UUID.search(text)
    if random is not None:
        return text[: random.start() + 8] + "…"
    return text[:8] + "…" if _BASE64.fullmatch(text) and not text.islower() and not text.isupper() else text


def hash_text(value: int) -> str:
    """A metadata hash, as 64 bits in hex."""
    return f"0x{value & (1 << 64) - 1:016x}"
