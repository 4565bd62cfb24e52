"""One embedded and one real broker, which the files of this folder share.

A file that creates topics deletes them. Groups, producers and configs have names of their own.
"""

from collections.abc import Iterator

import pytest

from tests.broker.fixtures import need_broker
from tests.cluster.helpers.pair import Pair
from tests.cluster.helpers.pair_play import Duel, duel


@pytest.fixture(scope="package")
def duel_of_folder() -> Iterator[Duel]:
    need_broker()
    with duel() as found:
        yield found


@pytest.fixture(scope="module")
def both(duel_of_folder: Duel) -> Iterator[Duel]:
    """Yield both brokers, which have no topics before and after a file."""
    yield duel_of_folder
    duel_of_folder.clean()


@pytest.fixture
def pair(both: Duel) -> Iterator[Pair]:
    found = Pair(*both.ports, ids=both.ids)
    yield found
    found.close()
