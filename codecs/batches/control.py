"""Control records, which the broker writes itself, mainly transaction markers (KIP-98)."""

from struct import Struct
from typing import Final

from quorate.codecs.batches.model import ControlRecord

ABORT: Final = 0
COMMIT: Final = 1
_NAMES = {
    ABORT: "ABORT",
    COMMIT: "COMMIT",
    2: "LEADER_CHANGE",
    3: "SNAPSHOT_HEADER",
    4: "SNAPSHOT_FOOTER",
    5: "KRAFT_VERSION",
    6: "KRAFT_VOTERS",
}
_KEY = Struct(">hh")  # version, type; later versions may add to it
_VALUE = Struct(">hi")  # version, coordinator epoch


def control_record(key: bytes | None, value: bytes | None) -> ControlRecord:
    """Decode key and value of a record in a control batch.

    Like Kafka, read keys of later versions as version 0. Fields that cannot be read are `None`.
    """
    type_id: int | None = None
    if key is not None and len(key) >= _KEY.size:
        key_version, key_type = _KEY.unpack_from(key)
        type_id = key_type if key_version >= 0 else None
    version: int | None = None
    coordinator_epoch: int | None = None
    if type_id in (ABORT, COMMIT) and value is not None and len(value) >= _VALUE.size:
        version, coordinator_epoch = _VALUE.unpack_from(value)
    return ControlRecord(
        type_id=type_id,
        name="UNKNOWN" if type_id is None else _NAMES.get(type_id, "UNKNOWN"),
        version=version,
        coordinator_epoch=coordinator_epoch,
        key_bytes=key,
        value_bytes=value,
    )
