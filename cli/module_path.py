"""Where commands find modules that a user names, such as MODULE:CLASS of an assignor."""

import sys
from pathlib import Path


def search_current_folder() -> None:
    """Let modules in the current folder be imported, after all others.

    Python does so for its own commands, but not for a script such as `quorate`.
    """
    folder = str(Path.cwd())
    if folder not in sys.path:
        sys.path.append(folder)
