"""A group for the tests of `quorate assign`, and what comes of it."""

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
    """A file with this group, some of it replaced."""

    def write(**other):
        path = tmp_path / "group.json"
        path.write_text(json.dumps(GROUP | other))
        return path

    return write


@pytest.fixture
def outcomes(quorate):
    """Label → outcome of a run with --json."""

    def run(*arguments):
        ended = quorate("assign", *arguments, "--json")
        assert (ended.status, ended.err) == (0, "")
        told = json.loads(ended.out)
        return {one["name"]: one for one in told["outcomes"]} | {"told": told}

    return run


def figures(lines, row):
    """The numbers of a row of the table, without what the row is called."""
    (line,) = [line for line in lines if line.startswith(row)]
    return [cell.split() for cell in line.split("│")[1:]]
