"""Creation of the internal topics of streams groups by their broker (KIP-1071, KIP-1284).

A broker creates the repartition and changelog topics that a group lacks, and keeps errors for a
while, to report them in later heartbeats.
"""

from collections.abc import Collection, Iterable, Mapping

from quorate.codecs.api.broker import CreateTopicsResponse
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.error_codes import ErrorCode

_MOST_ERRORS = 1_000


class InternalTopicCreation:
    """The internal topics that a broker is creating, and the errors of failed ones."""

    __slots__ = ("_creating", "_errors")

    def __init__(self) -> None:
        self._creating: set[str] = set()
        self._errors: dict[str, tuple[str, int]] = {}

    def errors(self, topics: Iterable[str], now_ms: int) -> Mapping[str, str]:
        """Return topic → error, of those topics that could not be created."""
        self._errors = {name: error for name, error in self._errors.items() if now_ms < error[1]}
        return {name: self._errors[name][0] for name in topics if name in self._errors}

    def start(self, topics: Mapping[str, CreatableTopic], now_ms: int) -> tuple[CreatableTopic, ...]:
        """Return the topics to create now: not those being created, or that just failed."""
        failed = self.errors(topics, now_ms)
        new = {name: topic for name, topic in topics.items() if name not in failed and name not in self._creating}
        self._creating.update(new)
        return tuple(new.values())

    def created(self, response: CreateTopicsResponse, *, until_ms: int) -> None:
        """Take the response of the controller. Errors are kept until a time."""
        self._creating.difference_update(topic.name for topic in response.topics)
        for topic in response.topics:
            if topic.error_code:
                self._keep(topic.name, topic.error_message or ErrorCode(topic.error_code).name, until_ms)

    def failed(self, names: Collection[str], error: BaseException, *, until_ms: int) -> None:
        """Take note of topics whose request failed as a whole."""
        self._creating.difference_update(names)
        for name in names:
            self._keep(name, str(error), until_ms)

    def _keep(self, name: str, error: str, until_ms: int) -> None:
        while len(self._errors) >= _MOST_ERRORS:
            del self._errors[min(self._errors, key=lambda one: self._errors[one][1])]
        self._errors[name] = (error, until_ms)
