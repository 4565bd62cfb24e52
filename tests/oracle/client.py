"""Talks to Kafka's own classes: starts the Java program of this folder and exchanges JSON lines with it.

    with Oracle() as oracle:
        oracle.call("encode", type="ConsumerGroupMetadata", key={"groupId": "g"}, value={"epoch": 5})

Knows the protocol, not the ops; these are described in README.md. Standard library only.
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

__all__ = ["HERE", "LIB", "OLDER", "Json", "Oracle", "OracleError", "OracleMissingError", "jar", "missing"]

HERE = Path(__file__).resolve().parent
LIB = HERE / "target" / "lib"
OLDER = {"4.0": HERE.parent / "oracle_4_0"}
"""Folders of the oracles that run older releases, by release."""

REMEDY = "`make test` installs what is missing and builds it; or run {folder}/build with a JDK (17 or newer) and Maven on the PATH"

LIMIT_S = 600
"""How long the answers to one exchange may take. Kafka has loops that never end, and a test that
waits for one hides all others.
"""

Json = dict[str, Any]


class OracleError(RuntimeError):
    """The program ended, or refused a line as such (bad input, unknown op).

    What Kafka says about good input is part of the answer instead.
    """


class OracleMissingError(OracleError):
    """Java or the jars are not there."""


def missing(release: str | None = None) -> str | None:
    """What keeps the oracle (of an older release, if one is named) from running and what to do about it, or `None` if nothing does."""
    folder = _folder(release)
    name = f"tests/{folder.name}"
    remedy = REMEDY.format(folder=name)
    if shutil.which("java") is None:
        return f"no java on the PATH: {remedy}"
    if not (folder / "target/classes/oracle/Main.class").exists() or not any(
        folder.glob("target/lib/kafka-clients-*.jar")
    ):
        return f"{name} is not built: {remedy}"
    return None


def _folder(release: str | None) -> Path:
    return HERE if release is None else OLDER[release]


def jar(artifact: str) -> Path:
    """The jar of one of Kafka's artifacts, such as "kafka-clients"."""
    found = sorted(path for path in LIB.glob(f"{artifact}-*.jar") if path.name[len(artifact) + 1].isdigit())
    if len(found) != 1:
        raise OracleMissingError(
            f"{len(found)} jars of {artifact} in tests/oracle/target/lib: {REMEDY.format(folder='tests/oracle')}"
        )
    return found[0]


class Oracle:
    """One running program with one coordinator shard.

    Not thread-safe. `command` starts something else that speaks the same protocol, in `cwd`.

    `release`: an older release of Kafka than the tests' usual one, such as "4.0" (see `OLDER`).
    """

    def __init__(
        self, command: Sequence[str | Path] | None = None, *, cwd: Path | None = None, release: str | None = None
    ) -> None:
        if command is None:
            reason = missing(release)
            if reason is not None:
                raise OracleMissingError(reason)
            command = [_folder(release) / "run"]
        self._stderr: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the process
        self._process = subprocess.Popen(
            [str(part) for part in command],
            cwd=cwd,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._stderr,
            encoding="utf-8",
        )

    def call(self, op: str, **fields: Any) -> Json:
        """One op. Raises `OracleError` if the line itself is refused."""
        return self.call_many([{"op": op, **fields}])[0]

    def call_many(self, ops: Iterable[Mapping[str, Any]]) -> list[Json]:
        """Many ops in order, written ahead of the answers.

        Raises `OracleError` at the first line that is refused.
        """
        asked = list(ops)
        answers = self.exchange(json.dumps(op) for op in asked)
        for op, answer in zip(asked, answers, strict=True):
            if answer.get("error", {}).get("driver"):
                error = answer["error"]
                raise OracleError(f"{error['class']}: {error['message']}\n  line: {json.dumps(op)[:2000]}")
        return answers

    def exchange(self, lines: Iterable[str]) -> list[Json]:
        """Raw lines in, one answer for each out, refusals included.

        Raises `OracleError` if the program ends before the last answer, or takes `LIMIT_S`.
        """
        sent = list(lines)
        if len(sent) == 1:  # as nearly always: two threads would take longer than most ops
            self._write(sent)
            stdout = self._process.stdout
            assert stdout is not None
            answered = select.poll()  # not select(), which knows no file descriptors above 1,023
            answered.register(stdout, select.POLLIN)
            if not answered.poll(LIMIT_S * 1000):
                self._process.kill()
            return self._read(sent)
        # From a thread of its own: with both pipes full, writing everything first would never end.
        writer = threading.Thread(target=self._write, args=(sent,), daemon=True)
        watchdog = threading.Timer(LIMIT_S, self._process.kill)
        watchdog.daemon = True
        writer.start()
        watchdog.start()
        try:
            answers = self._read(sent)
        finally:
            watchdog.cancel()
        writer.join()
        return answers

    def _write(self, lines: Sequence[str]) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        with contextlib.suppress(BrokenPipeError, ValueError):  # it has ended: the reader says so, with its stderr
            stdin.write("".join(line + "\n" for line in lines))
            stdin.flush()

    def _read(self, sent: Sequence[str]) -> list[Json]:
        stdout = self._process.stdout
        assert stdout is not None
        answers: list[Json] = []
        for line in sent:
            text = stdout.readline()
            if not text:
                killed = f", or was killed after {LIMIT_S} s," if self._process.wait() < 0 else ""
                raise OracleError(
                    f"the program ended{killed} at line {len(answers) + 1}: {line[:2000]}\n{self.stderr()}"
                )
            answers.append(json.loads(text))
        return answers

    def stderr(self) -> str:
        """What the program has written to standard error so far, at most the last 8,000 characters."""
        self._process.poll()
        self._stderr.seek(0)
        return self._stderr.read().decode("utf-8", "replace")[-8000:]

    def close(self) -> None:
        """End the program; at once if it does not do so by itself."""
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(BrokenPipeError):  # it is gone already, which is what we want
                self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._stderr.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
