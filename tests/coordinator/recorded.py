"""Recorded histories with the responses of Kafka's coordinator, which need no Java.

    .venv/bin/python -P tests/coordinator/recorded.py        # records Kafka again, and writes the file

Random histories as those of the differential tests, which ask Kafka itself; these are for machines
without Java, and for `make mutate`, which plays them thousands of times.
"""

import gzip
import json
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[2]))

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Answer, Duel
from tests.coordinator.share_scripts import ShareHistory
from tests.coordinator.test_offsets import simple_history
from tests.oracle.client import Oracle

__all__ = ["FILE", "Kinds", "Recorded", "record", "recorded"]

FILE = Path(__file__).resolve().parents[1] / "data" / "coordinator_histories.jsonl.gz"
STEPS = 60

Made = Callable[[Oracle, int], Duel]

Kinds = Mapping[str, tuple[Iterable[int], Made]]
"""Kind of history → seeds, and what makes one."""


@dataclass(frozen=True)
class Recorded:
    """`lines`: the ops; `answers`: Kafka's responses; `asides`: responses to the duel's own ops."""

    name: str
    lines: list[Answer]
    answers: list[Answer]
    asides: dict[str, list[Answer]]

    def play(self, kind: type[Duel] = Duel) -> Duel:
        """Ask our side the same; gives the duel, for those who look at what our side has written.

        Raises `Differs`.
        """
        duel = kind(_Tape(self), note=self.name)  # type: ignore[arg-type]
        for line in self.lines:
            duel.op(line["op"], **{name: value for name, value in line.items() if name not in ("op", "id")})
        return duel


def recorded(path: Path = FILE) -> list[Recorded]:
    """All that are in the file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Recorded(**json.loads(line)) for line in file]


class _Tape:
    """In place of the oracle: says what it said."""

    def __init__(self, reported: Recorded) -> None:
        self._answers = iter(reported.answers)
        self._asides = {op: deque(answers) for op, answers in reported.asides.items()}

    def call(self, op: str, **fields: Any) -> Answer:
        return self._asides[op].popleft()

    def call_many(self, ops: Iterable[Mapping[str, Any]]) -> list[Answer]:
        return [next(self._answers) for _ in ops]


class _Recorder(Oracle):
    """The oracle, with a memory."""

    def __init__(self, command: Sequence[str | Path] | None = None) -> None:
        super().__init__(command)
        self.answers: list[Answer] = []
        self.asides: defaultdict[str, list[Answer]] = defaultdict(list)

    def call(self, op: str, **fields: Any) -> Answer:
        (response,) = super().call_many([{"op": op, **fields}])
        self.asides[op].append(response)
        return response

    def call_many(self, ops: Iterable[Mapping[str, Any]]) -> list[Answer]:
        answers = super().call_many(ops)
        self.answers += answers
        return answers


def _consumer(oracle: Oracle, seed: int, **shares: float) -> Duel:
    duel = Duel(oracle)
    History(Random(seed), duel, **shares).run(STEPS)
    return duel


def _classic(oracle: Oracle, seed: int) -> Duel:
    duel = NamedDuel(oracle)
    ClassicHistory(Random(seed), duel, groups=1 + seed % 2).run(STEPS)
    return duel


def _mixed(oracle: Oracle, seed: int) -> Duel:
    duel = NamedDuel(oracle)
    MixedHistory(Random(seed), duel).run(STEPS)
    return duel


def _share(oracle: Oracle, seed: int) -> Duel:
    duel = Duel(oracle)
    ShareHistory(Random(seed), duel).run(STEPS)
    return duel


def _offsets(oracle: Oracle, seed: int) -> Duel:
    duel = Duel(oracle)
    simple_history(duel, seed)
    return duel


KINDS: Kinds = {
    "consumer": (range(10), _consumer),
    "static": (range(8), lambda oracle, seed: _consumer(oracle, seed, statics=0.9, regexes=0.1)),
    "regex": (range(8), lambda oracle, seed: _consumer(oracle, seed, statics=0.1, regexes=0.9)),
    "classic": (range(4), _classic),
    "mixed": (range(10), _mixed),
    "share": (range(8), _share),
    "offsets": (range(8), _offsets),
}


def record(path: Path, kinds: Kinds, oracles: Mapping[str, Sequence[str | Path] | None]) -> None:
    """Ask the oracles, by what to call them and how to start them (`None` for the usual one); write the file."""
    with path.open("wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as file:
        for title, command in oracles.items():
            with _Recorder(command) as oracle:
                for kind, (seeds, make) in kinds.items():
                    for seed in seeds:
                        oracle.answers.clear()
                        oracle.asides.clear()
                        lines = make(oracle, seed).lines
                        reported = {
                            "name": ", ".join(filter(None, (title, kind, f"seed {seed}"))),
                            "lines": lines,
                            "answers": oracle.answers,
                            "asides": oracle.asides,
                        }
                        file.write(json.dumps(reported, separators=(",", ":")).encode() + b"\n")


def main() -> None:
    """Ask Kafka; write the file."""
    record(FILE, KINDS, {"": None})


if __name__ == "__main__":
    main()
