"""Recorded steps of checks, by release of Kafka.

`recordings.jsonl` has a line for each check and each different result: the releases with it, and
its steps. `scripts/record_verify.py` writes it from real brokers.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from quorate.codecs.releases import KafkaVersion
from quorate.integration.verify.session import CheckStep

Recording = Mapping[str, Sequence[CheckStep]]
"""The steps of each check. A check without steps cannot run on the release."""


@dataclass(frozen=True, slots=True)
class _Line:
    check: str
    releases: tuple[str, ...]
    steps: tuple[CheckStep, ...]


@cache
def _lines() -> tuple[_Line, ...]:
    text = files("quorate.integration.verify").joinpath("recordings.jsonl").read_text(encoding="utf-8")
    found = []
    for line in text.splitlines():
        data = json.loads(line)
        steps = tuple(CheckStep(*step) for step in data["steps"])
        found.append(_Line(data["check"], tuple(data["releases"]), steps))
    return tuple(found)


def recorded_releases() -> list[KafkaVersion]:
    """Return the releases that were recorded, oldest first."""
    return sorted({KafkaVersion.parse(release) for line in _lines() for release in line.releases})


def recordings_of(release: KafkaVersion) -> Recording:
    """Return what brokers of a recorded release responded to each check."""
    return {line.check: line.steps for line in _lines() if str(release) in line.releases}


def lines_of(recordings: Mapping[str, Recording]) -> Iterable[str]:
    """Return the lines of `recordings.jsonl`; equal results of several releases share a line."""
    names = dict.fromkeys(name for recording in recordings.values() for name in recording)
    for name in names:
        by_result: dict[str, list[str]] = {}
        for release, recording in recordings.items():
            if name in recording:
                steps = json.dumps([[step.api, step.version, step.response] for step in recording[name]])
                by_result.setdefault(steps, []).append(release)
        for steps, releases in by_result.items():
            yield json.dumps({"check": name, "releases": releases, "steps": json.loads(steps)}, ensure_ascii=True)
