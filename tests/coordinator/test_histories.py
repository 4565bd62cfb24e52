"""Random histories of groups: Kafka's own coordinator and ours write the same records, give the same answers at the same time, and set the same timers.

A failure prints the seed and a script that is as short as it could be made; `python -m
tests.differential FILE` runs it. Where Kafka makes up ids at random, by which it orders members, a
seed is not played twice in the same way.
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
from tests.coordinator.minimise import played
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.scripts import Declared, Duel
from tests.coordinator.share_scripts import ShareHistory
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

NAMED = (ClassicHistory, MixedHistory, AnyHistory)
"""Their scripts have names instead of ids that Kafka generates."""

HISTORIES: dict[str, tuple[Callable[..., Any], int, range, dict[str, Any]]] = {
    "consumer groups": (History, 40, range(portion(60)), {}),
    "consumer groups that name topics": (History, 40, range(1000, 1030), {"regexes": 0}),
    "consumer groups without static members": (History, 40, range(2000, 2020), {"statics": 0}),
    "classic groups": (ClassicHistory, 50, range(portion(25)), {}),
    "one classic group": (ClassicHistory, 50, range(1000, 1025), {"groups": 1}),
    "one classic group without static members": (
        ClassicHistory,
        50,
        range(2000, 2010),
        {"groups": 1, "statics": False},
    ),
    "groups of both protocols": (MixedHistory, 40, range(portion(30)), {}),
    "groups of both protocols without static members": (MixedHistory, 40, range(1000, 1015), {"statics": False}),
    "groups of both protocols that behave well": (MixedHistory, 40, range(2000, 2015), {"well_behaved": True}),
    "share groups": (ShareHistory, 40, range(portion(80)), {}),
}
"""Kind of history → what makes one, steps, seeds, and how."""

WITH_ANY_REQUESTS: dict[str, tuple[Callable[..., Any], int, range, dict[str, Any]]] = {
    "any requests": (AnyHistory, 50, range(portion(60)), {}),
    "any requests amid classic groups": (ClassicHistory, 50, range(portion(20)), {"anything": AnyRequests}),
    "any requests amid both protocols": (MixedHistory, 50, range(portion(20)), {"anything": AnyRequests}),
}


def every(kinds: dict[str, tuple[Callable[..., Any], int, range, dict[str, Any]]]) -> list[Any]:
    return [pytest.param(name, seed, id=f"{name}-{seed}") for name, (_, _, seeds, _) in kinds.items() for seed in seeds]


def play(oracle: Oracle, name: str, seed: int) -> None:
    made, steps, _, how = {**HISTORIES, **WITH_ANY_REQUESTS}[name]
    duel = (NamedDuel if made in NAMED else Duel)(oracle, note=f"{name}, seed {seed}")
    played(duel, lambda: made(Random(seed), duel, **how).run(steps))


@pytest.mark.parametrize(("name", "seed"), every(HISTORIES))
def test_random_histories_equal_kafkas(oracle: Oracle, name: str, seed: int) -> None:
    play(oracle, name, seed)


@pytest.mark.parametrize(("name", "seed"), every(WITH_ANY_REQUESTS))
def test_arbitrary_requests_get_kafkas_responses(oracle: Oracle, name: str, seed: int) -> None:
    with suppress(Declared):  # what came before was compared
        play(oracle, name, seed)
