"""The embedded cluster beside a real broker: the same raw requests, answered the same, field by field. `bench/cluster_differential.py` goes on with other seeds."""

from collections.abc import Iterator

import pytest

from tests.broker.fixtures import need_broker
from tests.cluster.pair_gaps import GAPS, Gap
from tests.cluster.pair_play import Duel, duel

STEPS = 30


@pytest.fixture(scope="module")
def both() -> Iterator[Duel]:
    need_broker()
    with duel() as found:
        yield found


@pytest.mark.parametrize("seed", range(1, 11))
def test_random_requests_are_answered_as_a_real_broker_answers_them(both: Duel, seed: int) -> None:
    both.play(seed, STEPS)


@pytest.mark.parametrize("gap", GAPS, ids=lambda gap: gap.reason.split(",")[0])
def test_what_is_declared_to_differ_does_differ(both: Duel, gap: Gap) -> None:
    found = gap.shows(both.pair)
    assert any(gap.covers(one) for one in found), (
        f"they do not differ any more: take this gap from the list ({gap.reason})"
    )
