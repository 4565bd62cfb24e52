"""`python -m quorate.pipeline state kafka-logs`: the same as `quorate pipeline state kafka-logs`, for those who start modules rather than commands."""

import sys
from importlib import import_module

if __name__ == "__main__":
    # By name: the command is a room above, which knows this one.
    import_module("quorate.cli.main").main(["pipeline", *sys.argv[1:]], prog_name="quorate")
