"""The event loop of a cluster: uvloop's if it is installed, otherwise asyncio's."""

import asyncio
import sys

import pytest

from quorate.cluster import EmbeddedCluster
from quorate.cluster.loop_thread import new_loop
from tests import loops

uvloop = pytest.importorskip("uvloop")


@pytest.mark.parametrize(("module", "expected"), [(uvloop, uvloop.Loop), (None, asyncio.SelectorEventLoop)])
def test_a_cluster_runs_in_a_loop_of_uvloop_if_that_is_installed(monkeypatch, module, expected):
    monkeypatch.setitem(sys.modules, "uvloop", module)
    loop = new_loop()
    loop.close()
    assert isinstance(loop, expected)
    with EmbeddedCluster() as cluster:
        assert isinstance(cluster._thread._loop, expected)
        cluster.create_topic("orders", partitions=1)


def test_each_test_has_the_other_loop_in_a_full_run():
    names = [f"tests/test_{number}.py" for number in range(100)]
    usual = [loops.has_uvloop_in(name, full=False) for name in names]
    assert 30 < sum(usual) < 70
    assert [loops.has_uvloop_in(name, full=True) for name in names] == [not one for one in usual]


def test_a_cluster_runs_in_a_loop_of_uvloop_that_users_run():
    async def run() -> int:
        async with EmbeddedCluster() as cluster:
            await asyncio.to_thread(lambda: None)
            return len(cluster.brokers)

    assert uvloop.run(run()) == 1
