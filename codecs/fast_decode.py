"""Generate the per-record decoder of a message version from its declaration.

A decoder reads the bytes that Kafka writes; a lenient one also reads others that Kafka's generated
classes accept. On any error it raises, and `quorate.codecs.exact` then finds the reason and the
position. Adjacent fields of fixed width, and the length after them, are read by one `struct` call.
The frozen objects are filled as instances of a twin class with the same slots and then get their
real class. The `__init__` of a frozen dataclass takes five times as long.

With `quorate.codecs.accelerator`, a program in C does the same in a fifth of the time.
"""

import struct
from collections.abc import Callable
from functools import cache

from quorate.codecs.accelerator import program
from quorate.codecs.generate import UUIDS, Inexact, shortest_uvarint_rest, uvarint_rest
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.source import Source, open_twin
from quorate.codecs.wire import (
    ArrayType,
    BytesType,
    FixedType,
    StringType,
    StructType,
    TaggedField,
    UuidType,
    WireType,
)

Decoder = Callable[[bytes, int], Message]


class _DecoderSource:
    """Generates the statements that read one struct or message in one version."""

    def __init__(self, spec: MessageSpec, version: int, flexible: bool, lenient: bool) -> None:
        self.spec = spec
        self.version = version
        self.flexible = flexible
        self.lenient = lenient
        self.source = Source()
        self.names = self.source.names
        rest = uvarint_rest if lenient else shortest_uvarint_rest
        self.names.update(unpack_from=struct.unpack_from, rest=rest, Inexact=Inexact, TaggedField=TaggedField)
        self.pending: list[tuple[str, str]] = []  # (variable, struct code) of fixed fields not yet read

    # ---- fixed runs

    def fixed(self, variable: str, code: str) -> None:
        self.pending.append((variable, code))

    def flush(self) -> None:
        """Read the pending fixed fields with one call."""
        if not self.pending:
            return
        layout = struct.Struct(">" + "".join(code for _, code in self.pending))
        reader = self.source.bind("s", layout.unpack_from)
        targets = ", ".join(variable for variable, _ in self.pending)
        self.source.add(f"{targets}, = {reader}(b, p)", f"p += {layout.size}")
        self.pending.clear()

    # ---- lengths

    def length(self, fixed_code: str, compact_limit: int | None = None) -> str:
        """Read a length or count, with -1 for null; return the variable that holds it."""
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

    def null_or(self, variable: str, nullable: bool, n: str) -> None:
        """Set `variable` to null if the length is negative; the code for other lengths follows."""
        if nullable and not self.lenient:
            self.source.add(f"if {n} < -1: raise Inexact")
        elif nullable and self.flexible:
            self.source.add(f"if {n} < -0x80000000: raise Inexact")  # Java's int wraps around
        self.source.add(f"if {n} < 0: {f'{variable} = None' if nullable else 'raise Inexact'}", "else:")

    def sized(self, variable: str, nullable: bool, n: str, code: str, empty: str) -> None:
        """Set `variable` to `empty`, to null, or to the value of `code`, which ends at `q`."""
        self.source.add(f"if not {n}: {variable} = {empty}", "else:")
        self.source.depth += 1
        self.null_or(variable, nullable, n)
        self.source.depth += 1
        self.source.add(f"q = p + {n}", f"{variable} = {code}", "p = q")
        self.source.depth -= 2

    # ---- values

    def read(self, wire: WireType, variable: str, nullable: bool, *, in_tag: bool = False) -> None:
        source = self.source
        match wire:
            case FixedType():
                self.fixed(variable, wire.code)
            case UuidType():
                self.flush()
                self.names["uuids"] = UUIDS
                source.add(f"q = p + 16; {variable} = uuids[b[p:q]]; p = q")
            case StringType():
                n = self.length("h", 0x7FFF)
                self.sized(variable, nullable, n, "b[p:q].decode()", "''")
            case BytesType():
                n = self.length("i")
                self.sized(variable, nullable, n, "b[p:q]", "b''")
            case ArrayType(element):
                self.array(element, variable, nullable)
            case StructType(spec):
                self.struct(spec, variable, nullable, in_tag)

    def array(self, element: WireType, variable: str, nullable: bool) -> None:
        source = self.source
        n = self.length("i")
        self.null_or(variable, nullable, n)
        source.depth += 1
        if isinstance(element, FixedType):
            few = source.bind("few", [struct.Struct(f">{count}{element.code}").unpack_from for count in range(17)])
            source.add(
                f"{variable} = {few}[{n}](b, p) if {n} < 17 else unpack_from('>%d{element.code}' % {n}, b, p)",
                f"p += {n} * {element.size}",
            )
        else:
            # An element takes at least a byte. Without this check, a damaged count would loop for
            # a long time before it fails.
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
        reader = source.bind("r", _struct_reader(spec, self.version, self.flexible, self.lenient))
        if not nullable:
            self.flush()
            source.add(f"{variable}, p = {reader}(b, p)")
            return
        mark = source.fresh("n")
        if in_tag:  # null is a varint 0, presence a varint 1
            self.fixed(mark, "B")
            self.flush()
            source.add(f"if {mark} > 127: {mark}, p = rest(b, p, {mark})")
            absent, null = f"{mark} <= 0", 0
        else:  # null is a byte below 0
            self.fixed(mark, "b")
            self.flush()
            absent, null = f"{mark} < 0", -1
        if not self.lenient:
            source.add(f"if {mark} != 1 and {mark} != {null}: raise Inexact")
        source.add(f"if {absent}: {variable} = None")
        source.add(f"else: {variable}, p = {reader}(b, p)")

    # ---- the message

    def body(self) -> None:
        """Read all fields, then create the object `o`."""
        source = self.source
        carried = [f for f in self.spec.fields if self.version in f.versions]
        for f in carried:
            if f.tag is None:
                self.read(f.type, f"f_{f.name}", f.nullable_in(self.version))
        self.tags([f for f in carried if f.tag is not None])
        self.flush()
        source.add(f"o = new({source.bind('T', open_twin(self.spec.cls))})")
        for f in self.spec.fields:
            known = f"f_{f.name}" if f in carried else source.bind("d", f.default)
            source.add(f"o.{f.name} = {known}")
        source.add(
            f"o.unknown_tags = {'unknown' if self.flexible else '()'}",
            f"o.__class__ = {source.bind('C', self.spec.cls)}",
        )
        self.names["new"] = object.__new__

    def tags(self, known: list[FieldSpec]) -> None:
        if not self.flexible:
            return
        source = self.source
        self.fixed("tags", "B")
        self.flush()
        for f in known:
            source.add(f"f_{f.name} = {source.bind('d', f.default)}")
        source.add("unknown = ()")
        if len(known) == 1:  # the usual case: nothing else is tagged
            (f,) = known
            source.add(f"if tags == 1 and b[p] == {f.tag}:")
            source.depth += 1
            source.add("z = b[p + 1]; p += 2", "if z > 127: z, p = rest(b, p, z)")
            self.tagged(f)
            source.depth -= 1
            source.add("elif tags:")
        else:
            source.add("if tags:")
        source.depth += 1
        source.add("if tags > 127: tags, p = rest(b, p, tags)", "if not 0 <= tags <= len(b) - p: raise Inexact")
        if not self.lenient:
            source.add("last = -1")
        source.add("for _ in range(tags):")
        source.depth += 1
        source.add(
            "t = b[p]; p += 1",
            "if t > 127: t, p = rest(b, p, t)",
            "z = b[p]; p += 1",
            "if z > 127: z, p = rest(b, p, z)",
        )
        if not self.lenient:
            source.add("if t <= last: raise Inexact", "last = t")
        for f in known:
            source.add(f"if t == {f.tag}:")
            source.depth += 1
            self.tagged(f)
            source.add("continue")
            source.depth -= 1
        source.add(
            "if z < 0: raise Inexact",
            "q = p + z",
            "if q > len(b): raise Inexact",
            "unknown += (TaggedField(t, bytes(b[p:q])),)",
            "p = q",
        )
        source.depth -= 2

    def tagged(self, f: FieldSpec) -> None:
        """Read a known tagged field of size `z`."""
        source = self.source
        if not self.lenient:  # Kafka does not check the size of a known tagged field
            source.add("q_ = p + z")
        self.read(f.type, f"f_{f.name}", f.nullable_in(self.version), in_tag=True)
        self.flush()
        if not self.lenient:
            source.add("if p != q_: raise Inexact")
            source.add(f"if f_{f.name} == {source.bind('d', f.default)}: raise Inexact")


