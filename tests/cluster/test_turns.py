"""Work in turns: other tasks run between them, and `close` completes pending work."""

import asyncio
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from quorate.cluster import turns
from quorate.cluster.turns import ThreadCall, Turns, Work


def steps(name: str, count: int, events: list[Any]) -> Work[str]:
    for number in range(count):
        events.append((name, number))
        yield None
    return name


def fail(error: BaseException) -> None:
    raise error


def test_work_of_one_turn_completes_at_once() -> None:
    done: list[str] = []
    assert Turns(fail).run(steps("a", 3, []), done.append, fail)
    assert done == ["a"]


@pytest.mark.usefixtures("short_turns")
def test_two_large_requests_alternate_and_other_tasks_run_between_them() -> None:
    async def run() -> list[Any]:
        events: list[Any] = []
        scheduler = Turns(fail)
        for name in "ab":
            scheduler.run(steps(name, 3, events), events.append, fail)

        async def other() -> None:
            while "b" not in events:
                events.append("other")
                await asyncio.sleep(0)

        await other()
        return events

    events = asyncio.run(run())
    work = [event for event in events if event != "other"]
    assert work == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), "a", "b"]
    assert all("other" in events[at : at + 2] for at in range(2, len(events) - 1))


def test_a_turn_ends_after_at_most_30_ms(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0

    def clock() -> float:
        nonlocal now_ms
        now_ms += 1
        return now_ms / 1000

    monkeypatch.setattr(turns, "perf_counter", clock)

    async def run() -> list[Any]:
        events: list[Any] = []
        scheduler = Turns(fail)
        scheduler.run(steps("a", 500, events), events.append, fail)
        while "a" not in events:
            events.append("other")
            await asyncio.sleep(0)
        return events

    events = asyncio.run(run())
    others = [at for at, event in enumerate(events) if event == "other"]
    assert max(after - before for before, after in pairwise([-1, *others])) <= 30


def test_a_thread_call_returns_its_result_or_exception() -> None:
    def thread_id() -> int:
        return threading.get_ident()

    def work() -> Work[tuple[bool, str]]:
        elsewhere = (yield ThreadCall(thread_id)) != thread_id()
        try:
            yield ThreadCall(lambda: 1 // 0)
        except ZeroDivisionError as error:
            return elsewhere, str(error)
        raise AssertionError("not reached")

    async def run() -> tuple[bool, str]:
        result: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        scheduler = Turns(fail)
        scheduler.run(work(), result.set_result, fail)
        try:
            return await result
        finally:
            scheduler.close()

    assert asyncio.run(run()) == (True, "integer division or modulo by zero")


def test_an_exception_is_passed_to_the_failed_callback() -> None:
    def work() -> Iterator[None]:
        yield None
        raise KeyError("x")

    failed: list[BaseException] = []
    assert Turns(fail).run(work(), fail, failed.append)  # type: ignore[arg-type]
    assert repr(failed) == "[KeyError('x')]"


@pytest.mark.usefixtures("short_turns")
@pytest.mark.parametrize("in_thread", [False, True])
def test_close_completes_pending_work(in_thread: bool) -> None:
    def work() -> Work[str]:
        for _ in range(3):
            yield ThreadCall(lambda: None) if in_thread else None
        return "finished"

    async def run() -> list[str]:
        done: list[str] = []
        scheduler = Turns(fail)
        scheduler.run(work(), done.append, fail)
        assert not done
        scheduler.close()
        return done

    assert asyncio.run(run()) == ["finished"]


@pytest.mark.usefixtures("short_turns")
def test_failing_callbacks_do_not_stop_other_work() -> None:
    """A callback that raised blocked all later large requests forever (issue 14)."""
    reported: list[BaseException] = []

    def raise_value_error(name: str) -> None:
        raise ValueError(name)

    async def run() -> list[str]:
        done: list[str] = []
        completed = asyncio.Event()
        scheduler = Turns(reported.append)
        scheduler.run(steps("a", 3, []), raise_value_error, fail)
        scheduler.run(steps("b", 3, []), done.append, fail)
        scheduler.run(steps("c", 3, []), lambda name: (done.append(name), completed.set()), fail)
        await asyncio.wait_for(completed.wait(), 300)
        return done

    assert asyncio.run(run()) == ["b", "c"]
    assert repr(reported) == "[ValueError('a')]"


def test_an_exception_of_the_done_callback_is_passed_to_the_failed_callback() -> None:
    failed: list[BaseException] = []
    assert Turns(fail).run(steps("a", 1, []), lambda name: [][len(name)], failed.append)
    assert repr(failed) == "[IndexError('list index out of range')]"


@pytest.mark.usefixtures("short_turns")
def test_close_completes_all_work_although_one_fails() -> None:
    reported: list[BaseException] = []

    async def run() -> list[str]:
        done: list[str] = []
        scheduler = Turns(reported.append)
        scheduler.run(steps("a", 3, []), lambda name: fail(KeyError(name)), fail)
        scheduler.run(steps("b", 3, []), done.append, fail)
        scheduler.close()
        return done

    assert asyncio.run(run()) == ["b"]
    assert repr(reported) == "[KeyError('a')]"
