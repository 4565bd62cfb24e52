"""One embedded and one real broker, which the files of this folder share.

A file that creates topics deletes them. Groups, producers and configs have names of their own.
"""

from collections.abc import Iterator

import pytest

from tests.broker.fixtures import need_broker
from tests.cluster.helpers.pair import Pair
from tests.cluster.helpers.pair_play import Duel, duel
from tests.of_group import of_group


@pytest.fixture(scope="module")
def both(request: pytest.FixtureRequest) -> Iterator[Duel]:
    """Yield both brokers, which have no topics before and after a file."""
    need_broker()
    found = of_group(request.config, duel)
    yield found
    found.clean()


@pytest.fixture
def pair(both: Duel) -> Iterator[Pair]:
    found = Pair(*both.ports, ids=both.ids)
    yield found
    found.close()
