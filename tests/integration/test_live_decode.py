"""`quorate decode -b` and `--follow` while brokers die, freeze and restart.

No record is missed or shown twice.
"""

import os
import signal
import subprocess
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from quorate.cluster.waiting import wait_for
from quorate.integration import Cluster
from tests.integration.clients import Crowds
from tests.integration.limits import LIMIT_MS

pytestmark = [
    pytest.mark.scenario("decode a live cluster"),
    pytest.mark.kafka_topic(replicas=3, config={"min.insync.replicas": "2"}),
]

COMMAND = str(Path(sysconfig.get_path("scripts")) / "quorate")
PATIENTLY = ["--connect-timeout-ms", str(LIMIT_MS)]
"""A busy machine may need more than the usual 10 s for what comes before the first record."""
LOST = "connection lost to the leaders of"
BACK = "connected again after"


class Decode:
    """The installed command, with the options that reach a cluster and choose some groups."""

    def __init__(self, cluster: Cluster, groups: str) -> None:
        config = dict(cluster.client_config)
        servers, password = config.pop("bootstrap_servers"), config.pop("sasl_plain_password", None)
        self.environment = os.environ | ({} if password is None else {"QUORATE_SASL_PASSWORD": password})
        self.choice = ["--group", groups, "--format", "jsonl"]
        self.live = ["-b", servers, *PATIENTLY]
        for name, value in config.items():
            self.live += [f"--{name.replace('_', '-')}", value]

    def run(self, *arguments: object) -> list[str]:
        """Return the lines that it prints."""
        done = subprocess.run(
            [COMMAND, "decode", *map(str, arguments), *self.choice],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=2 * LIMIT_MS / 1000,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, "")
        return done.stdout.splitlines()

    @contextmanager
    def following(self, folder: Path) -> Iterator["Follower"]:
        """`--follow` while the block runs."""
        out, err = folder / "followed", folder / "errors"
        with out.open("wb") as stdout, err.open("wb") as stderr:
            process = subprocess.Popen(
                [COMMAND, "decode", *self.live, "--follow", *self.choice],
                env=self.environment,
                stdout=stdout,
                stderr=stderr,
                stdin=subprocess.DEVNULL,
            )
            try:
                yield Follower(process, out, err)
            finally:
                process.kill()
                process.wait()


class Follower:
    """A process that follows, and what it has printed so far."""

    def __init__(self, process: "subprocess.Popen[bytes]", out: Path, err: Path) -> None:
        self._process, self._out, self._err = process, out, err

    @property
    def lines(self) -> list[str]:
        """What it has printed so far. It must not have ended: then nothing would follow."""
        assert self._process.poll() is None, self.errors
        *lines, _ = self._out.read_text("utf-8").split("\n")  # the last one is not whole yet, or empty
        return lines

    @property
    def errors(self) -> list[str]:
        return self._err.read_text("utf-8").splitlines()

    def interrupt(self) -> int:
        """Ctrl-C; the exit status."""
        self._process.send_signal(signal.SIGINT)
        return self._process.wait(300)


def seen(decode: Decode, follower: Follower, cluster: Cluster, folder: Path) -> list[str]:
    """Check that the follower, a read now, and the brokers' disks have the same records."""
    now = decode.run(*decode.live)
    assert now
    wait_for("the follower has seen everything", lambda: len(follower.lines) >= len(now), LIMIT_MS)
    assert follower.lines == now
    cluster.copy_segments(folder / "logs")
    assert decode.run(folder / "logs") == now
    return now


@pytest.mark.long_on_brokers
def test_a_follower_misses_nothing_while_coordinators_die_and_freeze(
    kafka_cluster: Cluster, topic: str, group_id: str, tmp_path: Path
) -> None:
    decode = Decode(kafka_cluster, f"{group_id}-*")
    with (
        Crowds(kafka_cluster, topic, group_id, session_timeout_ms=45_000) as crowds,
        decode.following(tmp_path) as follower,
    ):
        crowds.start("a", "b")
        wait_for("the follower sees the groups", lambda: follower.lines or None, LIMIT_MS)
        killed = crowds.coordinator
        kafka_cluster.kill_broker(killed)
        kafka_cluster.wait_fenced(killed)
        crowds.settle()
        during = decode.run("-b", kafka_cluster.bootstrap_servers, *PATIENTLY)
        kafka_cluster.start_broker(killed)
        frozen = crowds.coordinator
        with kafka_cluster.paused(frozen):
            kafka_cluster.wait_fenced(frozen)
            crowds.settle()
        kafka_cluster.wait_ready()
        crowds.settle()
        crowds.end_well()
        for crowd in crowds.each:
            crowd.close()
        lines = seen(decode, follower, kafka_cluster, tmp_path)
        assert lines[: len(during)] == during
        assert follower.interrupt() == 130
    # One broker of three is soon replaced. If it says anything at all, then that connections are
    # lost and back.
    assert [line for line in follower.errors if LOST not in line and BACK not in line] == []


# Logins at a real broker and its restart: tests/codecs/test_live.py and test_live_failures.py
@pytest.mark.long_on_brokers
def test_a_follower_with_a_login_misses_nothing_while_its_broker_restarts(
    secure_cluster: Cluster, group_id: str, tmp_path: Path
) -> None:
    topic = group_id
    secure_cluster.create_topic(topic, partitions=6, replicas=3, config={"min.insync.replicas": "2"})
    decode = Decode(secure_cluster, f"{group_id}-*")
    with (
        # First: it creates the topic of the groups, and without one there is nothing to follow.
        Crowds(secure_cluster, topic, group_id, session_timeout_ms=45_000) as crowds,
        decode.following(tmp_path) as follower,
    ):
        secure_cluster.move_coordinator(crowds.each[0].group, 2)
        crowds.start("a", "b")
        wait_for("the follower sees the groups", lambda: follower.lines or None, LIMIT_MS)
        secure_cluster.restart_broker(2)
        crowds.settle()
        crowds.end_well()
        for crowd in crowds.each:
            crowd.close()
        seen(decode, follower, secure_cluster, tmp_path)
        assert follower.interrupt() == 130
        assert not any(decode.environment["QUORATE_SASL_PASSWORD"] in line for line in follower.errors)
    secure_cluster.delete_topic(topic)
