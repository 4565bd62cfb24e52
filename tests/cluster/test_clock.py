"""Clocks that are set while a cluster runs: delays do not change."""

from collections.abc import Iterator

import pytest

from quorate.cluster import EmbeddedCluster, ManualClock, RealClock
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.codecs.api.error_codes import ErrorCode
from tests.cluster.conftest import QUICK
from tests.cluster.helpers.wire import Wire

HOUR_MS = 3_600_000
SESSION_MS = 45_000
JOIN = ConsumerGroupHeartbeatRequest(
    group_id="g",
    member_id="m",
    member_epoch=0,
    rebalance_timeout_ms=60_000,
    subscribed_topic_names=("orders",),
    topic_partitions=(),
)


class Times:
    """The machine's clocks, set by a test."""

    def __init__(self) -> None:
        self.wall_ms = 1_700_000_000_000
        self.passed_ms = 5_000

    def pass_ms(self, by_ms: float) -> None:
        self.wall_ms += by_ms
        self.passed_ms += by_ms

    def clock(self) -> RealClock:
        return RealClock(lambda: int(self.wall_ms * 1e6), lambda: int(self.passed_ms * 1e6))


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS, -60_000, 1_000])
def test_the_real_clock_returns_wall_time_and_how_far_it_was_set(by_ms):
    times = Times()
    clock = times.clock()
    times.pass_ms(10_000)
    assert (clock.now_ms(), clock.stepped_ms) == (1_700_000_010_000, 0)
    times.wall_ms += by_ms
    times.pass_ms(20)
    assert (clock.now_ms(), clock.stepped_ms) == (1_700_000_010_020 + by_ms, by_ms)
    times.pass_ms(10_000)
    clock.now_ms()
    assert clock.stepped_ms == by_ms


def test_a_clock_slewed_by_ntp_was_not_set():
    times = Times()
    clock = times.clock()
    for _ in range(100):
        times.pass_ms(60_000)
        times.wall_ms -= 30  # 500 ppm
        clock.now_ms()
    assert clock.stepped_ms == 0


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def kafka(clock) -> Iterator[EmbeddedCluster]:
    with EmbeddedCluster(properties=QUICK, clock=clock, seed=1) as made:
        made.call(lambda: made.core.create_topic("orders", partitions=2, replicas=1))
        made.call(lambda: made.core.internal_topic(CONSUMER_OFFSETS))
        yield made


def members(kafka):
    return {
        member
        for runtime in kafka.core.groups.runtimes().values()
        for group in runtime.shard.state.groups.values()
        for member in group.members
    }


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_setting_the_clock_does_not_change_session_timeouts(kafka, clock, by_ms):
    with Wire(kafka.core.brokers[1].port) as wire:
        assert wire.request(JOIN, 1).error_code == ErrorCode.NONE
    kafka.call(lambda: clock.advance(SESSION_MS - 1_000))
    kafka.call(lambda: clock.step(by_ms))
    kafka.call(lambda: clock.advance(999))
    assert members(kafka) == {"m"}
    kafka.call(lambda: clock.advance(1))
    assert members(kafka) == set()


@pytest.mark.parametrize("by_ms", [-HOUR_MS, HOUR_MS])
def test_a_heartbeat_after_a_clock_step_begins_a_normal_session(kafka, clock, by_ms):
    with Wire(kafka.core.brokers[1].port) as wire:
        epoch = wire.request(JOIN, 1).member_epoch
        beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id="m", member_epoch=epoch)
        kafka.call(lambda: clock.advance(1_000))
        kafka.call(lambda: clock.step(by_ms))
        assert wire.request(beat, 1).error_code == ErrorCode.NONE
    kafka.call(lambda: clock.advance(SESSION_MS - 1))
    assert members(kafka) == {"m"}
    kafka.call(lambda: clock.advance(1))
    assert members(kafka) == set()


def test_records_have_the_wall_time_after_a_clock_step(kafka, clock):
    kafka.call(lambda: clock.step(-HOUR_MS))
    with Wire(kafka.core.brokers[1].port) as wire:
        wire.request(JOIN, 1)
    partition = kafka.core.groups.partition_for("g")
    assert {batch.max_timestamp_ms for batch in partition.log} == {clock.now_ms()}


def test_write_errors_are_reported_again_after_the_clock_is_set_back(kafka, clock):
    kafka.core.logs._cannot_write("first")
    kafka.core.logs._cannot_write("at once")
    clock.step(-HOUR_MS)
    kafka.core.logs._cannot_write("second")
    assert [note for note in kafka.core.notes if "broker" not in note] == ["first", "second"]
