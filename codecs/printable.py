"""Text for logs, messages and tables: printable and short names, times, hashes, numbers.

Knows nothing about records.
"""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_BASE64 = re.compile(r"[0-9A-Za-z_+/-]{22}")


def printable(text: str) -> str:
    """Return the text with unprintable characters, such as control characters, escaped."""
    return (
        text
        if text.isprintable()
        else "".join(c if c.isprintable() else c.encode("unicode_escape", "replace").decode() for c in text)
    )


def cut(text: str, most: int) -> str:
    """Return at most `most` characters of the text; a longer text ends with an ellipsis.

    Kafka accepts names of up to 32,767 bytes.
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def brief(text: str, most: int = 200) -> str:
    """Return at most `most` printable characters of the text, for a log line."""
    return cut(printable(cut(text, most)), most)


def some_of(names: Sequence[str]) -> str:
    """Return the first three names of a list, and the number of the others."""
    shown = ", ".join(brief(name) for name in names[:3])
    return shown if len(names) <= 3 else f"{shown} and {len(names) - 3:,} others"


def listed(names: Sequence[str], most: int = 5) -> str:
    """Return the first names of a list and the total, for an error that lists valid names."""
    more = f", … ({len(names):,} in all)" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def suggestion(name: str, known: Collection[str], otherwise: str, most: int = 3) -> str:
    """Return a hint for an unknown name: the known names that are similar to it, or `otherwise`."""
    from difflib import get_close_matches  # not loaded by each start of a cluster

    close = get_close_matches(name, known, most)
    return f"did you mean {' or '.join(close)}?" if close else otherwise


def counted(number: int, what: str) -> str:
    """Return a number with a noun: 1 member, 2,000 members."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def time_text(timestamp_ms: int) -> str:
    """Return a time as 2026-11-21 10:17:12.345, in UTC; the number itself if it is out of range."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.")
            + f"{timestamp_ms % 1000:03}"
        )
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def spans(items: Iterable[int]) -> str:
    """Return partitions as ranges: 0-2 5."""
    spans: list[list[int]] = []
    for item in sorted(items):
        if spans and item == spans[-1][1] + 1:
            spans[-1][1] = item
        else:
            spans.append([item, item])
    return " ".join(str(low) if low == high else f"{low}-{high}" for low, high in spans)


def brief_id(text: str) -> str:
    """Return a member id with its random part shortened to eight characters; other texts unchanged.

    Members of the newer protocols generate 16 bytes in base64; coordinators of classic groups
    append a UUID to the client id (KIP-394).
    """
    random = _UUID.search(text)
    if random is not None:
        return text[: random.start() + 8] + "…"
    return text[:8] + "…" if _BASE64.fullmatch(text) and not text.islower() and not text.isupper() else text


def hash_text(value: int) -> str:
    """Return a metadata hash as 64 bits in hex."""
    return f"0x{value & (1 << 64) - 1:016x}"


def duration_text(duration_ms: int) -> str:
    """Return a duration for a sentence, such as "1.2 s" or "5 min"."""
    if duration_ms < 1000:
        return f"{duration_ms} ms"
    if duration_ms < 120_000:
        return f"{duration_ms / 1000:.1f} s"
    return f"{duration_ms / 60_000:.0f} min" if duration_ms < 7_200_000 else f"{duration_ms / 3_600_000:.0f} h"
