"""The optional extension in C, `quorate.codecs._native`, if it is in use.

It is missing where no compiler was found at installation, and switched off by `QUORATE_NATIVE=0` in
the environment. Everything in it has a twin in Python with the same results. One of another version
is not used, as in a checkout that was not built again.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from quorate.codecs import _native

    class Native:
        """The module's names with the types in `_native.pyi`: a module is no type."""

        NativeCodec = _native.NativeCodec
        RecordCodec = _native.RecordCodec
        Maker = _native.Maker
        SmallGroups = _native.SmallGroups
        NativeDict = _native.NativeDict
        batch_starts = staticmethod(_native.batch_starts)
        batch_headers = staticmethod(_native.batch_headers)
        batch_crcs = staticmethod(_native.batch_crcs)
        batch_records = staticmethod(_native.batch_records)
        decode_columns = staticmethod(_native.decode_columns)
        assign_few = staticmethod(_native.assign_few)
        assign_uniform = staticmethod(_native.assign_uniform)


API: Final = 12
"""As in `codecs/native/native.h`; raised with each change of a function's arguments."""


def extension() -> "type[Native] | None":
    """Return the module, or `None`."""
    return _extension


def _load() -> "type[Native] | None":
    if os.environ.get("QUORATE_NATIVE", "") == "0":
        return None
    try:
        found: Any = import_module("quorate.codecs._native")
    except ImportError:
        return None
    return found if getattr(found, "API", None) == API else None


_extension = _load()
