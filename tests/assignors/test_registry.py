"""The registry of assignors by the names that Kafka's configs use."""

import subprocess
import sys

import pytest

from quorate.assignors import Assignor, AssignorError
from quorate.assignors.registry import CLIENT_ASSIGNORS, SERVER_ASSIGNORS, client_assignor, server_assignor


@pytest.mark.parametrize("name", CLIENT_ASSIGNORS)
def test_each_client_side_name_gives_its_assignor(name):
    assignor = client_assignor(name)
    assert isinstance(assignor, Assignor)
    assert assignor.name == name
    assert assignor is not client_assignor(name)


@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
def test_each_server_side_name_gives_its_assignor(name):
    assignor = server_assignor(name)
    assert isinstance(assignor, Assignor)
    assert assignor.name == name


def test_range_differs_by_side():
    assert type(client_assignor("range")) is not type(server_assignor("range"))


@pytest.mark.parametrize(("made", "side"), [(client_assignor, "client-side"), (server_assignor, "server-side")])
def test_an_unknown_name_is_rejected_with_the_known_names(made, side):
    with pytest.raises(AssignorError, match=rf"unknown {side} assignor 'Range'; use one of .*range"):
        made("Range")


def test_only_the_requested_assignor_is_imported():
    script = """
import sys
from quorate.assignors.registry import client_assignor
client_assignor("roundrobin")
print(*sorted(m for m in sys.modules if m.startswith(("quorate.assignors.sticky", "quorate.assignors.server"))))
"""
    assert (
        subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout == "\n"
    )
