"""Requests that ask for much: others are served while they are handled, and see all of what they change or nothing (issue 14).

Each part of the work is a turn of its own here, so that what is counted does not depend on the machine.
"""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster, turns
from quorate.codecs.api.broker import (
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
)
from quorate.codecs.api.broker.create_partitions import CreatePartitionsTopic
from quorate.codecs.api.broker.create_topics import CreatableTopic
from quorate.codecs.api.broker.delete_topics import DeleteTopicState
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.conftest import QUICK
from tests.cluster.test_limits import eventually
from tests.cluster.wire import Wire

MANY = 30


@pytest.fixture(params=[False, True], ids=["in memory", "on disk"])
def cluster(request: pytest.FixtureRequest, tmp_path: Path, short_turns: None) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties=QUICK, data=tmp_path if request.param else None) as made:
        yield made


@pytest.fixture
def seen(cluster: EmbeddedCluster, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], Any]], list[Any]]:
    """Have something looked at before each turn of large requests; returns what was seen."""

    def watch(look: Callable[[], Any]) -> list[Any]:
        found: list[Any] = []
        unwatched = turns.Turns._next

        def watched(self: turns.Turns) -> None:
            found.append(look())
            unwatched(self)

        monkeypatch.setattr(turns.Turns, "_next", watched)
        return found

    return watch


def new(name: str, partitions: int = 1) -> CreatableTopic:
    return CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)


def test_topics_of_a_request_exist_from_the_same_moment_and_others_are_served_meanwhile(
    cluster: EmbeddedCluster, seen: Callable[[Callable[[], Any]], list[Any]]
) -> None:
    core = cluster.core
    looked = seen(lambda: (len(core.topics), len(core.image.topics)))
    with Wire(core.brokers[1].port) as wire:
        many = tuple(new(f"t{number}") for number in range(MANY))
        created = wire.ask(CreateTopicsRequest(topics=many, timeout_ms=1000), 7)
        assert [one.error_code for one in created.topics] == [0] * MANY
        assert len(looked) > 3 * MANY
        assert set(looked) == {(0, 0), (MANY, MANY)}
        looked.clear()
        gone = tuple(DeleteTopicState(name=f"t{number}") for number in range(MANY))
        deleted = wire.ask(DeleteTopicsRequest(topics=gone, timeout_ms=1000), 6)
        assert [one.error_code for one in deleted.responses] == [0] * MANY
        assert len(looked) > 2 * MANY
        assert set(looked) == {(0, 0), (MANY, MANY)}


def test_partitions_of_a_request_exist_from_the_same_moment(
    cluster: EmbeddedCluster, seen: Callable[[Callable[[], Any]], list[Any]]
) -> None:
    core = cluster.core
    cluster.call(lambda: core.create_topic("t", partitions=1))
    looked = seen(lambda: (len(core.topics["t"].partitions), core.image.topics["t"].partitions))
    with Wire(core.brokers[1].port) as wire:
        more = CreatePartitionsTopic(name="t", count=300, assignments=None)
        grown = wire.ask(CreatePartitionsRequest(topics=(more,), timeout_ms=1000), 3)
        assert grown.results[0].error_code == ErrorCode.NONE
    assert len(looked) > 4
    assert set(looked) == {(1, 1), (300, 300)}


def test_a_name_is_taken_as_soon_as_a_request_creates_it(cluster: EmbeddedCluster) -> None:
    """Two requests at once: as Kafka's controller, which handles one after the other."""
    with Wire(cluster.core.brokers[1].port) as one, Wire(cluster.core.brokers[1].port) as two:
        request = CreateTopicsRequest(topics=tuple(new(f"a.{number}") for number in range(MANY)), timeout_ms=1000)
        one.send(request, 7)
        two.send(replace_names(request), 7)
        first = [topic.error_code for topic in one.receive(CreateTopicsRequest, 7).topics]
        second = [topic.error_code for topic in two.receive(CreateTopicsRequest, 7).topics]
    # Names with "." and "_" cannot be told apart in metrics: of each pair there is one topic.
    assert sorted([first, second]) == [[0] * MANY, [ErrorCode.INVALID_TOPIC_EXCEPTION] * MANY]
    assert len(cluster.core.topics) == MANY


def replace_names(request: CreateTopicsRequest) -> CreateTopicsRequest:
    return CreateTopicsRequest(
        topics=tuple(new(one.name.replace(".", "_")) for one in request.topics), timeout_ms=request.timeout_ms
    )


@pytest.mark.usefixtures("short_turns")
def test_a_cluster_that_stops_creates_all_topics_of_a_request_or_none() -> None:
    made = EmbeddedCluster(properties=QUICK)
    core = made.core
    with made, Wire(core.brokers[1].port) as wire:
        wire.send(CreateTopicsRequest(topics=tuple(new(f"t{number}") for number in range(500)), timeout_ms=1000), 7)
        eventually(lambda: core.turns._waiting or core.topics)
    assert len(core.topics) in (0, 500)
    assert not core._coming