@cache
def _struct_reader(
    spec: MessageSpec, version: int, flexible: bool, lenient: bool
) -> Callable[[bytes, int], tuple[Message, int]]:
    builder = _DecoderSource(spec, version, flexible, lenient)
    builder.body()
    builder.source.add("return o, p")
    reader: Callable[[bytes, int], tuple[Message, int]] = builder.source.function(
        f"read_{spec.name}_v{version}", "b, p"
    )
    return reader


@cache
def message_decoder(spec: MessageSpec, version: int, *, lenient: bool = False) -> Decoder:
    """Return a function `(data, position) -> message` for one version.

    It raises some exception (`Inexact`, `IndexError`, `struct.error`, `UnicodeDecodeError`, ...)
    unless the bytes from `position` on are exactly one message in UTF-8, as Kafka writes it. With
    `lenient` it accepts all forms that Kafka reads, for bytes that need not be written again.
    """
    native = program(spec, version, spec.is_flexible(version), lenient=lenient)
    return generated_decoder(spec, version, lenient=lenient) if native is None else native.decode


def generated_decoder(spec: MessageSpec, version: int, *, lenient: bool = False) -> Decoder:
    """Return the decoder in Python, which `message_decoder` returns without the accelerator."""
    builder = _DecoderSource(spec, version, spec.is_flexible(version), lenient)
    builder.body()
    # Slices past the end are shorter without an error. Reaching the end exactly proves that none
    # was.
    builder.source.add("if p != len(b): raise Inexact", "return o")
    decoder: Decoder = builder.source.function(f"decode_{spec.name}_v{version}", "b, p")
    return decoder
