"""`python -m quorate.pipeline` is the same as `quorate pipeline`."""

import sys
from importlib import import_module

if __name__ == "__main__":
    # Imported by name, because this package must not import `quorate.cli`.
    import_module("quorate.cli.main").main(["pipeline", *sys.argv[1:]], prog_name="quorate")
