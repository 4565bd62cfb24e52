"""Labs that are embedded clusters: each lives in a process of its own, which goes on when the command that started it has ended, and is found again by its folder.

FOLDER/NAME/lab.json   what it was asked for, and where it is FOLDER/NAME/lock       held by the
process as long as it lives FOLDER/NAME/starting   held by whoever starts it, and by the process, so
that two cannot start it at once FOLDER/NAME/log        what it had to say; up to 1 MiB, and what
was before in log.1 FOLDER/NAME/data       topics, groups and offsets

The folder is $QUORATE_LABS, or quorate/labs in $XDG_STATE_HOME (~/.local/state). The process takes
calls by a socket that only its user can open.
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

__all__ = [
    "BEING_STARTED",
    "EmbeddedLab",
    "LabPlan",
    "check_lab_name",
    "embedded_lab_names",
    "is_alive",
    "lab_folder",
]

F = TypeVar("F", bound=Callable[..., Any])

BEING_STARTED = "a lab of this name is being started", "wait for it: quorate cluster status"
"""What is said of it, and what to do."""

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")


def check_lab_name(name: str) -> None:
    """Raises `ClusterError` for names that containers and folders of labs cannot have."""
    if not _NAME.fullmatch(name):
        raise ClusterError(
            f"a lab cannot be named {name!r}", "use at most 40 small letters, digits, dots, dashes and underscores"
        )


def lab_folder(name: str | None = None) -> Path:
    """Where labs are, or one of them.

    Raises `ClusterError` for what is no name, so that nobody is led into another folder, which
    `remove` would delete.
    """
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    labs = Path(os.environ.get("QUORATE_LABS") or Path(state) / "quorate" / "labs")
    if name is None:
        return labs
    check_lab_name(name)
    return labs / name


def embedded_lab_names() -> list[str]:
    """The labs that are there, running or not."""
    return sorted(path.parent.name for path in lab_folder().glob("*/lab.json") if _NAME.fullmatch(path.parent.name))


def is_alive(name: str) -> bool:
    """Whether a lab's process lives: it holds the lock."""
    try:
        with (lab_folder(name) / "lock").open("rb") as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)  # shared, lest two that ask take each other for it
    except FileNotFoundError:
        return False
    except BlockingIOError:
        return True
    return False


@dataclass(frozen=True, slots=True, kw_only=True)
class LabPlan(ClusterPlan):
    """What a lab was asked for.

    `racks_now`, `version_now`: what has become of it, which a process that starts it again goes on
    with.
    """

    password: str | None = None
    racks_now: Mapping[int, str | None] | None = None
    version_now: str | None = None


def _remote(method: F) -> F:
    """The method of the same name, called in the lab's process."""

    @wraps(method, updated=())
    def call(self: "EmbeddedLab", *args: Any, **kwargs: Any) -> Any:
        self.close_admin()  # it may know brokers that are gone
        return self._call(method.__name__, *args, **kwargs)

    return cast("F", call)


class EmbeddedLab(Cluster):
    """A cluster in another process.

    `start` makes one, `attach` finds one; `close` lets go of it, `remove` ends it.
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
        """The lab of this name.

        Raises `ClusterError` if there is none, or its process has ended.
        """
        try:
            facts = json.loads((lab_folder(name) / "lab.json").read_text(encoding="utf-8"))
            lab = cls(name, facts)
        except FileNotFoundError:
            raise ClusterError(f"there is no lab named {name}", f"start it: quorate cluster up --name {name}") from None
        except (LookupError, TypeError, ValueError):
            raise ClusterError(
                f"the lab {name} was started by another version of quorate",
                f"use that, or remove the lab: quorate cluster down --name {name}",
            ) from None
        if not is_alive(name):
            raise ClusterError(
                f"the process of the lab {name} has ended",
                f"start it again, with what was in it: quorate cluster up --name {name}",
            )
        return lab

    @classmethod
    def start(cls, name: str, plan: LabPlan | None = None, *, accept_data_loss: bool = False) -> Self:
        """Start a lab, or, without a plan, one whose process has ended, with what was in it (`accept_data_loss`: as far as it is not damaged).

        Raises `ClusterError` if it does not come up, or another process is starting it.
        """
        folder = lab_folder(name)
        if is_alive(name):
            raise ClusterError(*BEING_STARTED)
        if plan is None:
            facts = json.loads((folder / "lab.json").read_text(encoding="utf-8"))
            plan = LabPlan.from_json(facts["plan"])
        with _only_starter(folder) as held, ExitStack() as taken_back:  # also by Ctrl-C, whenever it comes
            if not (folder / "lab.json").exists():
                taken_back.callback(_take_back, name)
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
                    pass_fds=(held,),  # to be held also when this process is killed
                    cwd=folder,
                )
            taken_back.callback(process.wait)
            taken_back.callback(process.kill)
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            said = process.stdout.readline().decode()  # "ready", or what went wrong; nothing if it crashed
            process.stdout.close()
            if said != "ready\n":
                process.wait()
                told = json.loads(said) if said.startswith("{") else {}
                raise ClusterError(told.get("error") or _end_of(folder / "log"), *told.get("remedy", ()))
            taken_back.pop_all()
        process.returncode = 0  # it is not ours any more: nobody waits for it
        return cls.attach(name)

    @staticmethod
    def remove(name: str) -> bool:
        """End a lab and remove its data; whether there was one."""
        folder = lab_folder(name)
        if not folder.is_dir():
            return False
        if is_alive(name):
            # Who takes the lock writes its number there right behind.
            wait_for("the lab's process says who it is", lambda: (folder / "lock").read_text() or None, 1_000)
            pid = int((folder / "lock").read_text())
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
            wait_for(f"the process {pid} of the lab {name} ends", lambda: not is_alive(name), 15_000)
        shutil.rmtree(folder)
        return True

    # ---- what the process does

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
            raise ClusterError(f"the process of the lab {self.lab_name} does not answer: {error}") from None
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
        """Configuration by which kafka-python's clients reach the cluster, security included."""
        return {**super().client_config, **self._config}

    def copy_segments(self, destination: Path, topic: str = CONSUMER_OFFSETS, *, broker: int | None = None) -> Path:
        """Write a topic's batches into folders TOPIC-PARTITION, as a broker's log directory has them."""
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
        """Let go of the lab; it goes on."""
        self.close_admin()


@contextmanager
def _only_starter(folder: Path) -> Iterator[int]:
    """Be the only one who starts the lab of a folder, which is made; the descriptor of what is held.

    Raises `ClusterError` if another is.
    """
    path = folder / "starting"
    while True:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as stack:
            try:
                file = stack.enter_context(path.open("ab"))
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                there = os.path.samestat(os.fstat(file.fileno()), path.stat())
            except BlockingIOError:
                raise ClusterError(*BEING_STARTED) from None
            except FileNotFoundError:
                there = False
            if there:
                yield file.fileno()
                return
        # Another took back what it had begun meanwhile, and this file with it.


def _take_back(name: str) -> None:
    """Remove what was begun, unless it is another process's that was quicker."""
    if not is_alive(name):
        shutil.rmtree(lab_folder(name), ignore_errors=True)


def _end_of(log: Path) -> str:
    lines = log.read_text(encoding="utf-8", errors="replace").strip().splitlines()
    return f"its process has ended: {lines[-1]}" if lines else "its process has ended without a word"
