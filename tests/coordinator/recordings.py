"""Recorded random histories with the responses of Kafka's coordinator.

    .venv/bin/python -P tests/coordinator/recordings.py        # records them again

The differential tests run such histories on Kafka itself. The recorded ones are for machines
without Java, and for `make mutate`, which runs them thousands of times.
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
from tests.coordinator.offsets.test_offsets import simple_history
from tests.coordinator.scripts import Duel, Json
from tests.coordinator.share_scripts import ShareHistory
from tests.oracle.client import Oracle

FILE = Path(__file__).resolve().parents[1] / "data" / "coordinator_histories.jsonl.gz"
STEPS = 60

Made = Callable[[Oracle, int], Duel]

Kinds = Mapping[str, tuple[Iterable[int], Made]]
"""Kind of history → seeds, and the function that runs a history."""


@dataclass(frozen=True)
class Recording:
    """A recorded history.

    `lines`: the ops; `responses`: Kafka's, by line; `asides`: Kafka's to ops of the duel itself.
    """

    name: str
    lines: list[Json]
    responses: list[Json]
    asides: dict[str, list[Json]]

    def play(self, kind: type[Duel] = Duel) -> Duel:
        """Run the ops on our side, compare the responses, and return the duel.

        Raises `Differs`.
        """
        duel = kind(_Tape(self), note=self.name)  # type: ignore[arg-type]
        for line in self.lines:
            duel.op(line["op"], **{name: value for name, value in line.items() if name not in ("op", "id")})
        return duel


def read_recordings(path: Path = FILE) -> list[Recording]:
    """Return all histories in a file."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [Recording(**json.loads(line)) for line in file]


class _Tape:
    """Returns recorded responses in place of the oracle."""

    def __init__(self, reported: Recording) -> None:
        self._responses = iter(reported.responses)
        self._asides = {op: deque(responses) for op, responses in reported.asides.items()}

    def call(self, op: str, **fields: Any) -> Json:
        return self._asides[op].popleft()

    def call_many(self, ops: Iterable[Mapping[str, Any]]) -> list[Json]:
        return [next(self._responses) for _ in ops]


class _Recorder(Oracle):
    """An oracle that keeps its responses."""

    def __init__(self, command: Sequence[str | Path] | None = None) -> None:
        super().__init__(command)
        self.responses: list[Json] = []
        self.asides: defaultdict[str, list[Json]] = defaultdict(list)

    def call(self, op: str, **fields: Any) -> Json:
        (response,) = super().call_many([{"op": op, **fields}])
        self.asides[op].append(response)
        return response

    def call_many(self, ops: Iterable[Mapping[str, Any]]) -> list[Json]:
        responses = super().call_many(ops)
        self.responses += responses
        return responses


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
    """Run the histories on oracles and write the file.

    `oracles`: title → command that starts it, or `None` for the default one.
    """
    with path.open("wb") as out, gzip.GzipFile("", "wb", fileobj=out, mtime=0) as file:
        for title, command in oracles.items():
            with _Recorder(command) as oracle:
                for kind, (seeds, make) in kinds.items():
                    for seed in seeds:
                        oracle.responses.clear()
                        oracle.asides.clear()
                        lines = make(oracle, seed).lines
                        reported = {
                            "name": ", ".join(filter(None, (title, kind, f"seed {seed}"))),
                            "lines": lines,
                            "responses": oracle.responses,
                            "asides": oracle.asides,
                        }
                        file.write(json.dumps(reported, separators=(",", ":")).encode() + b"\n")


def main() -> None:
    """Record the histories on the newest release."""
    record(FILE, KINDS, {"": None})


if __name__ == "__main__":
    main()
