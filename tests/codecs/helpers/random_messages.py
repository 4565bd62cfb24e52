"""Random messages of any declaration, and values that their version cannot carry.

Much quicker than the strategies, for comparing decoders and encoders with many inputs.
"""

from random import Random
from typing import Any

from quorate.codecs.api.broker import APIS
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.messages import RECORD_TYPES, ConsumerProtocolAssignment, ConsumerProtocolSubscription
from quorate.codecs.metadata_records import METADATA_TYPES
from quorate.codecs.wire import (
    ArrayType,
    BytesType,
    FixedType,
    StringType,
    StructType,
    TaggedField,
    Uuid,
    UuidType,
    WireType,
)

_RECORDS = [spec for types in RECORD_TYPES.values() for found in types.values() for spec in (found.key, found.value)]
_APIS = [spec for api in APIS.values() for spec in (api.request, api.response)]
_OTHERS = [cls.spec for cls in (ConsumerProtocolAssignment, ConsumerProtocolSubscription, *METADATA_TYPES.values())]

ALL_VERSIONS: list[tuple[MessageSpec, int]] = [
    (spec, version) for spec in (*_RECORDS, *_APIS, *_OTHERS) for version in spec.versions or ()
]
"""Every declared message in every version."""

_TEXTS = ("", "g", "orders", "é", "\U0001f680", "a" * 127, "b" * 128, "é" * 64, "\udc80", "c" * 0x7FFF, "d" * 0x8000)
_BYTES = (b"", b"\x00", b"\xff" * 126, b"\x01" * 127, b"\x02" * 700, bytearray(b"xy"), memoryview(b"view"))
_WRONG = (None, "text", b"bytes", 1 << 70, -(1 << 40), 3.5, (), [1], {"a": 1}, object(), TaggedField(0, b""), True, 300)


class _Messages:
    def __init__(self, random: Random, version: int, flexible: bool, wrong: float) -> None:
        self.random, self.version, self.flexible, self.wrong = random, version, flexible, wrong

    def value(self, wire: WireType) -> Any:
        random = self.random
        if random.random() < self.wrong:
            return random.choice(_WRONG)
        match wire:
            case FixedType(code="?"):
                return random.random() < 0.5
            case FixedType(code="d"):
                return random.choice([0.0, -1.5, 1e300, float("inf")])
            case FixedType():
                least, most = wire.bounds
                return random.choice([least, most, 0, 1, most // 2, random.randint(least, most)])
            case StringType():
                return random.choice(_TEXTS[: len(_TEXTS) if self.wrong else 8])
            case BytesType():
                return random.choice(_BYTES if self.wrong else _BYTES[:5])
            case UuidType():
                return Uuid(random.randbytes(16))
            case ArrayType(element):
                count = random.choice([0, 1, 1, 2, 3, 40 if isinstance(element, FixedType) else 2])
                return random.choice((tuple, tuple, list) if self.wrong else (tuple,))(
                    self.value(element) for _ in range(count)
                )
            case StructType(spec):
                return self.message(spec)

    def field(self, f: FieldSpec) -> Any:
        if self.version not in f.versions:
            return f.default if self.random.random() >= self.wrong else self.value(f.type)
        if f.tag is not None and self.random.random() < 0.5:
            return f.default
        return None if f.nullable_in(self.version) and self.random.random() < 0.2 else self.value(f.type)

    def message(self, spec: MessageSpec) -> Message:
        values = {f.name: self.field(f) for f in spec.fields}
        if (self.flexible or self.random.random() < self.wrong) and self.random.random() < 0.15:
            tags = sorted(self.random.sample([0, 1, 3, 5, 127, 128, 20_848, 2**31 - 1], 2))
            if not self.wrong:
                tags = [tag for tag in tags if tag not in {f.tag for f in spec.fields}]
            values["unknown_tags"] = tuple(TaggedField(tag, self.random.randbytes(3)) for tag in tags)
        return spec.cls(**values)


def random_message(random: Random, spec: MessageSpec, version: int, *, wrong: float = 0) -> Message:
    """Return a message; each value is one that cannot be encoded with the probability `wrong`."""
    return _Messages(random, version, spec.is_flexible(version), wrong).message(spec)


def damaged_bytes(random: Random, data: bytes) -> bytes:
    """Return the bytes cut, continued, or with some of them changed."""
    spoiled = bytearray(data)
    how = random.random()
    if how < 0.3:
        del spoiled[random.randrange(len(spoiled) + 1) :]
    elif how < 0.4:
        spoiled += random.randbytes(random.randint(1, 3))
    for _ in range(random.randint(1, 3)):
        if spoiled and how >= 0.2:
            spoiled[random.randrange(len(spoiled))] = random.choice(
                [0, 1, 2, 127, 128, 254, 255, random.randrange(256)]
            )
    return bytes(spoiled)
