from collections.abc import Callable
from typing import Any

from quorate.codecs.message import Message
from quorate.codecs.record_model import CoordinatorRecord

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
