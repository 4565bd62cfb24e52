"""Client of the oracle: a Java program that runs Kafka's own classes, and exchanges JSON lines.

    with Oracle() as oracle:
        oracle.call("encode", type="ConsumerGroupMetadata", key={"groupId": "g"}, value=None)

README.md describes the ops. This module uses only the standard library.
"""

import contextlib
import json
import select
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

HERE = Path(__file__).resolve().parent
LIB = HERE / "target" / "lib"
OLDER = {"4.3": HERE.parent / "oracle_4_3", "4.0": HERE.parent / "oracle_4_0"}
"""Folders of the oracles that run older releases, by release."""

REMEDY = (
    "`make test` installs what is missing and builds it; "
    "or run {folder}/build with a JDK (17 or newer) and Maven on the PATH"
)

TIMEOUT_S = 600
"""Timeout of an exchange. Endless loops in Kafka would block all other tests."""

Json = dict[str, Any]


class OracleError(RuntimeError):
    """The program ended, or rejected a line (invalid input, unknown op).

    Kafka's errors for valid input are part of the response instead.
    """


class OracleMissingError(OracleError):
    """Java or the jars are missing."""


def missing_reason(release: str | None = None) -> str | None:
    """Return why an oracle cannot run and what to do, or `None` if it can.

    `release`: an older release of Kafka (see `OLDER`); by default the newest.
    """
    folder = folder_of(release)
    name = f"tests/{folder.name}"
    remedy = REMEDY.format(folder=name)
    if shutil.which("java") is None:
        return f"no java on the PATH: {remedy}"
    if not (folder / "target/classes/oracle/Main.class").exists() or not any(
        folder.glob("target/lib/kafka-clients-*.jar")
    ):
        return f"{name} is not built: {remedy}"
    return None


def folder_of(release: str | None) -> Path:
    return HERE if release is None else OLDER[release]


def jar(artifact: str) -> Path:
    """Return the jar of one of Kafka's artifacts, such as "kafka-clients"."""
    found = sorted(path for path in LIB.glob(f"{artifact}-*.jar") if path.name[len(artifact) + 1].isdigit())
    if len(found) != 1:
        raise OracleMissingError(
            f"{len(found)} jars of {artifact} in tests/oracle/target/lib: {REMEDY.format(folder='tests/oracle')}"
        )
    return found[0]


class Oracle:
    """A running oracle with a coordinator shard. Not thread-safe.

    `command`: another program with the same protocol, started in `cwd`; `release`: an older
    release of Kafka, such as "4.0" (see `OLDER`).
    """

    def __init__(
        self, command: Sequence[str | Path] | None = None, *, cwd: Path | None = None, release: str | None = None
    ) -> None:
        if command is None:
            reason = missing_reason(release)
            if reason is not None:
                raise OracleMissingError(reason)
            command = [folder_of(release) / "run"]
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._lines: IO[str] = self._process.stdin
        self._responses: IO[str] = self._process.stdout

    def call(self, op: str, **fields: Any) -> Json:
        """Run an op and return its response. Raises `OracleError` if the line is rejected."""
        return self.call_many([{"op": op, **fields}])[0]

    def call_many(self, ops: Iterable[Mapping[str, Any]]) -> list[Json]:
        """Run ops in order and return their responses. The ops are pipelined.

        Raises `OracleError` for the first line that is rejected.
        """
        sent = list(ops)
        responses = self.exchange(json.dumps(op) for op in sent)
        for op, response in zip(sent, responses, strict=True):
            if response.get("error", {}).get("driver"):
                error = response["error"]
                raise OracleError(f"{error['class']}: {error['message']}\n  line: {json.dumps(op)[:2000]}")
        return responses

    def exchange(self, lines: Iterable[str]) -> list[Json]:
        """Send raw lines and return one response for each, including errors of the driver.

        Raises `OracleError` if the program ends before the last response or exceeds `TIMEOUT_S`.
        """
        sent = list(lines)
        if len(sent) == 1:  # the usual case: starting two threads takes longer than most ops
            self._write(sent)
            readable = select.poll()  # not select(), which supports no file descriptors above 1,023
            readable.register(self._responses, select.POLLIN)
            if not readable.poll(TIMEOUT_S * 1000):
                self._kill()
            return self._read(sent)
        # A thread writes, as writing everything first would block when both pipes are full.
        writer = threading.Thread(target=self._write, args=(sent,), daemon=True)
        watchdog = threading.Timer(TIMEOUT_S, self._kill)
        watchdog.daemon = True
        writer.start()
        watchdog.start()
        try:
            responses = self._read(sent)
        finally:
            watchdog.cancel()
        writer.join()
        return responses

    def _write(self, lines: Sequence[str]) -> None:
        with contextlib.suppress(ConnectionError, ValueError):  # the program ended: _read reports it
            self._lines.write("".join(line + "\n" for line in lines))
            self._lines.flush()

    def _read(self, sent: Sequence[str]) -> list[Json]:
        responses: list[Json] = []
        for line in sent:
            text = self._readline()
            if not text:
                killed = f", or was killed after {TIMEOUT_S} s," if self._was_killed() else ""
                raise OracleError(
                    f"the program ended{killed} at line {len(responses) + 1}: {line[:2000]}\n{self.stderr()}"
                )
            responses.append(json.loads(text))
        return responses

    def _readline(self) -> str:
        return self._responses.readline()

    def _kill(self) -> None:
        self._process.kill()

    def _was_killed(self) -> bool:
        return self._process.wait() < 0

    def stderr(self) -> str:
        """Return the last 8,000 characters of the program's standard error."""
        self._process.poll()
        self._stderr.seek(0)
        return self._stderr.read().decode("utf-8", "replace")[-8000:]

    def close(self) -> None:
        """End the program; kill it after 10 s."""
        with contextlib.suppress(BrokenPipeError):  # the program has ended already
            self._lines.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._responses.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
