"""Read and write Kafka's record batches: magic 2 (KIP-98) and the older message formats 0 and 1.

    for batch in read_batches(data): ...          # Batch | BatchProblem
    for record in batch.records(): ...            # BatchRecord | BatchProblem
    encode_batch([BatchRecord(offset=0, timestamp_ms=0, key=b"k", value=b"v")], compression="zstd")

Compressed batches are supported. `quorate.codecs.records` decodes keys and values;
`quorate.codecs.log` reads files and directories.
"""

from quorate.codecs.batches.control import control_record
from quorate.codecs.batches.frames import MAX_BATCH_BYTES
from quorate.codecs.batches.model import (
    COMPRESSIONS,
    BatchHeader,
    BatchProblem,
    BatchRecord,
    ControlRecord,
    ProblemReason,
    TimestampType,
)
from quorate.codecs.batches.reader import Batch, read_batches
from quorate.codecs.batches.writer import encode_batch, encode_like, encode_marker

__all__ = [
    "COMPRESSIONS",
    "MAX_BATCH_BYTES",
    "Batch",
    "BatchHeader",
    "BatchProblem",
    "BatchRecord",
    "ControlRecord",
    "ProblemReason",
    "TimestampType",
    "control_record",
    "encode_batch",
    "encode_like",
    "encode_marker",
    "read_batches",
]
