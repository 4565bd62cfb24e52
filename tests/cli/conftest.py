"""Fixtures that run the command, in this process where possible."""

import os
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from quorate.cli.main import main
from tests.broker.broker import Broker
from tests.broker.fixtures import need_broker
from tests.codecs.helpers.captures import CAPTURES
from tests.of_group import of_group
from tests.oracle.fixtures import oracle as oracle

PLAIN = {"COLUMNS": "120", "NO_COLOR": "", "FORCE_COLOR": "", "TERM": "xterm", "LC_ALL": "C.UTF-8"}
COMMAND = str(Path(sysconfig.get_path("scripts")) / "quorate")
RACK = "rack-a"


@dataclass(frozen=True)
class Ended:
    """Exit status and output of the command."""

    status: int
    out: str
    err: str

    @property
    def lines(self) -> list[str]:
        # Not splitlines: U+2028 ends no line of JSON.
        return self.out.removesuffix("\n").split("\n") if self.out else []


@pytest.fixture
def quorate() -> Callable[..., Ended]:
    """Call the command with these arguments; unhandled exceptions fail the test."""

    def call(*arguments: object, stdin: str | bytes | None = None) -> Ended:
        result = CliRunner(catch_exceptions=False).invoke(
            main, [str(argument) for argument in arguments], input=stdin, env=PLAIN
        )
        return Ended(result.exit_code, result.stdout, result.stderr)

    return call


@pytest.fixture
def start() -> Callable[..., "subprocess.Popen[bytes]"]:
    """Start the installed command in a process."""

    def call(*arguments: object, **how: object) -> "subprocess.Popen[bytes]":
        pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | how
        return subprocess.Popen([COMMAND, *map(str, arguments)], env=os.environ | PLAIN, **pipes)

    return call


@contextmanager
def racked_broker() -> Iterator[Broker]:
    from kafka.admin import KafkaAdminClient, NewTopic

    with Broker({"broker.rack": RACK}) as broker:
        with closing(KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)) as admin:
            admin.create_topics([NewTopic("orders", 4, 1), NewTopic("stock", 2, 1)])
        yield broker


@pytest.fixture(scope="module")
def racked(request: pytest.FixtureRequest) -> Broker:
    """Return a broker in a rack that the tests of a group share; each uses its own groups."""
    need_broker()
    return of_group(request.config, racked_broker)


@pytest.fixture
def upgrade() -> Path:
    """A log directory that brokers wrote during an upgrade."""
    return CAPTURES / "upgrade-4.0-to-4.3-and-back"


@pytest.fixture
def transactions() -> Path:
    """A log directory with transactional commits: committed, aborted, still open."""
    return CAPTURES / "transactions-4.3"
