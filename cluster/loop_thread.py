"""`LoopThread`: an asyncio loop in its own thread, for blocking callers."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import Any


def new_loop() -> asyncio.AbstractEventLoop:
    """Return a loop of uvloop if that is installed (the extra `uvloop`), otherwise of asyncio."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


class LoopThread:
    """A running loop of `new_loop`.

    `start`: runs first in the loop. Its exception is raised here, and the thread ends.
    """

    def __init__(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._loop = new_loop()
        self._failed: list[BaseException] = []
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, args=[start], name="quorate-cluster", daemon=True)
        self._thread.start()
        self._ready.wait()
        if self._failed:
            self._thread.join()
            raise self._failed[0]

    def _run(self, start: Callable[[], Coroutine[Any, Any, None]]) -> None:
        try:
            self._loop.run_until_complete(start())
        except BaseException as error:  # noqa: BLE001  # raised in the waiting thread
            self._failed.append(error)
            self._loop.close()
            return
        finally:
            self._ready.set()
        self._loop.run_forever()
        self._loop.run_until_complete(_end_tasks())
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    def end(self, stop: Coroutine[Any, Any, None]) -> None:
        """Run `stop` in the loop, then end the loop and the thread."""
        asyncio.run_coroutine_threadsafe(stop, self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()


async def _end_tasks() -> None:
    """Cancel remaining tasks, such as the accepting of late connections."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    for _ in range(3):  # connections receive `connection_lost`
        await asyncio.sleep(0)
