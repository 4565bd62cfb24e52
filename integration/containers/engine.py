"""The container engine, and the labels of everything that quorate starts there.

A watcher process removes what has the label of a process that died.
"""

import contextlib
import os
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from functools import lru_cache
from importlib.util import find_spec
from typing import TYPE_CHECKING

from quorate.cluster.errors import ClusterError

if TYPE_CHECKING:
    from docker import DockerClient

_TAKEN = re.compile(r":(\d+)(?: failed: port is already allocated|: bind: address already in use)")
_ERRNO = re.compile(r"\[Errno -?\d+\] ([^\"')]+)")

LABEL = "io.quorate.session"
"""Label of containers, networks and volumes; its value names the session."""

LAB = "io.quorate.lab"
"""Label of those that outlive the process that started them; its value is the lab's name."""


@lru_cache(maxsize=1)
def engine() -> "DockerClient":
    """Return the engine of `DOCKER_HOST`, or the local one.

    Raises `ClusterError` with a remedy if none responds.
    """
    try:
        from docker.errors import DockerException

        import docker

        if find_spec("testcontainers") is None:
            raise ModuleNotFoundError(name="testcontainers")
    except ModuleNotFoundError as missing:
        raise ClusterError(
            f"containers need the package {missing.name}, which is not installed",
            "pip install 'quorate[testcontainers]'",
        ) from None
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        raise ClusterError(
            f"no container engine responds: {_reason(str(error))}",
            "start Docker, or set DOCKER_HOST to its address. "
            "On Debian and Ubuntu, docker/engine of quorate's repository installs and starts one",
        ) from None
    return client


def _reason(text: str) -> str:
    """Shorten an exception of Docker's package, whose text contains others."""
    for name, words in (
        ("FileNotFoundError", "its socket does not exist"),
        ("PermissionError", "this user has no permission to use it"),
    ):
        if name in text:
            return words
    refused = _ERRNO.search(text)
    if refused:
        return f"{os.environ.get('DOCKER_HOST', 'the local one')}: {refused[1]}"
    return next(iter(text.splitlines()), "unknown reason")


@contextlib.contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Raise `ClusterError` for errors of the engine, in one line. `what`: what failed."""
    from docker.errors import APIError

    try:
        yield
    except APIError as error:
        reason = str(error.explanation or error).strip().splitlines()[0]
        taken = _TAKEN.search(reason)
        if taken:
            raise ClusterError(
                f"{what}: port {taken[1]} of 127.0.0.1 is in use",
                f"stop the process that listens there: ss -ltnp sport = :{taken[1]}",
            ) from None
        raise ClusterError(f"{what}: the container engine refuses: {reason}") from None


class Session:
    """A label for everything that one process starts, and a watcher that removes it afterwards.

    The watcher is a small Python process. It removes everything when this process ends, which it
    notices by the end of its standard input. testcontainers' own watcher (Ryuk) is a container,
    whose image is not available everywhere.

    `lab`: a name under which everything remains after `keep`.
    """

    def __init__(self, lab: str | None = None) -> None:
        self.name = lab or uuid.uuid4().hex[:12]
        self._label = LAB if lab else LABEL
        self._watcher: subprocess.Popen[bytes] | None = None

    def watch(self) -> None:
        """Start the watcher."""
        self._watcher = subprocess.Popen(
            [sys.executable, "-P", "-m", "quorate.integration.containers.watcher", self._label, self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C interrupts the tests, which then clean up
        )

    @property
    def labels(self) -> dict[str, str]:
        """Labels of everything that is started."""
        return {self._label: self.name}

    def close(self) -> None:
        """Remove everything and end the watcher."""
        remove_labelled(self._label, self.name)
        self._end_watcher(b"")

    def keep(self) -> None:
        """End the watcher and keep everything."""
        self._end_watcher(b"keep")

    def _end_watcher(self, word: bytes) -> None:
        watcher, self._watcher = self._watcher, None
        if watcher is None:
            return
        if watcher.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended
                watcher.stdin.write(word)
                watcher.stdin.close()
        try:
            watcher.wait(20)
        except subprocess.TimeoutExpired:
            watcher.kill()
            watcher.wait()


def remove_labelled(label: str, value: str) -> int:
    """Remove the containers, networks and volumes with a label, and return how many."""
    from docker.errors import APIError, NotFound

    client = engine()
    chosen = {"label": f"{label}={value}"}
    removed = 0
    for container in client.containers.list(all=True, filters=chosen, ignore_removed=True):
        with contextlib.suppress(NotFound):
            try:
                container.remove(force=True, v=True)
                removed += 1
            except APIError as error:
                if error.status_code != 409:  # another process is removing it
                    raise
    for network in client.networks.list(filters=chosen):
        with contextlib.suppress(NotFound):
            network.remove()
            removed += 1
    for volume in client.volumes.list(filters=chosen):
        with contextlib.suppress(NotFound):
            volume.remove(force=True)
            removed += 1
    return removed
