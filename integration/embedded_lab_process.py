"""The process of an embedded lab.

`python -m quorate.integration.embedded_lab_process FOLDER [--accept-data-loss]`

It runs the cluster of FOLDER/plan.json until SIGTERM. It writes "ready" to stdout, or an error as a
line of JSON. It accepts calls on a socket, each a line of JSON: method, arguments, named arguments.
"""

import fcntl
import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import ExitStack, nullcontext, suppress
from dataclasses import asdict, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import IO, Any

from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import TEST_PROPERTIES, BrokerInfo
from quorate.cluster.temporary_folder import TemporaryFolder
from quorate.cluster.turns import collect_rarely
from quorate.codecs.errors import QuorateError
from quorate.integration.embedded_lab import LabPlan, being_started

_READ = frozenset({"brokers", "logs", "copy_segments"})
_CHANGE = frozenset(
    {
        "stop_broker",
        "start_broker",
        "restart_broker",
        "kill_broker",
        "pause_broker",
        "resume_broker",
        "wait_fenced",
        "wait_ready",
        "cut",
        "heal",
        "upgrade",
    }
)
"""Methods that may be called: `_READ` at any time, `_CHANGE` one at a time."""
_LOCK_S = 1.0
_LOG_BYTES = 1 << 20


def main(folder: Path, *, accept_data_loss: bool = False) -> int:
    """Run a lab, and return the exit status."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (folder / "lock").open("a+", encoding="utf-8") as lock, TemporaryFolder() as own, ExitStack() as running:
        try:
            _take(lock)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            plan = LabPlan.from_json(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
            kafka = running.enter_context(_cluster(plan, folder, _Log(folder / "log"), accept_data_loss))
            kafka.wait_ready()
            collect_rarely()
        except BlockingIOError:
            second = being_started(folder)
            return _failed(second.message, second.remedy)
        except QuorateError as error:
            return _failed(getattr(error, "message", str(error)), getattr(error, "remedy", ()))
        with _Server(own.path / "control", folder, kafka, plan) as server:
            threading.Thread(target=server.serve_forever, daemon=True).start()
            server.save()
            _report("ready")
            ended.wait()
            server.shutdown()
    return 0


def _take(lock: IO[str]) -> None:
    """Lock the lab's lock file. Raises `BlockingIOError` if another process of this lab holds it.

    A process that only checks the lock holds it for an instant, so that it is retried.
    """
    until = time.monotonic() + _LOCK_S
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
        time.sleep(0.01)


class _Log(RotatingFileHandler):
    """The lab's log, with one backup, each up to `_LOG_BYTES`. It includes tracebacks."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", errors="replace")

    def doRollover(self) -> None:  # noqa: N802  # a method of RotatingFileHandler
        """Start a new file, also for stderr."""
        super().doRollover()
        assert self.stream is not None
        os.dup2(self.stream.fileno(), sys.stderr.fileno())

    def say(self, text: str) -> None:
        """Write a line."""
        self.handle(logging.makeLogRecord({"msg": "%s", "args": (text,)}))


def _cluster(plan: LabPlan, folder: Path, log: _Log, accept_data_loss: bool) -> EmbeddedCluster:
    racks = plan.racks_now or plan.racks
    numbers = sorted(racks)
    return EmbeddedCluster(
        racks=[racks[number] for number in numbers],
        version=plan.version_now or plan.version,
        properties={**TEST_PROPERTIES, **plan.properties},
        ports=[plan.ports[number] for number in numbers] if plan.ports else None,
        data=folder / "data",
        accept_data_loss=accept_data_loss,
        security="SASL_SSL" if plan.secure else "PLAINTEXT",
        password=plan.password,
        on_note=log.say,
    )


def _failed(message: str, remedy: tuple[str, ...]) -> int:
    _report(json.dumps({"error": message, "remedy": remedy}))
    return 1


def _report(line: str) -> None:
    """Write a line to the process that started the lab. The lab also runs if that was killed."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), line.encode() + b"\n")


def _plain(value: object) -> Any:
    """Convert a result for JSON."""
    return asdict(value) if isinstance(value, BrokerInfo) else str(value)


class _Handler(StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        method, args, kwargs = json.loads(self.rfile.readline())
        try:
            response = {"result": self.server.call(method, args, kwargs)}
        except ClusterError as error:
            response = {"error": error.message, "remedy": error.remedy}
        except OSError as error:  # most likely a full disk
            response = {"error": f"{self.server.folder}: {error.strerror or error}", "remedy": ()}
        self.wfile.write(json.dumps(response, default=_plain).encode() + b"\n")


class _Server(ThreadingUnixStreamServer):
    """Passes calls to the cluster. The socket is in a folder that only this user can open."""

    daemon_threads = True

    def __init__(self, path: Path, folder: Path, kafka: EmbeddedCluster, plan: LabPlan) -> None:
        super().__init__(str(path), _Handler)
        self.path = path
        self.folder = folder
        self.kafka = kafka
        self.plan = plan
        self._one_at_a_time = threading.Lock()

    def save(self) -> None:
        """Write lab.json, for other commands and for the next start."""
        brokers = self.kafka.core.brokers
        config = self.kafka.client_config
        del config["bootstrap_servers"]
        self.plan = replace(
            self.plan,
            cluster_id=self.kafka.cluster_id,
            version_now=self.kafka.version,
            racks_now={number: broker.rack for number, broker in brokers.items()},
            ports={number: broker.port for number, broker in brokers.items()},
            password=config.get("sasl_plain_password"),
        )
        facts = {
            "plan": self.plan.to_json(),
            "socket": str(self.path),
            "client_config": config,
            "start_notes": self.kafka.start_notes,
        }
        half = self.folder / "lab.json.part"
        half.touch(mode=0o600)
        half.write_text(json.dumps(facts), encoding="utf-8")
        half.replace(self.folder / "lab.json")

    def call(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """Call a method, and return its result. Raises `ClusterError`."""
        if method not in _READ | _CHANGE:
            raise ClusterError(f"unknown method {method}", "the lab runs another version of quorate than the command")
        with self._one_at_a_time if method in _CHANGE else nullcontext():
            found = getattr(self.kafka, method)
            result = found(*args, **kwargs) if callable(found) else found
            if method in _CHANGE:
                self.save()
        return result


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), accept_data_loss="--accept-data-loss" in sys.argv[2:]))
