"""Patterns of names that options take: `*`, `?` and `[...]`, as in a shell."""

import fnmatch
import re
from collections.abc import Callable, Iterable


def matcher(globs: Iterable[str]) -> Callable[[str], bool]:
    """Return a function that tests whether a name matches any of the globs.

    A name also matches itself, as names of groups may contain `*`, `?` and `[`.
    """
    match = re.compile("|".join(f"{fnmatch.translate(glob)}|{re.escape(glob)}\\Z" for glob in globs)).match
    return lambda name: match(name) is not None
