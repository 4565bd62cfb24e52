"""Large requests in small turns: others are served between them, and a stop loses none."""

import asyncio
import threading
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest

from quorate.cluster import turns
from quorate.cluster.turns import ThreadCall, Turns, Work


def steps(name: str, count: int, seen: list[Any]) -> Work[str]:
    for number in range(count):
        seen.append((name, number))
        yield None
    return name


def fail(error: BaseException) -> None:
    raise error


def test_work_of_one_turn_completes_at_once() -> None:
    done: list[str] = []
    assert Turns(fail).run(steps("a", 3, []), done.append, fail)
    assert done == ["a"]


@pytest.mark.usefixtures("short_turns")
def test_two_large_requests_alternate_and_others_run_between_them() -> None:
    async def run() -> list[Any]:
        seen: list[Any] = []
        both = Turns(fail)
        for name in "ab":
            both.run(steps(name, 3, seen), seen.append, fail)

        async def other() -> None:
            while "b" not in seen:
                seen.append("other")
                await asyncio.sleep(0)

        await other()
        return seen

    seen = asyncio.run(run())
    work = [one for one in seen if one != "other"]
    assert work == [("a", 0), ("b", 0), ("a", 1), ("b", 1), ("a", 2), ("b", 2), "a", "b"]
    assert all("other" in seen[at : at + 2] for at in range(2, len(seen) - 1))


def test_a_turn_ends_after_some_hundredths_of_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    now_ms = 0

    def clock() -> float:
        nonlocal now_ms
        now_ms += 1
        return now_ms / 1000

    monkeypatch.setattr(turns, "perf_counter", clock)

    async def run() -> list[Any]:
        seen: list[Any] = []
        own = Turns(fail)
        own.run(steps("a", 500, seen), seen.append, fail)
        while "a" not in seen:
            seen.append("other")
            await asyncio.sleep(0)
        return seen

    seen = asyncio.run(run())
    others = [at for at, one in enumerate(seen) if one == "other"]
    assert max(after - before for before, after in pairwise([-1, *others])) <= 30


def test_a_thread_call_returns_its_result_or_exception() -> None:
    def which() -> int:
        return threading.get_ident()

    def work() -> Work[tuple[bool, str]]:
        elsewhere = (yield ThreadCall(which)) != which()
        try:
            yield ThreadCall(lambda: 1 // 0)
        except ZeroDivisionError as error:
            return elsewhere, str(error)
        raise AssertionError("not reached")

    async def run() -> tuple[bool, str]:
        result: asyncio.Future[tuple[bool, str]] = asyncio.get_running_loop().create_future()
        own = Turns(fail)
        own.run(work(), result.set_result, fail)
        try:
            return await result
        finally:
            own.close()

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
        own = Turns(fail)
        own.run(work(), done.append, fail)
        assert not done
        own.close()
        return done

    assert asyncio.run(run()) == ["finished"]


@pytest.mark.usefixtures("short_turns")
def test_failing_callbacks_do_not_stop_other_work() -> None:
    """Issue 14: large requests after one whose callback raised waited forever."""
    reported: list[BaseException] = []

    def refuse(name: str) -> None:
        raise ValueError(name)

    async def run() -> list[str]:
        done: list[str] = []
        over = asyncio.Event()
        own = Turns(reported.append)
        own.run(steps("a", 3, []), refuse, fail)
        own.run(steps("b", 3, []), done.append, fail)
        own.run(steps("c", 3, []), lambda name: (done.append(name), over.set()), fail)
        await asyncio.wait_for(over.wait(), 300)
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
        own = Turns(reported.append)
        own.run(steps("a", 3, []), lambda name: fail(KeyError(name)), fail)
        own.run(steps("b", 3, []), done.append, fail)
        own.close()
        return done

    assert asyncio.run(run()) == ["b"]
    assert repr(reported) == "[KeyError('a')]"
