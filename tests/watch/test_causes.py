"""Each rebalance that Kafka's own log shows appears once, with the right cause.

`bench/watch_differential.py` plays more histories.
"""

from collections.abc import Iterator
from contextlib import suppress
from random import Random

import pytest

from tests.coordinator.classic_scripts import ClassicHistory
from tests.coordinator.consumer_scripts import History
from tests.coordinator.scripts import KnownFailure
from tests.extent import portion
from tests.oracle.client import Oracle
from tests.oracle.fixtures import need_oracle
from tests.watch.helpers.judged import JudgedDuel

pytestmark = pytest.mark.oracle

HISTORIES = {"consumer": portion(40, usual=8), "classic": portion(80, usual=16)}  # classic ones have fewer rebalances


@pytest.fixture(scope="module")
def talking_oracle() -> Iterator[Oracle]:
    """An oracle that prints Kafka's log."""
    need_oracle()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ORACLE_LOG", "info")
        oracle = Oracle()
    with oracle:
        yield oracle


@pytest.mark.parametrize("kind", ["consumer", "classic"])
def test_rebalances_of_random_histories_are_those_of_kafkas_log(talking_oracle: Oracle, kind: str) -> None:
    judged = unknown = 0
    for seed in range(HISTORIES[kind]):
        duel = JudgedDuel(talking_oracle, note=f"{kind}, seed {seed}")
        history = (History if kind == "consumer" else ClassicHistory)(Random(seed), duel)
        with suppress(KnownFailure):  # Kafka itself fails; what it wrote before was judged
            history.run(50)
        assert not duel.found, f"{kind}, seed {seed}\n" + "\n".join(duel.found[:3])
        judged += duel.judged
        unknown += duel.unknown
    # Enough to mean something. The mean of classic histories is three, and varies with Kafka's
    # random ids.
    assert judged > (3 if kind == "consumer" else 2) * HISTORIES[kind], judged
    assert unknown * 50 <= judged
