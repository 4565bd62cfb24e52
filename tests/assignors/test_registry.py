"""Assignors by the names that Kafka's configuration uses."""

import subprocess
import sys

import pytest

from quorate.assignors import Assignor, AssignorError
from quorate.assignors.registry import CLIENT_ASSIGNORS, SERVER_ASSIGNORS, client_assignor, server_assignor


@pytest.mark.parametrize("name", CLIENT_ASSIGNORS)
def test_each_client_side_name_gives_the_assignor_that_is_called_so(name):
    assignor = client_assignor(name)
    assert isinstance(assignor, Assignor)
    assert assignor.name == name
    assert assignor is not client_assignor(name)


@pytest.mark.parametrize("name", SERVER_ASSIGNORS)
def test_each_server_side_name_gives_the_assignor_that_is_called_so(name):
    assignor = server_assignor(name)
    assert isinstance(assignor, Assignor)
    assert assignor.name == name


def test_range_is_another_one_on_each_side():
    assert type(client_assignor("range")) is not type(server_assignor("range"))


@pytest.mark.parametrize(("made", "side"), [(client_assignor, "client-side"), (server_assignor, "server-side")])
def test_an_unknown_name_is_refused_with_those_that_are_known(made, side):
    with pytest.raises(AssignorError, match=rf"unknown {side} assignor 'Range'; use one of .*range"):
        made("Range")


def test_only_the_assignor_that_is_asked_for_is_imported():
    script = """
import sys
from quorate.assignors.registry import client_assignor
client_assignor("roundrobin")
print(*sorted(m for m in sys.modules if m.startswith(("quorate.assignors.sticky", "quorate.assignors.server"))))
"""
    assert (
        subprocess.run([sys.executable, "-P", "-c", script], capture_output=True, text=True, check=True).stdout == "\n"
    )
