"""What a Python process of Spark does once, when it has done its first task for us."""

import gc
import sys
from functools import cache

__all__ = ["settle"]

_FORKED_BY = "pyspark.daemon"


@cache
def settle() -> None:
    """Keep what is there, which is what was imported, out of collections of garbage, in processes that pyspark keeps for further tasks.

    After each task pyspark's daemon has all garbage collected, for which every object is looked at:
    40 ms with NumPy, pyarrow and what we import, a quarter of what a task of 32 MB takes. These
    objects stay as long as the process does anyway. Nothing is done in other processes.
    """
    if _is_forked():
        gc.freeze()


def _is_forked() -> bool:
    spec = getattr(sys.modules.get("__main__"), "__spec__", None)
    return spec is not None and spec.name == _FORKED_BY
