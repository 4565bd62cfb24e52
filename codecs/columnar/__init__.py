"""Records as Arrow columns. Needs NumPy and pyarrow (`pip install quorate[arrow]`)."""

from quorate.codecs.columnar.columns import decode_columns
from quorate.codecs.columnar.schema import PROBLEMS, PROBLEMS_SCHEMA, message_schema, record_schema

__all__ = ["PROBLEMS", "PROBLEMS_SCHEMA", "decode_columns", "message_schema", "record_schema"]
