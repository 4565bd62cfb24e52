"""What labs may be named: names become those of containers and of folders."""

import re

from quorate.cluster.errors import ClusterError

__all__ = ["check_form", "is_name"]

_NAME = re.compile(r"[a-z0-9][a-z0-9_.-]{0,39}")


def is_name(name: str) -> bool:
    """Whether a lab may have this name, which leads nowhere but into a folder of its own."""
    return _NAME.fullmatch(name) is not None


def check_form(name: str) -> None:
    """Raises `ClusterError` for names that containers and folders cannot have."""
    if not is_name(name):
        raise ClusterError(
            f"a lab cannot be named {name!r}", "use at most 40 small letters, digits, dots, dashes and underscores"
        )
