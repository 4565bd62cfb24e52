"""Kafka's command-line tools, one after another in one JVM.

Tests on a cluster of their own define the fixture `running`.
"""

import json
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from quorate.cluster import EmbeddedCluster
from tests.broker.broker import missing_tools
from tests.broker.broker import tools as tools_command
from tests.broker.fixtures import need_broker
from tests.of_group import of_group

Run = Callable[..., str]
CONFIG = "kafka.admin.ConfigCommand"


def running_tools() -> Iterator[Callable[..., dict[str, Any]]]:
    """Run a tool, by its class in `org.apache.kafka.tools` or its full name."""
    need_broker()
    if (reason := missing_tools()) is not None:
        pytest.skip(reason)
    command = tools_command("-Xmx128m", "-Dorg.slf4j.simpleLogger.defaultLogLevel=off")
    with subprocess.Popen(
        [*command, "KafkaTools"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def run(tool: str, *arguments: object) -> dict[str, Any]:
            name = tool if tool.startswith("kafka.") else f"org.apache.kafka.tools.{tool}"
            process.stdin.write(json.dumps({"tool": name, "arguments": list(map(str, arguments))}) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
            assert line, process.stderr.read() if process.stderr is not None else ""
            response: dict[str, Any] = json.loads(line)
            return response

        yield run
        process.stdin.close()
        process.wait(300)


tools = pytest.fixture(running_tools, scope="module", name="tools")
"""For a file."""
_tools = contextmanager(running_tools)


@pytest.fixture(scope="module", name="tools")
def tools_of_group(request: pytest.FixtureRequest) -> Callable[..., dict[str, Any]]:
    """For the conftest.py of a folder whose files are one group."""
    return of_group(request.config, _tools)


@pytest.fixture
def ok(tools: Callable[..., dict[str, Any]], running: EmbeddedCluster) -> Run:
    """Run a tool on the cluster, which must succeed, and return its output."""

    def run(tool: str, *arguments: object) -> str:
        response = tools(tool, "--bootstrap-server", running.bootstrap_servers, *arguments)
        assert response["status"] == 0, response
        out: str = response["out"]
        assert not re.search("Error[: ]|Exception", out), response
        return out

    return run


def rows(out: str) -> list[list[str]]:
    """Return the rows of a table, without its header."""
    return [line.split() for line in out.splitlines() if line.strip()][1:]
