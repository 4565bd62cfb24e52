"""`Meter`: counts of requests, errors, response times and bytes of brokers.

It does not know how they are exported.
"""

from bisect import bisect_left
from collections import Counter, defaultdict
from typing import TYPE_CHECKING

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.error_responses import error_codes_in
from quorate.codecs.message import Message

if TYPE_CHECKING:
    from quorate.cluster.frames import Header

BUCKETS_S = (0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)
"""Upper bounds of the buckets for response times; fetches and joins can wait for more than half a
minute.
"""


class Timing:
    """A histogram of response times.

    `buckets`: counts for each of `BUCKETS_S`, and for longer times; `sum_s`: the sum of all.
    """

    __slots__ = ("buckets", "sum_s")

    def __init__(self) -> None:
        self.buckets = [0] * (len(BUCKETS_S) + 1)
        self.sum_s = 0.0

    def add(self, seconds: float) -> None:
        """Count a response."""
        self.buckets[bisect_left(BUCKETS_S, seconds)] += 1
        self.sum_s += seconds


class Meter:
    """The counts of all brokers of a cluster.

    `requests`: by broker, API and version. `errors`: by broker, API and error, counted once for
    each occurrence in a response. `timings`: by broker and API, from the start of handling until
    the response is written to the socket. `received_bytes`, `sent_bytes`, `accepted` (connections)
    and `refused`: by broker.
    """

    def __init__(self) -> None:
        self.requests: Counter[tuple[int, str, int]] = Counter()
        self.errors: Counter[tuple[int, str, str]] = Counter()
        self.timings: defaultdict[tuple[int, str], Timing] = defaultdict(Timing)
        self.received_bytes: Counter[int] = Counter()
        self.sent_bytes: Counter[int] = Counter()
        self.accepted: Counter[int] = Counter()
        self.refused: Counter[int] = Counter()

    def record(self, broker: int, header: "Header", response: Message | None, sent_bytes: int, seconds: float) -> None:
        """Count a handled request; `response` is `None` if the client expects none."""
        assert header.api is not None
        api = header.api.name
        self.requests[broker, api, header.version] += 1
        self.sent_bytes[broker] += sent_bytes
        self.timings[broker, api].add(seconds)
        for code in () if response is None else error_codes_in(response):
            self.errors[broker, api, ErrorCode(code).name if code in _KNOWN else str(code)] += 1


_KNOWN = frozenset(int(code) for code in ErrorCode)
