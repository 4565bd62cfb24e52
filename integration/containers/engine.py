"""The container engine, and what belongs to us on it: everything that we start carries labels, and a watcher removes it if our process dies."""

import contextlib
import subprocess
import sys
import uuid
from functools import lru_cache
from typing import TYPE_CHECKING

from quorate.integration.errors import ClusterError

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["LABEL", "Session", "engine", "remove_labelled"]

LABEL = "io.quorate.session"
"""Label of containers, networks and volumes; its value names the session."""


@lru_cache(maxsize=1)
def engine() -> "DockerClient":
    """The engine that the environment names (`DOCKER_HOST`), or the local one. Raises `ClusterError` if there is none, with the remedy."""
    try:
        from docker.errors import DockerException

        import docker
    except ModuleNotFoundError as missing:
        raise ClusterError(f"{missing.name} is not installed: pip install 'quorate[testcontainers]'") from None
    try:
        client = docker.from_env()
        client.ping()
    except DockerException as error:
        raise ClusterError(
            f"no container engine answers ({str(error).splitlines()[0]}); start Docker, or name its address in DOCKER_HOST. "
            "On Debian and Ubuntu docker/engine of quorate's repository installs and starts one"
        ) from None
    return client


class Session:
    """A label for what one process starts, and a watcher that removes all of it when the process ends, however it ends.

    testcontainers' own watcher (Ryuk) is a container, whose image cannot be had everywhere; ours is a small Python process. It notices the end of this
    process by the end of its standard input.
    """

    def __init__(self) -> None:
        self.name = uuid.uuid4().hex[:12]
        self._watcher = subprocess.Popen(
            [sys.executable, "-P", "-m", "quorate.integration.containers.watcher", self.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # Ctrl-C is for the tests, which clean up themselves then
        )

    @property
    def labels(self) -> dict[str, str]:
        """To be put on everything that is started."""
        return {LABEL: self.name}

    def close(self) -> None:
        """Remove what is left and end the watcher."""
        remove_labelled(self.name)
        if self._watcher.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it has ended: nothing to tell it
                self._watcher.stdin.close()
        try:
            self._watcher.wait(20)
        except subprocess.TimeoutExpired:
            self._watcher.kill()
            self._watcher.wait()


def remove_labelled(session: str) -> None:
    """Remove the containers, networks and volumes of a session. What is gone already does not matter."""
    from docker.errors import APIError, NotFound

    client = engine()
    chosen = {"label": f"{LABEL}={session}"}
    for container in client.containers.list(all=True, filters=chosen, ignore_removed=True):
        with contextlib.suppress(NotFound):
            try:
                container.remove(force=True, v=True)
            except APIError as error:
                if error.status_code != 409:  # someone else is removing it
                    raise
    for network in client.networks.list(filters=chosen):
        with contextlib.suppress(NotFound):
            network.remove()
    for volume in client.volumes.list(filters=chosen):
        with contextlib.suppress(NotFound):
            volume.remove(force=True)
