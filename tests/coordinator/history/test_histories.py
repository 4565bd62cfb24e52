"""Random histories: our coordinator's records, responses and timers equal those of Kafka's.

A failure prints the seed and a shortened script, which `python -m tests.differential FILE` runs.
Kafka generates random ids and orders members by them, so a seed can have different results.
"""

from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from tests.coordinator.any_requests import AnyRequests
from tests.coordinator.any_scripts import AnyHistory
from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.minimise import run_and_minimise
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Duel, KnownFailure
from tests.coordinator.share_scripts import ShareHistory
from tests.coordinator.streams_scripts import StreamsHistory
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

NAMED = (ClassicHistory, MixedHistory, AnyHistory)
"""Classes whose scripts have names instead of ids that Kafka generates."""


def half(full: int) -> int:
    """Return how many of `full` seeds to try: half of the usual portion in `make test`.

    The recordings and the tests of each kind of group cover the same code.
    """
    return portion(full, usual=max(2, full * 3 // 20))


HISTORIES: dict[str, tuple[Callable[..., Any], int, range, dict[str, Any]]] = {
    "consumer groups": (History, 40, range(half(60)), {}),
    "consumer groups that name topics": (History, 40, range(1000, 1000 + half(30)), {"regexes": 0}),
    "consumer groups without static members": (History, 40, range(2000, 2000 + half(20)), {"statics": 0}),
    "consumer groups with a plug-in assignor": (History, 40, range(3000, 3000 + half(40)), {"plug_in": True}),
    "classic groups": (ClassicHistory, 50, range(half(25)), {}),
    "one classic group": (ClassicHistory, 50, range(1000, 1000 + half(25)), {"groups": 1}),
    "one classic group without static members": (
        ClassicHistory,
        50,
        range(2000, 2000 + half(10)),
        {"groups": 1, "statics": False},
    ),
    "groups of both protocols": (MixedHistory, 40, range(half(30)), {}),
    "groups of both protocols without static members": (
        MixedHistory,
        40,
        range(1000, 1000 + half(15)),
        {"statics": False},
    ),
    "groups of both protocols that behave well": (
        MixedHistory,
        40,
        range(2000, 2000 + half(15)),
        {"well_behaved": True},
    ),
    "share groups": (ShareHistory, 40, range(half(80)), {}),
    "streams groups": (StreamsHistory, 40, range(half(80)), {}),
}
"""Kind of history → class, steps, seeds, arguments."""

WITH_ANY_REQUESTS: dict[str, tuple[Callable[..., Any], int, range, dict[str, Any]]] = {
    "any requests": (AnyHistory, 50, range(half(60)), {}),
    "any requests amid classic groups": (ClassicHistory, 50, range(half(20)), {"anything": AnyRequests}),
    "any requests amid both protocols": (MixedHistory, 50, range(half(20)), {"anything": AnyRequests}),
}


def cases_of(kinds: dict[str, tuple[Callable[..., Any], int, range, dict[str, Any]]]) -> list[Any]:
    return [pytest.param(name, seed, id=f"{name}-{seed}") for name, (_, _, seeds, _) in kinds.items() for seed in seeds]


def play(oracle: Oracle, name: str, seed: int) -> None:
    made, steps, _, how = {**HISTORIES, **WITH_ANY_REQUESTS}[name]
    duel = (NamedDuel if made in NAMED else Duel)(oracle, note=f"{name}, seed {seed}")
    run_and_minimise(duel, lambda: made(Random(seed), duel, **how).run(steps))


@pytest.mark.parametrize(("name", "seed"), cases_of(HISTORIES))
def test_random_histories_equal_kafkas(oracle: Oracle, name: str, seed: int) -> None:
    play(oracle, name, seed)


@pytest.mark.parametrize(("name", "seed"), cases_of(WITH_ANY_REQUESTS))
def test_arbitrary_requests_get_kafkas_responses(oracle: Oracle, name: str, seed: int) -> None:
    with suppress(KnownFailure):  # what came before was compared
        play(oracle, name, seed)
