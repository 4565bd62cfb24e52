"""Build the optional accelerator in C; everything else is declared in pyproject.toml.

Without a compiler or Python's headers the installation works without it. `QUORATE_NATIVE=0` in the
environment leaves it out.
"""

import os
import platform
import sys
import sysconfig
from pathlib import Path

from setuptools import Extension, setup

# One binary for Python 3.11 and later. Free-threaded Python has no limited API, and PyPy is fast
# without C.
STABLE = not sysconfig.get_config_var("Py_GIL_DISABLED")
WANTED = os.environ.get("QUORATE_NATIVE") != "0" and platform.python_implementation() == "CPython"
SOURCES = [Path("codecs/native"), Path("assignors/native")]
# Without paths of the machine, so that a build has the same bytes everywhere.
OPTIONS = [] if sys.platform == "win32" else ["-O2", "-g0", "-fvisibility=hidden"]

native = Extension(
    "quorate.codecs._native",
    sorted(str(path) for folder in SOURCES for path in folder.glob("*.c")),
    depends=sorted(str(path) for folder in SOURCES for path in folder.glob("*.h")),
    include_dirs=[str(SOURCES[0])],
    extra_compile_args=OPTIONS,
    py_limited_api=STABLE,
    optional=True,
)
setup(
    ext_modules=[native] if WANTED else [],
    options={"bdist_wheel": {"py_limited_api": "cp311"}} if WANTED and STABLE else {},
)
