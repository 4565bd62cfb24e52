"""Decode, replay and analyse `__consumer_offsets` with PySpark (`pip install quorate[spark]`)."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from quorate.pipeline.decode import decode, decode_segments
from quorate.pipeline.schema import OptionError, arrow_schema, record_types, spark_schema
from quorate.pipeline.source import register

if TYPE_CHECKING:
    from quorate.pipeline.jobs.audit import upgrade_audit
    from quorate.pipeline.jobs.lag import lag
    from quorate.pipeline.jobs.locality import Locality, locality
    from quorate.pipeline.jobs.rebalances import rebalances, storms
    from quorate.pipeline.jobs.state import GroupState, group_state

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

_JOBS = {
    "GroupState": "state",
    "Locality": "locality",
    "group_state": "state",
    "lag": "lag",
    "locality": "locality",
    "rebalances": "rebalances",
    "storms": "rebalances",
    "upgrade_audit": "audit",
}


def __getattr__(name: str) -> Any:
    """Import jobs on first use: Python workers of Spark import the source, but need no jobs."""
    if name in _JOBS:
        return getattr(import_module(f"{__name__}.jobs.{_JOBS[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
