"""Importing quorate changes nothing for the rest of a user's process."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

IMPORTED = "import sys, importlib, json; importlib.import_module(sys.argv[1]); print(json.dumps(list(sys.modules)))"

COMPARED = """
import gc, importlib, json, locale, os, signal, sys, threading, warnings

package, *others = sys.argv[1:]
for name in others:
    try:
        importlib.import_module(name)
    except ImportError:  # importable only from inside its package
        pass

def all_globals():
    found = {
        "sys.meta_path": list(sys.meta_path),
        "sys.path_hooks": list(sys.path_hooks),
        "sys.path": list(sys.path),
        "hooks": (sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook),
        "tracing": (sys.gettrace(), sys.getprofile()),
        "limits": (sys.getrecursionlimit(), sys.getswitchinterval(), sys.get_int_max_str_digits()),
        "gc": (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), list(map(id, gc.callbacks))),
        "threads": [thread.name for thread in threading.enumerate()],
        "signals": [(number, signal.getsignal(number)) for number in sorted(signal.valid_signals())],
        "warnings": [repr(one) for one in warnings.filters],
        "showwarning": warnings.showwarning,
        "locale": locale.setlocale(locale.LC_ALL),
        "environment": dict(os.environ),
        "folder": os.getcwd(),
    }
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        found["numpy.errstate"] = numpy.geterr()
        found["numpy.printoptions"] = numpy.get_printoptions()
    return found

allocated = []
if "numpy" in sys.modules:  # glibc's mmap threshold is moved by freeing a large array
    import numpy
    own = numpy.empty
    def empty(shape, *args, **named):
        made = own(shape, *args, **named)
        allocated.append(made.nbytes)
        return made
    numpy.empty = empty
before = all_globals()
importlib.import_module(package)
after = all_globals()
changed = [name for name, value in before.items() if after[name] != value]
if any(size >= 1 << 20 for size in allocated):
    changed.append("large arrays")
print(json.dumps(changed))
"""


def _python(code: str, *arguments: str) -> Any:
    command = [sys.executable, "-P", "-c", code, *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=300).stdout)


@pytest.mark.parametrize(
    "module",
    [
        "quorate.assignors",
        "quorate.cli.main",
        "quorate.cluster",
        "quorate.codecs",
        "quorate.codecs.columnar.columns",
        "quorate.consumers",
        "quorate.coordinator",
        "quorate.coordinator.bulk",
        "quorate.integration",
        "quorate.pipeline",
    ],
)
def test_import_changes_no_global(module):
    others = [name for name in _python(IMPORTED, module) if not name.startswith(("quorate", "_")) and "." not in name]
    assert _python(COMPARED, module, *others) == []


def test_import_changes_no_global_where_arrow_is_missing():
    missing = "import sys; sys.modules['pyarrow'] = None\n"
    others = [name for name in _python(missing + IMPORTED, "quorate.codecs") if not name.startswith(("quorate", "_"))]
    assert _python(missing + COMPARED, "quorate.codecs", *(name for name in others if "." not in name)) == []


FILLED = """
import importlib, json, sys
from importlib.machinery import SourceFileLoader

def containers(module):
    return {
        f"{module.__name__}.{name}": len(value)
        for name, value in vars(module).items()
        if isinstance(value, (dict, list, set)) and not name.startswith("__")
    }

made = {}
own = SourceFileLoader.exec_module
def exec_module(loader, module):
    own(loader, module)
    if module.__name__.startswith("quorate."):
        made.update(containers(module))
SourceFileLoader.exec_module = exec_module

for name in sys.argv[1:]:
    importlib.import_module(name)
now = {}
for name in made:
    module = sys.modules[name.rpartition(".")[0]]
    now.update(containers(module))
print(json.dumps([len(made), sorted(name for name, count in made.items() if now[name] != count)]))
"""

MEMOS = [
    "quorate.codecs.fast_encode._SIZES",
    "quorate.codecs.record_encode._ENCODERS",
    "quorate.codecs.source._TWINS",
]
"""Caches: the value of a key depends on the key alone."""


def test_no_module_fills_what_another_one_declares():
    root = Path(__file__).parent.parent
    packages = ("assignors", "cli", "cluster", "codecs", "consumers", "coordinator", "integration", "pipeline")
    files = [
        file.relative_to(root).with_suffix("")
        for package in packages
        for file in sorted(root.joinpath(package).rglob("*.py"))
    ]
    modules = [".".join(file.parts).removesuffix(".__init__") for file in files if file.name != "__main__"]
    count, filled = _python(FILLED, *(f"quorate.{module}" for module in modules))
    assert count > 100
    assert sorted(set(filled) - set(MEMOS)) == []


FIRST_TEST = """
import json, sys
from kafka import KafkaConsumer, KafkaProducer
from quorate.cluster.embedded import EmbeddedCluster
from quorate.cluster.interface import TEST_PROPERTIES

with EmbeddedCluster(racks=["a", "b", "c"], properties=TEST_PROPERTIES) as kafka:
    kafka.create_topic("orders", partitions=6)
    with KafkaProducer(**kafka.client_config) as producer:
        producer.send("orders", b"one").get(10)
    consumer = KafkaConsumer("orders", **kafka.client_config, group_id="g", auto_offset_reset="earliest")
    assert next(consumer).value == b"one"
    consumer.close()
print(json.dumps([name for name in ("numpy", "pyarrow", "construct") if name in sys.modules]))
"""


def test_the_first_test_of_a_user_loads_no_arrays():
    """They take as long to load as the rest of the cluster (issue 22)."""
    assert _python(FIRST_TEST) == []
