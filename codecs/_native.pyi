from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias, final

import numpy.typing as npt
from typing_extensions import Buffer as _Buffer

from quorate.codecs.message import Message
from quorate.codecs.record_model import CoordinatorRecord

_Bytes: TypeAlias = _Buffer | npt.NDArray[Any]  # numpy declares that arrays are buffers from Python 3.12

API: int

@final
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

@final
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

@final
class Maker:
    def __new__(cls, of: type, slots: tuple[str, ...], given: int, defaults: tuple[Any, ...], /) -> Maker: ...
    def make(self, /, *values: Any) -> Any: ...

@final
class SmallGroups:
    def __new__(cls, member: type, partition: type, /) -> SmallGroups: ...
    def range(
        self, members: Mapping[str, Any], index: dict[str, int], first: list[int], /
    ) -> list[tuple[int, ...]] | None: ...
    def server_range(
        self, members: Mapping[str, Any], topics: list[int], packed: bytes | None, /
    ) -> list[Sequence[int]] | None: ...
    def sticky(
        self,
        members: Mapping[str, Any],
        index: dict[str, int],
        first: list[int],
        cooperative: bool,
        as_of_3_7: bool,
        /,
    ) -> list[tuple[int, ...]] | None: ...

class NativeDict(dict[Any, Any]):
    slots: int

def batch_starts(block: _Bytes, most_bytes: int, /) -> tuple[bytearray, int]: ...
def batch_headers(block: _Bytes, starts: _Bytes, ends: _Bytes, fields: _Bytes, /) -> None: ...
def batch_crcs(block: _Bytes, firsts: _Bytes, ends: _Bytes, crcs: _Bytes, tables_only: bool = False, /) -> None: ...
def batch_records(
    data: _Bytes,
    bodies: _Bytes,
    body_ends: _Bytes,
    counts: _Bytes,
    base_offsets: _Bytes,
    base_timestamps: _Bytes,
    kept: _Bytes,
    left_out: _Bytes,
    facts: _Bytes,
    nulls: _Bytes,
    unusual: _Bytes,
    /,
) -> int: ...
def decode_columns(
    codec: type[NativeCodec],
    layouts: tuple[tuple[NativeCodec, bytes] | None, ...],
    wanted: int,
    data: _Bytes,
    starts: _Bytes,
    ends: _Bytes,
    nulls: _Bytes,
    versions: _Bytes,
    columns: tuple[tuple[str, _Bytes | None, _Bytes | None, _Bytes | None], ...],
    irregular: _Bytes,
    most: int,
    /,
) -> tuple[tuple[int, int, int], ...] | None: ...
def assign_uniform(
    packed: bytes | None,
    topics: list[int],
    names: int,
    order: list[int],
    targets: list[Sequence[int]],
    jdk: int,
    is_stable: bool,
    /,
) -> list[int] | None: ...
def assign_few(
    packed: bytes | None,
    counts: list[int],
    unowned: list[int],
    previous: Callable[[int], list[int]],
    targets: list[Sequence[int]],
    jdk: int,
    is_stable: bool,
    /,
) -> list[int] | None: ...
