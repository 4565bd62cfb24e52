"""Exceptions and classes across all packages: one base for the former, one meaning for each public name of the latter."""

import json
import subprocess
import sys

import pytest

ROOMS = ("assignors", "cli", "cluster", "codecs", "coordinator", "integration", "pipeline")

WALK = """
import importlib, inspect, json, pkgutil, sys

def modules(package):
    yield package
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(found.name)

classes = [
    (module.__name__, name, [base.__name__ for base in kind.__mro__])
    for room in sys.argv[1:]
    for module in modules(importlib.import_module(f"quorate.{room}"))
    for name, kind in vars(module).items()
    if inspect.isclass(kind) and kind.__module__ == module.__name__ and kind.__qualname__ == name
]
print(json.dumps(classes))
"""

NOT_QUORATE_ERRORS = {
    (
        "quorate.cli.errors",
        "UserError",
    ): "ends a command by click; a base in quorate.codecs would make each start slower",
}


@pytest.fixture(scope="module")
def classes() -> list[tuple[str, str, list[str]]]:
    """Module, name and the names of the bases of every class, from an interpreter of its own: pyspark stays out of this one."""
    done = subprocess.run([sys.executable, "-P", "-c", WALK, *ROOMS], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) > 800
    return found


def test_every_exception_derives_from_quorate_error(classes):
    exceptions = {(module, name): bases for module, name, bases in classes if "BaseException" in bases}
    assert len(exceptions) > 25
    assert {key for key, bases in exceptions.items() if "QuorateError" not in bases} == NOT_QUORATE_ERRORS.keys()
