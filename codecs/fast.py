"""Generates the per-record decoder and encoder of a message version from its declaration.

The decoder reads exactly what Kafka's generated classes read, but knows only one outcome besides success: it raises, and `quorate.codecs.exact`
then finds out what is wrong and where. Neighbouring fields of fixed width, and the length that follows them, are read by one `struct` call.
The objects it builds are frozen. They are filled as instances of a twin class with the same slots and then get their real class, because going
through the `__init__` of a frozen dataclass takes five times as long.
"""

import struct
from collections.abc import Callable
from functools import cache
from typing import Any

from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, TaggedField, Uuid, UuidType, WireType

__all__ = ["Inexact", "message_decoder", "message_encoder", "open_twin"]

Decoder = Callable[[bytes, int], Message]
Encoder = Callable[[Any, Callable[[bytes], None]], None]


class Inexact(Exception):
    """The bytes are not exactly one message: too long, or not what the declaration says."""


@cache
def open_twin(cls: type) -> type:
    """A class with the slots of `cls` whose instances may be written to and then turned into instances of `cls`."""
    own = tuple(cls.__dict__["__slots__"])
    return type("_" + cls.__name__, cls.__bases__, {"__slots__": own, "__setattr__": object.__setattr__, "__delattr__": object.__delattr__})


