"""All exceptions have one base class, and each public class name has one meaning."""

import json
import subprocess
import sys
from collections import defaultdict

import pytest

PACKAGES = (
    "assignors",
    "cli",
    "cluster",
    "codecs",
    "consumers",
    "coordinator",
    "integration",
    "pipeline",
    "simulation",
    "watch",
)

WALK = """
import importlib, inspect, json, pkgutil, sys

def modules(package):
    yield package
    for found in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        yield importlib.import_module(found.name)

classes = [
    (module.__name__, name, [base.__name__ for base in kind.__mro__])
    for package in sys.argv[1:]
    for module in modules(importlib.import_module(f"quorate.{package}"))
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
    """Return module, name and base names of every class; another interpreter imports pyspark."""
    done = subprocess.run([sys.executable, "-P", "-c", WALK, *PACKAGES], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert len(found) > 800
    return found


def test_every_exception_derives_from_quorate_error(classes):
    exceptions = {(module, name): bases for module, name, bases in classes if "BaseException" in bases}
    assert len(exceptions) > 25
    assert {key for key, bases in exceptions.items() if "QuorateError" not in bases} == NOT_QUORATE_ERRORS.keys()


SCHEMAS = ("quorate.codecs.api", "quorate.codecs.messages", "quorate.codecs.metadata_records")
"""Their classes have the names of Kafka's schemas, whose structs are nested in the message that
they belong to.
"""

ADAPTERS = ("quorate.assignors.adapters.", "quorate.consumers.")
"""Define the same classes once for each client; a user imports those of one client."""


def test_no_two_public_classes_share_a_name(classes):
    modules = defaultdict(list)
    for module, name, _ in classes:
        if not name.startswith("_") and not module.startswith(SCHEMAS):
            modules[name].append(module)
    shared = {name: where for name, where in modules.items() if len(where) > 1}
    clients = {
        name for name, where in shared.items() if len(where) == 2 and all(one.startswith(ADAPTERS) for one in where)
    }
    assert {name: where for name, where in shared.items() if name not in clients} == {}
