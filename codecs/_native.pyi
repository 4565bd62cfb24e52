from collections.abc import Callable
from typing import Any

from typing_extensions import Buffer

from quorate.codecs.message import Message
from quorate.codecs.record_model import CoordinatorRecord

API: int

class NativeCodec:
    def __new__(
        cls,
        message: type[Message],
        fields: tuple[tuple[str, tuple[str, Any], bool, bool, bool, int, Any], ...],
        flexible: bool,
        lenient: bool,
        prefix: bytes,
        helpers: tuple[Any, Any, Any],
        section: Callable[[list[tuple[int, bytes]], Any], bytes],
        /,
    ) -> NativeCodec: ...
    def decode(self, data: bytes, position: int, /) -> Message: ...
    def encode(self, message: Message, /) -> bytes: ...
    def encode_parts(self, message: Message, /) -> list[bytes]: ...

class RecordCodec:
    def __new__(
        cls,
        record: type[CoordinatorRecord],
        topic: str,
        inexact: type[Exception],
        find: Callable[[int, int | None], NativeCodec],
        types: dict[type[Message], int],
        /,
    ) -> RecordCodec: ...
    def decode(self, key: bytes | None, value: bytes | None, /) -> CoordinatorRecord: ...
    def encode(self, record: CoordinatorRecord, /) -> tuple[bytes, bytes | None]: ...

class Maker:
    def __new__(cls, of: type, slots: tuple[str, ...], given: int, defaults: tuple[Any, ...], /) -> Maker: ...
    def make(self, /, *values: Any) -> Any: ...

class NativeDict(dict[Any, Any]):
    slots: int

def batch_starts(block: Buffer, most_bytes: int, /) -> tuple[bytearray, int]: ...
def batch_headers(block: Buffer, starts: Buffer, ends: Buffer, fields: Buffer, /) -> None: ...
def batch_crcs(block: Buffer, firsts: Buffer, ends: Buffer, crcs: Buffer, tables_only: bool = False, /) -> None: ...
def batch_records(
    data: Buffer,
    bodies: Buffer,
    body_ends: Buffer,
    counts: Buffer,
    base_offsets: Buffer,
    base_timestamps: Buffer,
    kept: Buffer,
    left_out: Buffer,
    facts: Buffer,
    nulls: Buffer,
    unusual: Buffer,
    /,
) -> int: ...
def decode_columns(
    codec: type[NativeCodec],
    layouts: tuple[tuple[NativeCodec, bytes] | None, ...],
    wanted: int,
    data: Buffer,
    starts: Buffer,
    ends: Buffer,
    nulls: Buffer,
    versions: Buffer,
    columns: tuple[tuple[str, Buffer | None, Buffer | None, Buffer | None], ...],
    irregular: Buffer,
    most: int,
    /,
) -> tuple[tuple[int, int, int], ...] | None: ...
