"""Decode, replay and analyse `__consumer_offsets` with PySpark (`pip install quorate[spark]`).

`quorate.pipeline.local` runs the jobs in this process without Spark (`pip install quorate[arrow]`).
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

try:
    from quorate.pipeline.schema import OptionError, arrow_schema, record_types, spark_schema
except ModuleNotFoundError as missing:
    if missing.name != "pyarrow":
        raise
    raise ModuleNotFoundError(f"{__name__} needs pyarrow: pip install 'quorate[arrow]'", name="pyarrow") from missing

if TYPE_CHECKING:
    from quorate.pipeline.decode import decode, decode_segments
    from quorate.pipeline.jobs.audit import upgrade_audit
    from quorate.pipeline.jobs.lag import lag
    from quorate.pipeline.jobs.locality import Locality, locality
    from quorate.pipeline.jobs.rebalances import rebalances, storms
    from quorate.pipeline.jobs.state import GroupState, group_state
    from quorate.pipeline.source import register

__all__ = [
    "GroupState",
    "Locality",
    "OptionError",
    "arrow_schema",
    "decode",
    "decode_segments",
    "group_state",
    "lag",
    "locality",
    "rebalances",
    "record_types",
    "register",
    "spark_schema",
    "storms",
    "upgrade_audit",
]

_WITH_SPARK = {
    "GroupState": "jobs.state",
    "Locality": "jobs.locality",
    "decode": "decode",
    "decode_segments": "decode",
    "group_state": "jobs.state",
    "lag": "jobs.lag",
    "locality": "jobs.locality",
    "rebalances": "jobs.rebalances",
    "register": "source",
    "storms": "jobs.rebalances",
    "upgrade_audit": "jobs.audit",
}


def __getattr__(name: str) -> Any:
    """Import what needs pyspark on first use.

    The local engine needs no pyspark, and Python workers of Spark import the source, but no jobs.
    """
    if name in _WITH_SPARK:
        try:
            module = import_module(f"{__name__}.{_WITH_SPARK[name]}")
        except ModuleNotFoundError as missing:
            if (missing.name or "").partition(".")[0] != "pyspark":
                raise
            message = f"{__name__}.{name} needs pyspark: pip install 'quorate[spark]'"
            raise ModuleNotFoundError(message, name="pyspark") from missing
        found = getattr(module, name)
        globals()[name] = found  # importing the module `decode` sets an attribute of this name
        return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
