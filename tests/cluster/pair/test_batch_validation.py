"""Invalid batches on the embedded and a real broker, in all kinds of topics (issue 14)."""

from collections.abc import Iterable, Iterator
from itertools import groupby
from random import Random

import pytest

from tests.cluster.helpers.batch_cases import CASES, Case, Player
from tests.cluster.helpers.pair_play import Duel
from tests.extent import is_full


@pytest.fixture(scope="module")
def players(both: Duel) -> Iterator[tuple[Player, ...]]:
    found = tuple(map(Player, both.ports))
    yield found
    for one in found:
        one.close()


def compressions(case: Case) -> Iterable[str]:
    """Return the first compression of a case and one more; in a full run all."""
    return case.only if is_full() else dict.fromkeys((case.only[0], Random(case.name).choice(case.only)))


@pytest.mark.parametrize(
    "cases", [list(found) for _, found in groupby(CASES, lambda case: case.name)], ids=lambda cases: cases[0].name
)
def test_a_batch_is_accepted_or_rejected_and_stored_as_by_a_real_broker(
    players: tuple[Player, ...], cases: list[Case]
) -> None:
    """Error code and message, record errors, appended offsets, and stored bytes are equal."""
    for case in cases:
        for compression in compressions(case):
            data = case.data(compression)
            ours, theirs = (player.play(data, case.version) for player in players)
            for kind, outcome in theirs.items():
                assert str(ours[kind]) == str(outcome), f"{compression} batch to a topic that is {kind}"
