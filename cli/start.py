"""Entry point of the installed command.

It handles Ctrl-C before it imports the rest of the command.
"""

from quorate.cli.interrupts import end_on_interrupt


def main() -> None:
    """Run the command `quorate`."""
    end_on_interrupt()
    from quorate.cli.main import main as command

    command()