def uvarint_rest(data: bytes, position: int, first: int) -> tuple[int, int]:
    """Finish an unsigned varint whose first byte had more to come. Like Java's, the result is a signed 32-bit number."""
    value = first & 0x7F
    for shift in (7, 14, 21, 28):
        byte = data[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            value &= 0xFFFFFFFF
            return (value - 0x100000000 if value >= 0x80000000 else value), position
    raise Inexact


def uvarint(value: int) -> bytes:
    """An unsigned varint of at most 32 bits."""
    if value < 0x80:
        return _ONE_BYTE[value]
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def merge_tags(written: list[tuple[int, bytes]], unknown: tuple[TaggedField, ...], known: frozenset[int]) -> list[tuple[int, bytes]]:
    """Tagged fields in the order in which Kafka writes them: each unknown one before the first known one with a greater tag."""
    out: list[tuple[int, bytes]] = []
    waiting = [(extra.tag, extra.data) for extra in reversed(unknown)]
    if not known.isdisjoint(tag for tag, _ in waiting):
        raise Inexact
    for tag, data in written:
        while waiting and waiting[-1][0] < tag:
            out.append(waiting.pop())
        out.append((tag, data))
    return out + waiting[::-1]


_ONE_BYTE = [bytes([n]) for n in range(0x80)]


class _Source:
    """Python source under construction, with the objects that it refers to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.names: dict[str, Any] = {}
        self.depth = 1
        self._count = 0

    def add(self, *lines: str) -> None:
        self.lines += ["    " * self.depth + line for line in lines]

    def fresh(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}{self._count}"

    def bind(self, prefix: str, thing: Any) -> str:
        name = self.fresh(prefix)
        self.names[name] = thing
        return name

    def function(self, name: str, arguments: str) -> Any:
        # Helpers are bound as default arguments: a local is looked up faster than a global.
        bound = ", ".join(f"{n}={n}" for n in self.names)
        text = f"def {name}({arguments}, {bound}):\n" + "\n".join(self.lines) + "\n"
        namespace = dict(self.names)
        exec(compile(text, f"<quorate {name}>", "exec"), namespace)
        return namespace[name]


class _Reading:
    """Emits the statements that read one struct or message in one version."""

    def __init__(self, spec: MessageSpec, version: int, flexible: bool) -> None:
        self.spec = spec
        self.version = version
        self.flexible = flexible
        self.source = _Source()
        self.names = self.source.names
        self.names.update(unpack_from=struct.unpack_from, rest=uvarint_rest, Inexact=Inexact, TaggedField=TaggedField)
        self.pending: list[tuple[str, str]] = []  # (variable, struct code) of fixed fields not yet read

    # ---- fixed runs

    def fixed(self, variable: str, code: str) -> None:
        self.pending.append((variable, code))

    def flush(self) -> None:
        """Read the pending fixed fields by one call."""
        if not self.pending:
            return
        layout = struct.Struct(">" + "".join(code for _, code in self.pending))
        reader = self.source.bind("s", layout.unpack_from)
        targets = ", ".join(variable for variable, _ in self.pending)
        self.source.add(f"{targets}, = {reader}(b, p)", f"p += {layout.size}")
        self.pending.clear()

    # ---- lengths

    def length(self, fixed_code: str, compact_limit: int | None = None) -> str:
        """Read a length or count, with -1 for null; return the variable."""
        n = self.source.fresh("n")
        if self.flexible:
            self.fixed(n, "B")
            self.flush()
            self.source.add(f"if {n} > 127: {n}, p = rest(b, p, {n})", f"{n} -= 1")
            if compact_limit is not None:
                self.source.add(f"if {n} > {compact_limit}: raise Inexact")
        else:
            self.fixed(n, fixed_code)
            self.flush()
        return n

    def sized(self, variable: str, nullable: bool, n: str, expression: str) -> None:
        """`variable` becomes null or the value of `expression`, whose end is `q`."""
        self.source.add(f"if {n} < 0: {f'{variable} = None' if nullable else 'raise Inexact'}", "else:")
        self.source.depth += 1
        self.source.add(f"q = p + {n}", f"{variable} = {expression}", "p = q")
        self.source.depth -= 1

    # ---- values

    def read(self, wire: WireType, variable: str, nullable: bool, *, in_tag: bool = False) -> None:
        source = self.source
        match wire:
            case FixedType():
                self.fixed(variable, wire.code)
            case UuidType():
                self.flush()
                make = source.bind("u", bytes.__new__)
                source.add(f"q = p + 16; {variable} = {make}({source.bind('U', Uuid)}, b[p:q]); p = q")
            case StringType():
                n = self.length("h", 0x7FFF)
                self.sized(variable, nullable, n, "b[p:q].decode()")
            case BytesType():
                n = self.length("i")
                self.sized(variable, nullable, n, "b[p:q]")
            case ArrayType(element):
                self.array(element, variable, nullable)
            case StructType(spec):
                self.struct(spec, variable, nullable, in_tag)

    def array(self, element: WireType, variable: str, nullable: bool) -> None:
        source = self.source
        n = self.length("i")
        source.add(f"if {n} < 0: {f'{variable} = None' if nullable else 'raise Inexact'}", "else:")
        source.depth += 1
        if isinstance(element, FixedType):
            few = source.bind("few", [struct.Struct(f">{count}{element.code}").unpack_from for count in range(17)])
            source.add(
                f"{variable} = {few}[{n}](b, p) if {n} < 17 else unpack_from('>%d{element.code}' % {n}, b, p)",
                f"p += {n} * {element.size}",
            )
        else:
            # An element takes at least a byte: without this, a damaged count would loop for long before it fails.
            items, item = source.fresh("items"), source.fresh("item")
            source.add(f"if {n} > len(b) - p: raise Inexact", f"{items} = []", f"for _ in range({n}):")
            source.depth += 1
            self.read(element, item, nullable=False)
            self.flush()
            source.add(f"{items}.append({item})")
            source.depth -= 1
            source.add(f"{variable} = tuple({items})")
        source.depth -= 1

    def struct(self, spec: MessageSpec, variable: str, nullable: bool, in_tag: bool) -> None:
        source = self.source
        reader = source.bind("r", _struct_reader(spec, self.version, self.flexible))
        if not nullable:
            self.flush()
            source.add(f"{variable}, p = {reader}(b, p)")
            return
        mark = source.fresh("n")
        if in_tag:  # null is a varint 0, presence a varint 1
            self.fixed(mark, "B")
            self.flush()
            source.add(f"if {mark} > 127: {mark}, p = rest(b, p, {mark})", f"if {mark} <= 0: {variable} = None")
        else:  # null is a byte below 0
            self.fixed(mark, "b")
            self.flush()
            source.add(f"if {mark} < 0: {variable} = None")
        source.add(f"else: {variable}, p = {reader}(b, p)")

    # ---- the message

    def body(self) -> None:
        """All fields, then the object `o`."""
        source = self.source
        carried = [f for f in self.spec.fields if self.version in f.versions]
        for f in carried:
            if f.tag is None:
                self.read(f.type, f"f_{f.name}", f.nullable)
        self.tags([f for f in carried if f.tag is not None])
        self.flush()
        source.add(f"o = new({source.bind('T', open_twin(self.spec.cls))})")
        for f in self.spec.fields:
            known = f"f_{f.name}" if f in carried else source.bind("d", f.default)
            source.add(f"o.{f.name} = {known}")
        source.add(f"o.unknown_tags = {'unknown' if self.flexible else '()'}", f"o.__class__ = {source.bind('C', self.spec.cls)}")
        self.names["new"] = object.__new__

    def tags(self, known: list[FieldSpec]) -> None:
        if not self.flexible:
            return
        source = self.source
        self.fixed("tags", "B")
        self.flush()
        for f in known:
            source.add(f"f_{f.name} = {source.bind('d', f.default)}")
        source.add("unknown = ()", "if tags:")
        source.depth += 1
        source.add("if tags > 127: tags, p = rest(b, p, tags)", "if tags > len(b) - p: raise Inexact", "for _ in range(tags):")
        source.depth += 1
        source.add("t = b[p]; p += 1", "if t > 127: t, p = rest(b, p, t)", "z = b[p]; p += 1", "if z > 127: z, p = rest(b, p, z)")
        for f in known:
            # Kafka does not compare the size of a tagged field that it knows with what it reads.
            source.add(f"if t == {f.tag}:")
            source.depth += 1
            self.read(f.type, f"f_{f.name}", f.nullable, in_tag=True)
            self.flush()
            source.add("continue")
            source.depth -= 1
        source.add("if z < 0: raise Inexact", "q = p + z", "if q > len(b): raise Inexact", "unknown += (TaggedField(t, b[p:q]),)", "p = q")
        source.depth -= 2


@cache
def _struct_reader(spec: MessageSpec, version: int, flexible: bool) -> Callable[[bytes, int], tuple[Message, int]]:
    reading = _Reading(spec, version, flexible)
    reading.body()
    reading.source.add("return o, p")
    reader: Callable[[bytes, int], tuple[Message, int]] = reading.source.function(f"read_{spec.name}_v{version}", "b, p")
    return reader


@cache
def message_decoder(spec: MessageSpec, version: int) -> Decoder:
    """A function `(data, position) -> message` for one version.

    It raises some exception (`Inexact`, `IndexError`, `struct.error`, `UnicodeDecodeError`, ...) unless the bytes from `position` on are exactly
    one message in UTF-8.
    """
    reading = _Reading(spec, version, spec.is_flexible(version))
    reading.body()
    # Slices past the end are silently short: that the end is met exactly also proves that no slice was.
    reading.source.add("if p != len(b): raise Inexact", "return o")
    decoder: Decoder = reading.source.function(f"decode_{spec.name}_v{version}", "b, p")
    return decoder


class _Writing:
    """Emits the statements that write one struct or message in one version, by calls `w(bytes)`."""

    def __init__(self, spec: MessageSpec, version: int, flexible: bool) -> None:
        self.spec = spec
        self.version = version
        self.flexible = flexible
        self.source = _Source()
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
                source.add("x = x.encode('utf-8', 'surrogateescape')", "n = len(x)", "if n > 32767: raise Inexact")
                self.length("n", "h")
                source.add("w(x)")
            case BytesType():
                depth = self.open(expression, nullable, "i")
                self.length("len(x)", "i")
                source.add("w(x)")
            case ArrayType(element):
                depth = self.open(expression, nullable, "i")
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
