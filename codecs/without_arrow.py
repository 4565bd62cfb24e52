"""Where the packages of the `arrow` extra are not installed: asking for what needs them says so, in the way that each way of asking expects.

An attribute that is not there is an AttributeError, so that `hasattr` says no. `from quorate.codecs import read_tables` makes Python look for
a module of that name then, and tell in words of its own that there is none; a finder behind all others tells what to install instead.
"""

import sys
from collections.abc import Collection
from typing import Any

__all__ = ["SayWhatToInstall", "what_to_install"]


def what_to_install(name: str, missing: str) -> str:
    """What to say of a name that needs a missing package."""
    return f"{name} needs {missing}: pip install 'quorate[arrow]'"


class SayWhatToInstall:
    """A finder for `sys.meta_path` that finds nothing: for some names of a package it raises ImportError."""

    def __init__(self, package: str, names: Collection[str], missing: str) -> None:
        self.package = package
        self.names = names
        self.missing = missing

    def install(self) -> None:
        """Have it asked after all other finders."""
        sys.meta_path.append(self)

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> None:
        """Raise ImportError if it is one of the names."""
        package, _, name = fullname.rpartition(".")
        if package == self.package and name in self.names:
            raise ImportError(what_to_install(name, self.missing), name=fullname)
