"""Where the installed command begins.

A module of its own: what the command needs is imported once Ctrl-C is looked after.
"""

from quorate.cli.interrupts import end_at_once

__all__ = ["main"]


def main() -> None:
    """The command `quorate`."""
    end_at_once()
    from quorate.cli.main import main as command

    command()
