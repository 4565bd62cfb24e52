"""Small things in words, for tables: ids, times, lists of partitions. Nothing here knows records."""

import re
from collections.abc import Iterable
from datetime import UTC, datetime

__all__ = ["brief_id", "numbers", "time_text"]

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$")
_BASE64 = re.compile(r"[0-9A-Za-z_+/-]{22}")


def time_text(timestamp_ms: int) -> str:
    """2026-11-21 10:17:12.345, in UTC; the number itself if it is no time that a calendar has."""
    try:
        return (
            datetime.fromtimestamp(timestamp_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.")
            + f"{timestamp_ms % 1000:03}"
        )
    except (ValueError, OverflowError, OSError):
        return str(timestamp_ms)


def numbers(items: Iterable[int]) -> str:
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

    Members of the newer protocols make up 16 bytes in base64, coordinators of classic groups append a UUID to the client's name (KIP-394).
    """
    random = _UUID.search(text)
    if random is not None:
        return text[: random.start() + 8] + "…"
    return text[:8] + "…" if _BASE64.fullmatch(text) and not text.islower() and not text.isupper() else text
