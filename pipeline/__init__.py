"""Coordinator topics in Spark: read, decode, replay and analyse months of `__consumer_offsets` with PySpark (`pip install quorate[spark]`)."""

from quorate.pipeline.decode import decode, decode_segments
from quorate.pipeline.jobs.audit import upgrade_audit
from quorate.pipeline.jobs.lag import lag
from quorate.pipeline.jobs.locality import Locality, locality
from quorate.pipeline.jobs.rebalances import rebalances, storms
from quorate.pipeline.jobs.state import GroupState, group_state
from quorate.pipeline.schema import OptionError, arrow_schema, record_types, spark_schema
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
