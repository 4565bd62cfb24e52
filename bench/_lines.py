"""What users feel, as lines of the benchmarks, each with its goal (issue 22).

A line has the cases of a benchmark whose names match, one for each size. Its figure is the ratio to
a peer, or quorate's own.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Line:
    """What a user does, and the case that measures it.

    `case`: a regex for the start of its name. `peer`: the start of the peer's name, if several are
    compared. `figure`: "ratio" or "ours". `least`, `most`: the goal.
    """

    user: str
    bench: str
    case: str
    figure: str = "ratio"
    least: float | None = None
    most: float | None = None
    peer: str = ""

    @property
    def goal(self) -> str:
        """The goal as text."""
        return f"≥ {self.least:,.10g}" if self.least is not None else f"≤ {self.most:,.10g}"

    def met(self, case: Mapping[str, Any]) -> bool | None:
        """Whether a case reaches the goal; `None` without a figure."""
        value = case[self.figure]
        if value is None:
            return None
        return bool(value >= self.least if self.least is not None else value <= self.most)


def _each(user: str, bench: str, *cases: str, **goal: Any) -> tuple[Line, ...]:
    return tuple(Line(user, bench, case, **goal) for case in cases)


LIST = "lists groups of a log"
LOG = "reads a log directory, one commit per batch"
RECORDS = "decodes and encodes single records"
STORM = "starts a group in a test"
SMALL = "assigns a small group"

LINES: tuple[Line, ...] = (
    *_each("runs README's first test", "commands", r"three brokers for a test", figure="ours", most=0.4),
    *_each(STORM, "cluster", r"join storm of \d+ members, KIP-848", r"join storm of \d+ members, classic",
           least=0.5, peer="kfake"),
    *_each(LIST, "commands", r"quorate groups list, [\d.]+ (MB|GB)$", figure="ours", most=3),
    *_each(LIST, "commands", r"quorate groups list, [\d.]+ (MB|GB): memory", figure="ours", most=500),
    *_each(LOG, "codecs", "segment → Arrow: 1 per batch", least=1),
    *_each(RECORDS, "codecs", "decode_record: OffsetCommit$", "encode_record: OffsetCommit$",
           figure="ours", least=0.7e6, peer="construct"),
    *_each("loads a coordinator, record by record", "coordinator", "replay of OffsetCommit, from bytes", least=0.3),
    *_each("loads a coordinator, by columns", "coordinator_load", "load from", least=1),
    *_each("commits offsets, in process", "coordinator", "offset commits, shard and replay",
           "offset commits, runtime", least=0.25),
    *_each("heartbeats, in process", "coordinator", "heartbeats of 100 members, shard",
           "heartbeats of 100 members, runtime", least=0.5),
    *_each("heartbeats over sockets", "cluster", "KIP-848 heartbeats, one in flight",
           r"KIP-848 heartbeats, \d+ in flight", least=1.5, peer="kfake"),
    *_each("heartbeats over sockets", "cluster", "KIP-848 heartbeats, server and client on one core",
           least=10, peer="real broker"),
    *_each("produces to the embedded cluster", "cluster", "produce, librdkafka", least=1, peer="kfake"),
    *_each("consumes from the embedded cluster", "cluster", "fetch, librdkafka", least=1.2, peer="kfake"),
    *_each("consumes with share groups", "cluster", "share fetch and acknowledge, server on one core",
           least=1, peer="real broker"),
    *_each(SMALL, "assignors", "server-uniform: 10 members", "server-range: 10 members", "client-range: 10 members",
           "client-sticky: 10 members", "client-cooperative-sticky: 10 members", least=1),
    *_each("heartbeats, many groups", "coordinator", r"a heartbeat, [\d,]+ groups of 5$", least=0.85, peer="10 groups"),
    *_each("heartbeats, many groups", "coordinator", r"a heartbeat, [\d,]+ groups of 5$", least=0.5, peer="Kafka"),
    *_each("keeps a large group in memory", "coordinator", r"KIP-1101, \d+ members.*whole group", least=2),
    *_each("reads six columns in Spark", "pipeline", "segments → commits, 6 columns, ", least=0.85,
           peer="the same batches"),
    *_each("reads all columns in Spark", "pipeline", r"segments → commits, \d+(\.\d+)? M$", figure="ours", least=1.4e6,
           peer="the same batches"),
    *_each("reports on a small log", "commands", "quorate pipeline report", figure="ours", most=3),
    *_each("reports on a small log", "commands", "quorate pipeline state", figure="ours", most=1),
    *_each("consumes with KIP-848 clients", "consumers", "first message", least=0.83, peer="librdkafka, consumer"),
    *_each("consumes with KIP-848 clients", "consumers", "throughput", least=0.97, peer="kafka-python"),
    *_each("consumes with KIP-848 clients", "consumers", "throughput, aiokafka", least=0.97, peer="aiokafka"),
    *_each("opens the page of quorate watch", "watch_page", "load until", figure="ours", most=1_000),
    *_each("moves the time slider", "watch_page", "step of the slider", figure="ours", most=100),
    *_each("sees a rebalance on the page", "watch_page", "event on the page", figure="ours", most=1_000),
    *_each("finds races", "simulation", r".* schedules on one core", figure="ours", most=300),
)  # fmt: skip


def found_by(line: Line, cases: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return the cases of a line: one for each size."""
    return [
        case
        for case in cases
        if re.match(line.case, str(case["case"])) and str(case["peer_name"]).startswith(line.peer)
    ]
