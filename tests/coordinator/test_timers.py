"""Timers fire when due, in the order in which they were set."""

from dataclasses import dataclass, field

from hypothesis import given
from hypothesis import strategies as st

from quorate.coordinator.results import Result
from quorate.coordinator.timers import Timer, Timers


@dataclass
class Plain:
    """The same without a queue: searches all timers each time."""

    timers: dict[str, tuple[int, int]] = field(default_factory=dict)
    order: int = 0

    def schedule(self, key: str, at_ms: int) -> None:
        self.order += 1
        self.timers[key] = (at_ms, self.order)

    def next_due(self, now_ms: int) -> tuple[str, int] | None:
        due = [(at_ms, order, key) for key, (at_ms, order) in self.timers.items() if at_ms <= now_ms]
        if not due:
            return None
        at_ms, _, key = min(due)
        del self.timers[key]
        return key, at_ms


def nothing(at_ms: int) -> Result[None]:
    return Result()


KEYS = st.sampled_from("abcd")
STEPS = st.one_of(
    st.tuples(st.just("set"), KEYS, st.integers(0, 20)),
    st.tuples(st.just("absent"), KEYS, st.integers(0, 20)),
    st.tuples(st.just("postpone"), KEYS, st.integers(0, 20)),
    st.tuples(st.just("postpone held"), KEYS, st.integers(0, 20)),
    st.tuples(st.just("cancel"), KEYS, st.just(0)),
    st.tuples(st.just("pass"), st.just(""), st.integers(0, 8)),
    st.tuples(st.just("step"), st.just(""), st.integers(-30, 30)),
    st.tuples(st.just("look"), st.just(""), st.just(0)),
)


@given(st.lists(STEPS, max_size=60))
def test_timers_fire_as_with_a_linear_search(steps: list[tuple[str, str, int]]) -> None:
    timers, plain, now_ms = Timers(), Plain(), 100
    held: dict[str, Timer] = {}
    for what, key, number in steps:
        match what:
            case "set":
                held[key] = timers.schedule(key, now_ms + number, nothing)
                plain.schedule(key, now_ms + number)
            case "absent":
                timers.schedule_if_absent(key, now_ms + number, nothing)
                if key not in plain.timers:
                    plain.schedule(key, now_ms + number)
            case "postpone":
                later = key in plain.timers and plain.timers[key][0] <= now_ms + number
                assert timers.postpone(key, now_ms + number) == later
                if later:
                    plain.schedule(key, now_ms + number)
            case "postpone held":
                if key in held:
                    live = any(held[key] is one for one in timers.pending())
                    later = live and held[key].at_ms <= now_ms + number
                    assert timers.postpone_timer(held[key], now_ms + number) == later
                    if later:
                        plain.schedule(key, now_ms + number)
            case "cancel":
                timers.cancel(key)
                plain.timers.pop(key, None)
            case "step":
                timers.step(number)
                plain.timers = {name: (at_ms + number, order) for name, (at_ms, order) in plain.timers.items()}
                now_ms += number
            case "look":
                assert timers.next_at_ms() == min((at_ms for at_ms, _ in plain.timers.values()), default=None)
            case _:
                now_ms += number
        assert all(at_ms >= timers.none_before_ms for at_ms, _ in plain.timers.values())
        assert [one.key for one in timers.pending()] == sorted(plain.timers, key=lambda name: plain.timers[name])
        assert len(timers) == len(plain.timers)
        if what == "pass":
            while (expected := plain.next_due(now_ms)) is not None:
                fired = timers.next_due(now_ms)
                assert fired is not None
                assert (fired.key, fired.at_ms) == expected
            assert timers.next_due(now_ms) is None


def test_rescheduled_timers_do_not_grow_the_queue() -> None:
    timers = Timers()
    for at_ms in range(100_000):
        timers.schedule("session", at_ms, nothing)
    assert len(timers._queue) < 100


def test_cancelled_timers_do_not_grow_the_queue() -> None:
    timers = Timers()
    for at_ms in range(10_000):
        timers.schedule("session", at_ms, nothing)
        timers.cancel("session")
    assert len(timers._queue) < 100


def test_a_postponed_timer_keeps_its_operation() -> None:
    timers = Timers()
    timers.schedule("a", 10, lambda at_ms: Result(response="first"), retry_ms=None)
    assert timers.postpone("a", 20)
    assert timers.next_due(19) is None
    timer = timers.next_due(20)
    assert timer is not None
    assert (timer.operation(20).response, timer.retry_ms) == ("first", None)


def test_a_timer_that_is_over_cannot_be_postponed() -> None:
    timers = Timers()
    cancelled, replaced, fired = (timers.schedule(key, 10, nothing) for key in "abc")
    timers.cancel("a")
    assert timers.schedule("b", 5, nothing) is not replaced
    timers.cancel("b")
    assert timers.next_due(10) is fired
    assert not any(timers.postpone_timer(one, 20) for one in (cancelled, replaced, fired))
    assert len(timers) == 0


def test_latest_operation_of_a_timer_is_run() -> None:
    timers = Timers()
    timers.schedule("a", 10, lambda at_ms: Result(response="first"))
    timers.schedule("a", 20, lambda at_ms: Result(response="second"), retry_ms=None)
    assert timers.next_due(19) is None
    timer = timers.next_due(20)
    assert timer is not None
    assert (timer.operation(20).response, timer.retry_ms) == ("second", None)
