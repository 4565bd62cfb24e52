"""Instances of WordCount.java, an application of Kafka Streams, each in a JVM of its own.

    with Instance("127.0.0.1:9092", "counts", "lines", "words", folder) as instance:
        instance.wait_until_running()

Standard library only, for benchmarks.
"""

import json
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

HERE = Path(__file__).resolve().parent
ARCHIVE = HERE / "target" / "classes.jsa"
"""The classes of an instance, written by `build`: loading them takes a quarter of its CPU time."""
LIMIT_S = 300
"""Three JVMs start on two cores that other tests use, too."""


def missing() -> str | None:
    """Return what is missing to run an instance, with the remedy, or `None`."""
    if shutil.which("java") is None or not (HERE / "target/classes/WordCount.class").exists():
        return "tests/streams is not built: run `make test`, or tests/streams/build with a JDK and Maven"
    return None


class Instance:
    """A running instance, whose state and output are in `folder`.

    `configs`: configs of Kafka Streams, with underscores for dots (`group_protocol="streams"`).
    """

    def __init__(
        self, bootstrap_servers: str, application: str, source: str, sink: str, folder: Path, **configs: object
    ) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        given = {name.replace("_", "."): value for name, value in configs.items()} | {"state.dir": folder / "state"}
        quick = ["-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        quick.append("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn")
        if ARCHIVE.exists():
            # Of moved jars, Java would warn on standard output.
            quick += [f"-XX:SharedArchiveFile={ARCHIVE}", "-Xlog:cds*=off"]
        classes = f"{HERE}/target/lib/*:{HERE}/target/*"
        arguments = [
            bootstrap_servers,
            application,
            source,
            sink,
            *(f"{name}={value}" for name, value in given.items()),
        ]
        self._out = folder / "out"
        self._err: IO[bytes] = (folder / "err").open("wb")
        with self._out.open("wb") as out:
            self.process = subprocess.Popen(
                ["java", *quick, "-cp", classes, "WordCount", *arguments],
                stdin=subprocess.PIPE,
                stdout=out,
                stderr=self._err,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.kill()

    @property
    def events(self) -> list[dict[str, Any]]:
        """What it printed: its states, and exceptions of its threads."""
        lines = self._out.read_text().splitlines(keepends=True)
        return [json.loads(line) for line in lines if line.endswith("\n")]

    @property
    def exceptions(self) -> list[str]:
        """The exceptions that no thread handled."""
        return [event["detail"] for event in self.events if event["event"] == "exception"]

    @property
    def state(self) -> str | None:
        """Its state, such as RUNNING; `None` before the first."""
        return next((event["detail"] for event in reversed(self.events) if event["event"] == "state"), None)

    def wait_until_running(self) -> None:
        """Wait until it has tasks, or that it needs none. Raises `AssertionError` if it ends."""
        until = time.monotonic() + LIMIT_S
        while self.state != "RUNNING":
            assert self.process.poll() is None, self.log()
            assert time.monotonic() < until, f"{self.state}\n{self.log()}"
            time.sleep(0.05)

    def stop(self) -> None:
        """Close it, and wait for its end."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(LIMIT_S) == 0, self.log()

    def kill(self) -> None:
        """Kill it, as `kill -9` does."""
        self.process.kill()
        self.process.wait()
        if self.process.stdin is not None:
            self.process.stdin.close()
        self._err.close()

    def log(self) -> str:
        """Return the end of what it logged."""
        return (self._out.parent / "err").read_text()[-4000:]
