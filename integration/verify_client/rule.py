"""`Rule`: what a client must do, with its source; and the evidence by which it is judged.

A rule is a function of the exchanges of one scenario. It reports each situation in which the rule
applied and was kept (`ok`), and each in which it was broken (`differs`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from quorate.codecs.api.error_codes import ErrorCode
from quorate.integration.verify_client.exchanges import ClientLink, Exchange

RETRIABLE = frozenset(
    {
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_TOPIC_ID,
        ErrorCode.REQUEST_TIMED_OUT,
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.UNSTABLE_OFFSET_COMMIT,
        ErrorCode.STALE_MEMBER_EPOCH,
    }
)
"""Errors after which a client of Kafka sends the request again."""

ABANDONED = frozenset({ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID})
"""Errors after which a member of the consumer protocol has lost its partitions, and joins again."""

GRACE_S = 0.5
"""How long a client may still send what it had prepared when a response arrived."""


@dataclass(slots=True, kw_only=True)
class ProgramRun:
    """A process of the client: when it was stopped, and ended.

    `status`: its exit status. `killed`: it did not end after SIGTERM. `output`: its last lines.
    """

    number: int
    stopped_s: float | None = None
    ended_s: float | None = None
    status: int | None = None
    killed: bool = False
    output: Sequence[str] = ()

    @property
    def ended_early(self) -> bool:
        """Whether it ended by itself."""
        return self.ended_s is not None and (self.stopped_s is None or self.ended_s < self.stopped_s)


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """What happened in a scenario.

    `versions`: API key → versions that the brokers accept. `topic_id`: as text. `end_offsets`: of
    the topic's partitions at the end; empty if records were still written. `works_again`: whether
    the client made progress after the fault; `None` if it did not have to. `may_end`: whether the
    client may end by itself, because it was fenced.
    """

    exchanges: Sequence[Exchange]
    links: Sequence[ClientLink]
    group: str
    topic: str
    topic_id: str
    versions: Mapping[int, range]
    programs: Sequence[ProgramRun]
    end_s: float
    end_offsets: Mapping[int, int] = field(default_factory=dict)
    works_again: bool | None = None
    may_end: bool = False

    def of(self, *apis: str) -> list[Exchange]:
        """Return the exchanges of some APIs that were decoded."""
        return [one for one in self.exchanges if one.api in apis and one.request is not None]

    def stop_s(self, link: ClientLink) -> float:
        """Return when the program of a connection was stopped, or ended, else the end."""
        times = [
            time
            for run in self.programs
            if link.program in (0, run.number)
            for time in (run.stopped_s, run.ended_s)
            if time is not None
        ]
        return min(times, default=self.end_s)

    def partitions(self, topics: Any) -> Iterator[Any]:
        """Yield the partitions of the scenario's topic in a list of topics, named or by id."""
        for topic in topics or ():
            names = {getattr(topic, "name", ""), getattr(topic, "topic", ""), str(getattr(topic, "topic_id", ""))}
            if names & {self.topic, self.topic_id}:
                for name in ("partitions", "partition_data", "partition_responses", "partition_indexes"):
                    yield from getattr(topic, name, ())

    def fetched_partitions(self) -> list[tuple[Exchange, frozenset[int]]]:
        """Return each Fetch with its partitions, also those that its session remembers."""
        sessions: dict[int, set[int]] = {}
        found = []
        for one in self.of("Fetch"):
            wanted = {part.partition for part in self.partitions(one.request.topics)}
            if one.request.session_epoch > 0:
                wanted |= sessions.get(one.link.number, set())
                for topic in one.request.forgotten_topics_data:
                    if {topic.topic, str(topic.topic_id)} & {self.topic, self.topic_id}:
                        wanted -= set(topic.partitions)
            sessions[one.link.number] = wanted
            found.append((one, frozenset(wanted)))
        return found

    def heartbeats(self) -> dict[str, list[Exchange]]:
        """Return the ConsumerGroupHeartbeats of each member, by its member id."""
        found: dict[str, list[Exchange]] = {}
        for one in self.of("ConsumerGroupHeartbeat"):
            member = one.request.member_id or getattr(one.response, "member_id", None) or ""
            found.setdefault(member, []).append(one)
        return found


@dataclass(slots=True)
class Findings:
    """What a rule found in a scenario: how often it was kept, and how it was broken."""

    kept: int = 0
    problems: list[tuple[str, tuple[Exchange, ...]]] = field(default_factory=list)

    def ok(self) -> None:
        """Count a situation in which the rule was kept."""
        self.kept += 1

    def differs(self, problem: str, *exchanges: Exchange) -> None:
        """Add a situation in which the rule was broken, with the exchanges that show it."""
        self.problems.append((problem, exchanges))

    def check(self, kept: object, problem: str, *exchanges: Exchange) -> None:
        """Call `ok` or `differs`."""
        if kept:
            self.ok()
        else:
            self.differs(problem, *exchanges)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientRule:
    """A rule for clients. `source`: the KIP or Kafka issue. `rule`: one sentence."""

    name: str
    source: str
    rule: str
    judge: Callable[[Evidence, Findings], None]


def client_rule(source: str, rule: str) -> Callable[[Callable[[Evidence, Findings], None]], ClientRule]:
    """Turn a function into a rule, which has its name."""

    def declare(judge: Callable[[Evidence, Findings], None]) -> ClientRule:
        return ClientRule(name=judge.__name__.replace("_", "-"), source=source, rule=rule, judge=judge)

    return declare


def rules_in(module: Mapping[str, Any]) -> tuple[ClientRule, ...]:
    """Return the rules of a module (its `globals()`), in the order of their definition."""
    return tuple(value for value in module.values() if isinstance(value, ClientRule))
