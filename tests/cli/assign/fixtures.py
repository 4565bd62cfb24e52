"""A group for the tests of `quorate assign`, and fixtures that run the command on it."""

import json

import pytest

GROUP = {
    "group": "web",
    "topics": {"t": {"racks": [["a"], ["a"], ["b"], ["b"]], "lag": [5, 0, 7, None]}},
    "members": {
        "m1": {"rack": "a", "owned": {"t": [0, 2]}},
        "m2": {"rack": "b", "owned": {"t": [1, 3]}},
    },
}


@pytest.fixture
def described(tmp_path):
    """Write a file with this group, with some fields replaced."""

    def write(**other):
        path = tmp_path / "group.json"
        path.write_text(json.dumps(GROUP | other))
        return path

    return write


@pytest.fixture
def outcomes(quorate):
    """Run the command with --json; returns label → outcome, and the whole JSON as `result`."""

    def run(*arguments):
        ended = quorate("assign", *arguments, "--json")
        assert (ended.status, ended.err) == (0, "")
        result = json.loads(ended.out)
        return {outcome["name"]: outcome for outcome in result["outcomes"]} | {"result": result}

    return run


def figures(lines, row):
    """Return the figures in a row of the table, without the row's name."""
    (line,) = [line for line in lines if line.startswith(row)]
    return [cell.split() for cell in line.split("│")[1:]]
