"""Labs that are embedded clusters.

Each runs in a process that outlives the command that started it.

- FOLDER/NAME/lab.json: the lab's plan, and its addresses;
- FOLDER/NAME/lock: locked by the process while it runs;
- FOLDER/NAME/starting: locked by a process that starts the lab, and by the lab's process until
  then, so that two cannot start it at the same time;
- FOLDER/NAME/log: the log, up to 1 MiB; log.1 has the part before;
- FOLDER/NAME/data: topics, groups and offsets.

FOLDER is $QUORATE_LABS, or quorate/labs in $XDG_STATE_HOME (~/.local/state). The process is
controlled through a socket that only its user can open.
"""

import fcntl
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Self, TypeVar, cast

from quorate.cluster.errors import ClusterError
from quorate.cluster.interface import BrokerInfo, Cluster
from quorate.cluster.waiting import wait_for
from quorate.codecs import CONSUMER_OFFSETS
from quorate.integration.plan import ClusterPlan

F = TypeVar("F", bound=Callable[..., Any])

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")


def check_lab_name(name: str) -> None:
    """Raise `ClusterError` for names that are invalid for containers or folders of labs."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"a lab cannot be named {name!r}", "use at most 40 lowercase letters, digits, dots, dashes and underscores"
        )


def lab_folder(name: str | None = None) -> Path:
    """Return the folder of all labs, or of one.

    Raises `ClusterError` for an invalid name, which could lead `remove` to another folder.
    """
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    labs = Path(os.environ.get("QUORATE_LABS") or Path(state) / "quorate" / "labs")
    if name is None:
        return labs
    check_lab_name(name)
    return labs / name


def embedded_lab_names() -> list[str]:
    """Return the names of labs, running or not."""
    return sorted(path.parent.name for path in lab_folder().glob("*/lab.json") if _NAME.fullmatch(path.parent.name))


def is_alive(name: str) -> bool:
    """Return whether a lab's process runs: it holds the lock."""
    try:
        with (lab_folder(name) / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, so that two checks do not exclude each other
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPlan(ClusterPlan):
    """Configuration of a lab.

    `racks_now`, `version_now`: the current racks and version, with which the lab is started again.
    """

    password: str | None = None
    racks_now: Mapping[int, str | None] | None = None
    version_now: str | None = None


def _remote(method: F) -> F:
    """Return a method that calls the method of the same name in the lab's process."""

    @wraps(method, updated=())
    def call(self: "EmbeddedLab", *args: Any, **kwargs: Any) -> Any:
        self.close_admin()  # its metadata may have stopped brokers
        return self._call(method.__name__, *args, **kwargs)

    return cast("F", call)


class EmbeddedLab(Cluster):
    """An embedded cluster in another process.

    `start` starts one, `attach` connects to one, `close` detaches from it, and `remove` ends it.
    """

    image = "embedded"
    timeout_ms = 30_000

    def __init__(self, name: str, facts: Mapping[str, Any]) -> None:
        self.lab_name = name
        self.plan = LabPlan.from_json(facts["plan"])
        self.start_notes = tuple(facts.get("start_notes", ()))
        self._socket = str(facts["socket"])
        self._config = dict(facts["client_config"])

    @classmethod
    def attach(cls, name: str, *, on_progress: Callable[[str], None] = lambda _: None) -> Self:
        """Attach to the lab of this name.

        Raises `ClusterError` if it does not exist, or its process has ended.
        """
        try:
            facts = json.loads((lab_folder(name) / "lab.json").read_text(encoding="utf-8"))
            lab = cls(name, facts)
        except FileNotFoundError:
            raise ClusterError(f"lab {name} does not exist", f"start it: quorate cluster up --name {name}") from None
        except (LookupError, TypeError, ValueError):
            raise ClusterError(
                f"the lab {name} was started by another version of quorate",
                f"use that version, or remove the lab: quorate cluster down --name {name}",
            ) from None
        if not is_alive(name):
            raise ClusterError(
                f"the process of the lab {name} has ended",
                f"start it again with its data: quorate cluster up --name {name}",
            )
        return lab

    @classmethod
    def start(cls, name: str, plan: LabPlan | None = None, *, accept_data_loss: bool = False) -> Self:
        """Start a lab, or without a plan, restart one whose process has ended, with its data.

        `accept_data_loss`: start it without the data that is damaged. Raises `ClusterError` if it
        does not get ready, or another process is starting it.
        """
        folder = lab_folder(name)
        if is_alive(name):
            raise being_started(folder)
        if plan is None:
            facts = json.loads((folder / "lab.json").read_text(encoding="utf-8"))
            plan = LabPlan.from_json(facts["plan"])
        with _starting_lock(folder) as held, ExitStack() as undo:  # also after Ctrl-C
            if not (folder / "lab.json").exists():
                undo.callback(_remove_unstarted, name)
            (folder / "plan.json").write_text(json.dumps(plan.to_json()), encoding="utf-8")
            with (folder / "log").open("ab") as log:
                process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-m", "quorate.integration.embedded_lab_process", folder),
                        *(["--accept-data-loss"] if accept_data_loss else []),
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=log,
                    start_new_session=True,
                    pass_fds=(held,),  # keeps the lock also when this process is killed
                    cwd=folder,
                )
            undo.callback(process.wait)
            undo.callback(process.kill)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            line = process.stdout.readline().decode()  # "ready", or an error; empty after a crash
            process.stdout.close()
            if line != "ready\n":
                process.wait()
                failure = json.loads(line) if line.startswith("{") else {}
                raise ClusterError(failure.get("error") or _end_of(folder / "log"), *failure.get("remedy", ()))
            undo.pop_all()
        process.returncode = 0  # the process is detached: no warning that it still runs
        return cls.attach(name)

    @staticmethod
    def remove(name: str) -> bool:
        """End a lab and remove its data. Returns whether it existed."""
        folder = lab_folder(name)
        if not folder.is_dir():
            return False
        if is_alive(name):
            # The process writes its pid right after it has taken the lock.
            wait_for("the lab's process has written its pid", lambda: (folder / "lock").read_text() or None, 1_000)
            pid = int((folder / "lock").read_text())
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            wait_for(f"the process {pid} of the lab {name} ends", lambda: not is_alive(name), 15_000)
        shutil.rmtree(folder)
        return True

    # ---- calls to the lab's process

    def _call(self, method: str, *args: Any, **kwargs: Any) -> Any:
        """Call a method of the cluster in the lab's process.

        Raises `ClusterError` as that does, and if the process does not respond.
        """
        try:
            with socket.socket(socket.AF_UNIX) as channel:
                channel.settimeout(self.timeout_ms / 1000)
                channel.connect(self._socket)
                channel.sendall(json.dumps([method, args, kwargs], default=os.fspath).encode() + b"\n")
                with channel.makefile("rb") as responses:
                    response = json.loads(responses.readline())
        except (OSError, ValueError) as error:
            raise ClusterError(f"the process of the lab {self.lab_name} does not respond: {error}") from None
        if "error" in response:
            raise ClusterError(response["error"], *response["remedy"])
        return response["result"]

    @property
    def brokers(self) -> Sequence[BrokerInfo]:
        """All brokers, by id."""
        return [BrokerInfo(**one) for one in self._call("brokers")]

    @property
    def bootstrap_servers(self) -> str:
        """Addresses of all brokers."""
        return ",".join(f"127.0.0.1:{port}" for port in self.plan.ports.values())

    @property
    def client_config(self) -> dict[str, Any]:
        """Configuration for kafka-python's clients, including security."""
        return {**super().client_config, **self._config}

    def copy_segments(self, destination: Path, topic: str = CONSUMER_OFFSETS, *, broker: int | None = None) -> Path:
        """Write a topic's batches into folders TOPIC-PARTITION, as in a broker's log directory."""
        self._call("copy_segments", destination.absolute(), topic, broker=broker)
        return destination

    stop_broker = _remote(Cluster.stop_broker)
    start_broker = _remote(Cluster.start_broker)
    restart_broker = _remote(Cluster.restart_broker)
    kill_broker = _remote(Cluster.kill_broker)
    pause_broker = _remote(Cluster.pause_broker)
    resume_broker = _remote(Cluster.resume_broker)
    wait_fenced = _remote(Cluster.wait_fenced)
    cut = _remote(Cluster.cut)
    heal = _remote(Cluster.heal)
    upgrade = _remote(Cluster.upgrade)
    logs = _remote(Cluster.logs)
    wait_ready = _remote(Cluster.wait_ready)

    def close(self) -> None:
        """Detach from the lab, which keeps running."""
        self.close_admin()


def being_started(folder: Path) -> ClusterError:
    """Return the error of a second start of a lab with this folder."""
    return ClusterError(
        "a lab of this name is being started", f"wait for it: quorate cluster status --name {folder.name}"
    )


@contextmanager
def _starting_lock(folder: Path) -> Iterator[int]:
    """Create a lab's folder, and hold the lock for starting it; yields the lock's descriptor.

    Raises `ClusterError` if another process holds it.
    """
    path = folder / "starting"
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as stack:
            try:
                file = stack.enter_context(path.open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                exists = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except BlockingIOError:
                raise being_started(folder) from None
            except FileNotFoundError:
                exists = False
            if exists:
                yield file.fileno()
                return
        # Another process failed to start the lab, and removed the folder with this file. Try again.


def _remove_unstarted(name: str) -> None:
    """Remove the folder of a lab that was not started, unless another process has started it."""
    if not is_alive(name):
        shutil.rmtree(lab_folder(name), ignore_errors=True)


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"its process has ended: {lines[-1]}" if lines else "its process has ended, and its log is empty"
