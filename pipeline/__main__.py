"""`python -m quorate.pipeline state kafka-logs` equals `quorate pipeline state kafka-logs`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    # By name, as this package must not import the package of the command.
    import_module("quorate.cli.main").main(["pipeline", *sys.argv[1:]], prog_name="quorate")
