"""Generates the per-record encoder of a message version from its declaration.

It writes byte for byte what Kafka's generated classes write. A message that the version cannot carry makes it raise, and `quorate.codecs.exact` then
names the field.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from quorate.codecs.errors import EncodeError
from quorate.codecs.exact import encode_exactly
from quorate.codecs.generate import Inexact, Source, merge_tags, uvarint
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType

__all__ = ["Encoder", "encode_message", "message_encoder", "span"]

Encoder = Callable[[Any, Callable[[bytes], None]], None]


class _Writing:
    """Emits the statements that write one struct or message in one version, by calls `w(bytes)`."""

    def __init__(self, spec: MessageSpec, version: int, flexible: bool) -> None:
        self.spec = spec
        self.version = version
        self.flexible = flexible
        self.source = Source()
        self.source.names.update(uv=uvarint, pack=struct.pack, Inexact=Inexact)
        self.pending: list[tuple[str, str]] = []

    def fixed(self, expression: str, code: str) -> None:
        self.pending.append((expression, code))

    def flush(self) -> None:
        if not self.pending:
            return
        packer = self.source.bind("s", struct.Struct(">" + "".join(code for _, code in self.pending)).pack)
        self.source.add(f"w({packer}({', '.join(expression for expression, _ in self.pending)}))")
        self.pending.clear()

    def length(self, expression: str, code: str) -> None:
        if self.flexible:
            self.flush()
            self.source.add(f"w(uv({expression} + 1))")
        else:
            self.fixed(expression, code)
            self.flush()

    def null(self, nullable: bool, code: str) -> None:
        """The branch for `None`, up to its `else:`; the caller's statements come one level deeper."""
        self.flush()
        self.source.add("if x is None:")
        self.source.depth += 1
        if not nullable:
            self.source.add("raise Inexact")
        elif self.flexible:
            self.source.add(r"w(b'\x00')")
        else:
            self.source.add(f"w({struct.pack('>' + code, -1)!r})")
        self.source.depth -= 1
        self.source.add("else:")
        self.source.depth += 1

    def write(self, wire: WireType, expression: str, nullable: bool, *, in_tag: bool = False) -> None:
        source = self.source
        match wire:
            case FixedType():
                self.fixed(expression, wire.code)
                return
            case UuidType():
                self.flush()
                source.add(f"x = {expression}", "if len(x) != 16: raise Inexact", "w(x)")
                return
            case StructType(spec):
                self.flush()
                writer = source.bind("r", _struct_writer(spec, self.version, self.flexible))
                if not nullable:
                    source.add(f"{writer}({expression}, w)")
                    return
                null, present = (b"\x00", b"\x01") if in_tag else (b"\xff", b"\x01")
                source.add(f"x = {expression}", f"if x is None: w({null!r})", f"else: w({present!r}); {writer}(x, w)")
                return
            case StringType():
                depth = self.open(expression, nullable, "h")
                source.add("x = x.encode()", "n = len(x)", "if n > 32767: raise Inexact")
                self.length("n", "h")
                source.add("w(x)")
            case BytesType():
                depth = self.open(expression, nullable, "i")
                self.length("len(x)", "i")
                source.add("w(x)")
            case ArrayType(element):
                depth = self.open(expression, nullable, "i")
                if isinstance(element, StringType):  # text would be an array of its letters
                    source.add("if x.__class__ is str: raise Inexact")
                self.length("len(x)", "i")
                if isinstance(element, FixedType):
                    source.add(f"w(pack('>%d{element.code}' % len(x), *x))")
                else:
                    item = source.fresh("item")
                    source.add(f"for {item} in x:")
                    source.depth += 1
                    self.write(element, item, nullable=False)
                    self.flush()
                    source.depth -= 1
        source.depth = depth

    def open(self, expression: str, nullable: bool, code: str) -> int:
        """Bind `x` and enter the branch where it is not null; returns the depth to go back to."""
        depth = self.source.depth
        if nullable:
            self.flush()
            self.source.add(f"x = {expression}")
            self.null(nullable, code)
        else:
            self.source.add(f"x = {expression}")
        return depth

    def body(self) -> None:
        tagged = []
        for f in self.spec.fields:
            if self.version not in f.versions:
                if not f.ignorable:
                    self.source.add(f"if o.{f.name} != {self.source.bind('d', f.default)}: raise Inexact")
            elif f.tag is None:
                self.write(f.type, f"o.{f.name}", f.nullable)
            else:
                tagged.append(f)
        self.flush()
        if self.flexible:
            self.tags(sorted(tagged, key=lambda f: f.tag or 0))
        else:
            self.source.add("if o.unknown_tags: raise Inexact")

    def tags(self, known: list[FieldSpec]) -> None:
        source = self.source
        source.add("tags = []")
        for f in known:
            # Each payload is written to a list of its own, because its size comes first.
            source.add(f"if o.{f.name} != {source.bind('d', f.default)}:")
            source.depth += 1
            source.add("parts = []; outer = w; w = parts.append")
            self.write(f.type, f"o.{f.name}", f.nullable, in_tag=True)
            self.flush()
            source.add("w = outer", f"tags.append(({f.tag}, b''.join(parts)))")
            source.depth -= 1
        source.add("if o.unknown_tags: tags = merge(tags, o.unknown_tags, known)", r"if not tags: w(b'\x00')", "else:")
        source.names.update(merge=merge_tags, known=frozenset(f.tag for f in known))
        source.depth += 1
        source.add("w(uv(len(tags)))", "for t, data in tags: w(uv(t)); w(uv(len(data))); w(data)")
        source.depth -= 1


@cache
def _struct_writer(spec: MessageSpec, version: int, flexible: bool) -> Encoder:
    writing = _Writing(spec, version, flexible)
    writing.body()
    writing.source.add("return")
    writer: Encoder = writing.source.function(f"write_{spec.name}_v{version}", "o, w")
    return writer


@cache
def message_encoder(spec: MessageSpec, version: int) -> Encoder:
    """A procedure `(message, write)` that hands the message's bytes to `write`, piece by piece.

    It raises some exception if the version cannot carry the message; `quorate.codecs.exact` then names the field.
    """
    return _struct_writer(spec, version, spec.is_flexible(version))


def encode_message(message: Message, version: int) -> bytes:
    """The bytes of a message in one version, without the int16 in front. Raises `EncodeError` if the version cannot carry it."""
    spec = message.spec
    if spec.versions is None or version not in spec.versions:
        raise EncodeError(f"{spec.name} has no version {version}; it has {span(spec.versions)}")
    parts: list[bytes] = []
    try:
        message_encoder(spec, version)(message, parts.append)
        return b"".join(parts)
    except Exception:  # noqa: BLE001  # written, or the field is named, by `encode_exactly`
        return encode_exactly(message, version)


def span(versions: range | None) -> str:
    """The versions that a message has, in words."""
    if versions is None:
        return "none of its own: it is a struct inside messages"
    return str(versions[0]) if len(versions) == 1 else f"{versions[0]} to {versions[-1]}"
