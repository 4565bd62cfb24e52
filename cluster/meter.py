"""`Meter`: what brokers count while they answer: requests, errors, how long answers took, bytes.

Who shows it, and in which form, is not known here.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from functools import cache
from typing import TYPE_CHECKING, Any

from quorate.codecs.api.error_codes import ERROR_FIELDS, ErrorCode
from quorate.codecs.message import Message, MessageSpec
from quorate.codecs.wire import ArrayType, StructType

if TYPE_CHECKING:
    from quorate.cluster.frames import Header

__all__ = ["BUCKETS_S", "Meter", "Timing", "error_codes"]

BUCKETS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the buckets that answers are counted in by the seconds they took; fetches and
joins wait for up to half a minute or more.
"""


class Timing:
    """How long answers took.

    `buckets`: how many up to each of `BUCKETS_S`, and how many longer than all; `sum_s`: together.
    """

    __slots__ = ("buckets", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count one."""
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Meter:
    """The counts of all brokers of a cluster, since it was made.

    `requests`: by broker, API and version; `errors`: by broker, API and error, each code in a
    response once for each place it is in; `timings`: by broker and API, from when a request is
    looked at until its answer is handed to the socket; `received_bytes`, `sent_bytes`, `accepted`
    (connections) and `refused`: by broker.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, str, int]] = Counter()
        self.errors: Counter[tuple[int, str, str]] = Counter()
        self.timings: defaultdict[tuple[int, str], Timing] = defaultdict(Timing)
        self.received_bytes: Counter[int] = Counter()
        self.sent_bytes: Counter[int] = Counter()
        self.accepted: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()

    def answered(
        self, broker: int, header: "Header", response: Message | None, sent_bytes: int, seconds: float
    ) -> None:
        """A request was answered, or there is nothing to answer to it."""
        assert header.api is not None
        api = header.api.name
        self.requests[broker, api, header.version] += 1
        self.sent_bytes[broker] += sent_bytes
        self.timings[broker, api].add(seconds)
        for code in () if response is None else error_codes(response):
            self.errors[broker, api, ErrorCode(code).name if code in _KNOWN else str(code)] += 1


_KNOWN = frozenset(int(code) for code in ErrorCode)


def error_codes(response: Message) -> list[int]:
    """All error codes in a response that say that something failed, wherever its API has them."""
    own, inner = _places(response.spec)
    found = [code for code in (getattr(response, name) for name in own) if code]
    for name in inner:
        value: Any = getattr(response, name)
        for part in value or ():
            found += error_codes(part)
    return found


@cache
def _places(spec: MessageSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The names of a message's fields that are error codes, and of those that are lists of parts which have some."""
    own = tuple(field.name for field in spec.fields if field.name in ERROR_FIELDS)
    inner = []
    for field in spec.fields:
        element = field.type.element if isinstance(field.type, ArrayType) else None
        if isinstance(element, StructType) and any(_places(element.spec)):
            inner.append(field.name)
    return own, tuple(inner)
