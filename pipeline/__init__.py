"""Coordinator topics in Spark: read, decode, replay and analyse months of `__consumer_offsets` with PySpark (`pip install quorate[spark]`)."""

from quorate.pipeline.decode import decode, decode_segments
from quorate.pipeline.schema import OptionError, arrow_schema, record_types, spark_schema
from quorate.pipeline.source import register

__all__ = ["OptionError", "arrow_schema", "decode", "decode_segments", "record_types", "register", "spark_schema"]
