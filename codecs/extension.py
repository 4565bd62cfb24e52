"""The optional extension in C, `quorate.codecs._native`, if it is in use.

It is missing where no compiler was found at installation, and switched off by `QUORATE_NATIVE=0` in
the environment. Everything in it has a twin in Python with the same results. One of another version
is not used, as in a checkout that was not built again.
"""

import os
from importlib import import_module
from typing import Any, Final

API: Final = 9
"""As in `codecs/native/native.h`; raised with each change of a function's arguments."""


def extension() -> Any:
    """Return the module, or `None`."""
    return _extension


def _load() -> Any:
    if os.environ.get("QUORATE_NATIVE", "") == "0":
        return None
    try:
        found = import_module("quorate.codecs._native")
    except ImportError:
        return None
    return found if getattr(found, "API", None) == API else None


_extension = _load()
