"""The process of an embedded lab: `python -m quorate.integration.embedded_lab_process FOLDER [--accept-data-loss]`. Runs the cluster of FOLDER/plan.json until SIGTERM.

Says "ready" on stdout once it is, or one line of JSON with what is wrong. Takes calls by a socket, one line of JSON each: method, arguments, named arguments.
"""

import fcntl
import json
import logging
import os
import signal
import sys
import threading
import time
from contextlib import suppress
from dataclasses import asdict, replace
from logging.handlers import RotatingFileHandler
from pathlib import Path
from socketserver import StreamRequestHandler, ThreadingUnixStreamServer
from typing import IO, Any

from quorate.cluster.errors import ClusterError
from quorate.cluster.turns import collect_rarely
from quorate.integration.embedded import EmbeddedKafka
from quorate.integration.embedded_lab import BEING_STARTED, LabPlan
from quorate.integration.own_folder import OwnFolder

__all__ = ["main"]

METHODS = frozenset(
    {
        "stop_broker",
        "start_broker",
        "kill_broker",
        "pause_broker",
        "resume_broker",
        "wait_fenced",
        "cut",
        "heal",
        "upgrade",
        "logs",
    }
)
"""What may be called as it is."""
_LOCK_S = 1.0
_LOG_BYTES = 1 << 20


def main(folder: Path, *, accept_data_loss: bool = False) -> int:
    """Run a lab; the exit status."""
    ended = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ended.set())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with (folder / "lock").open("a+", encoding="utf-8") as lock, OwnFolder() as own:
        try:
            _take(lock)
            lock.truncate(0)
            lock.write(str(os.getpid()))
            lock.flush()
            plan = LabPlan.from_json(json.loads((folder / "plan.json").read_text(encoding="utf-8")))
            kafka = _started(plan, folder, _Log(folder / "log"), accept_data_loss)
            collect_rarely()
        except BlockingIOError:
            said, *remedy = BEING_STARTED
            return _failed(said, tuple(remedy))
        except ClusterError as error:
            return _failed(error.message, error.remedy)
        with kafka:
            path = own.path / "control"
            with _Server(path, folder, kafka, plan) as server:
                threading.Thread(target=server.serve_forever, daemon=True).start()
                server.save()
                _say("ready")
                ended.wait()
                server.shutdown()
    return 0


def _take(lock: IO[str]) -> None:
    """Raises `BlockingIOError` if another process of this lab has it; who only asks whether it lives has it no longer than an instant."""
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
    """What the lab has to say: up to `_LOG_BYTES`, and once as much of what was before. Tracebacks go there as well."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, maxBytes=_LOG_BYTES, backupCount=1, encoding="utf-8", errors="replace")

    def doRollover(self) -> None:  # noqa: N802  # as logging has it
        """Begin a new file, for stderr, too."""
        super().doRollover()
        assert self.stream is not None
        os.dup2(self.stream.fileno(), sys.stderr.fileno())

    def say(self, text: str) -> None:
        """Write a line."""
        self.handle(logging.makeLogRecord({"msg": "%s", "args": (text,)}))


def _started(plan: LabPlan, folder: Path, log: _Log, accept_data_loss: bool) -> EmbeddedKafka:
    racks = plan.racks_now or plan.racks
    numbers = sorted(racks)
    return EmbeddedKafka(
        racks=[racks[number] for number in numbers],
        version=plan.version_now or plan.version,
        properties=plan.properties,
        ports=[plan.ports[number] for number in numbers] if plan.ports else None,
        data=folder / "data",
        accept_data_loss=accept_data_loss,
        security="SASL_SSL" if plan.secure else "PLAINTEXT",
        password=plan.password,
        on_progress=log.say,
    )


def _failed(message: str, remedy: tuple[str, ...]) -> int:
    _say(json.dumps({"error": message, "remedy": remedy}))
    return 1


def _say(line: str) -> None:
    """To the process that waits for it; if that was killed, the lab goes on all the same, and the next command finds it."""
    with suppress(BrokenPipeError):
        os.write(sys.stdout.fileno(), line.encode() + b"\n")


class _Handler(StreamRequestHandler):
    server: "_Server"

    def handle(self) -> None:
        method, args, kwargs = json.loads(self.rfile.readline())
        try:
            answer = {"result": self.server.call(method, args, kwargs)}
        except ClusterError as error:
            answer = {"error": error.message, "remedy": error.remedy}
        except OSError as error:  # a full disk, most likely
            answer = {"error": f"{self.server.folder}: {error.strerror or error}", "remedy": ()}
        self.wfile.write(json.dumps(answer).encode() + b"\n")


class _Server(ThreadingUnixStreamServer):
    """Hands calls to the cluster. The socket is in a folder that nobody else can open."""

    daemon_threads = True

    def __init__(self, path: Path, folder: Path, kafka: EmbeddedKafka, plan: LabPlan) -> None:
        super().__init__(str(path), _Handler)
        self.path = path
        self.folder = folder
        self.kafka = kafka
        self.plan = plan
        self._one_at_a_time = threading.Lock()

    def save(self) -> None:
        """Write down what the lab is now, for commands to find it, and for a process that starts it again."""
        brokers = self.kafka.embedded.core.brokers
        config = self.kafka.client_config
        del config["bootstrap_servers"]
        self.plan = replace(
            self.plan,
            cluster_id=self.kafka.embedded.core.cluster_id,
            version_now=self.kafka.brokers[0].version,
            racks_now={number: broker.rack for number, broker in brokers.items()},
            ports={number: broker.port for number, broker in brokers.items()},
            password=config.get("sasl_plain_password"),
        )
        facts = {
            "plan": self.plan.to_json(),
            "socket": str(self.path),
            "client_config": config,
            "start_notes": self.kafka.embedded.core.start_notes,
        }
        half = self.folder / "lab.json.part"
        half.touch(mode=0o600)
        half.write_text(json.dumps(facts), encoding="utf-8")
        half.replace(self.folder / "lab.json")

    def call(self, method: str, args: list[Any], kwargs: dict[str, Any]) -> Any:
        """The result of a method. Raises `ClusterError`."""
        if method == "brokers":
            return [asdict(broker) for broker in self.kafka.brokers]
        if method == "copy_segments":
            return str(self.kafka.copy_segments(Path(args[0]), *args[1:], **kwargs))
        if method not in METHODS:
            raise ClusterError(f"a lab has no {method}", "the command and the lab are of different versions of quorate")
        with self._one_at_a_time:
            result = getattr(self.kafka, method)(*args, **kwargs)
            self.save()
        return result


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), accept_data_loss="--accept-data-loss" in sys.argv[2:]))
