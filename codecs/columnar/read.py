"""From frames to columns: follows a plan and collects, for every field, where its values are.

Text and bytes are kept as places and lengths until the end, when Arrow copies them. Nested lists are walked element by element, all messages at once: the
first elements of all lists, then the second ones, and so on; once only a few long lists are left, those are walked one by one.
"""

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from quorate.codecs.columnar.frame import Array, Bools, Frame, Ints, bounds
from quorate.codecs.columnar.plan import Item, ListPlan, Plan, Sized, StructPlan, TagPlan
from quorate.codecs.fast import Inexact, uvarint_rest
from quorate.codecs.message import FieldSpec
from quorate.codecs.wire import ArrayType, BytesType, FixedType, StringType, StructType, UuidType, WireType

__all__ = ["Column", "Fixed", "Lists", "Slices", "Structs", "expand", "read_message"]

FEW = 12
"""With this many lists left or fewer, walking them one by one is faster than numpy's overhead per call."""


MANY_TAGS = 64
"""No message has as many tagged fields."""


@dataclass(slots=True)
class Fixed:
    """Values of fixed width; `valid` is `None` if none is null."""

    values: Array
    valid: Bools | None = None


@dataclass(slots=True)
class Slices:
    """Text or bytes in the buffer. `even` is (first, step) if the starts are evenly spaced and all lengths equal."""

    start: Ints
    length: Ints
    valid: Bools | None = None
    even: tuple[int, int] | None = None


@dataclass(slots=True)
class Lists:
    """Lists with `counts` elements each; `child` has the elements of all lists in a row."""

    counts: Ints
    child: "Column"
    valid: Bools | None = None


@dataclass(slots=True)
class Structs:
    """One column per field."""

    count: int
    fields: dict[str, "Column"]
    valid: Bools | None = None


Column: TypeAlias = Fixed | Slices | Lists | Structs


def read_message(frame: Frame, plan: Plan) -> Structs:
    """The columns of the messages at the frame's places; moves on behind them."""
    fields: dict[str, Column] = {}
    for step in plan.steps:
        codes = [code for _, code in step.fixed]
        tail = step.tail
        prefix = _prefix_code(tail, plan.flexible)
        values = frame.fetch([*codes, prefix] if prefix else codes)
        for (name, _), found in zip(step.fixed, values, strict=False):
            fields[name] = Fixed(found)
        if tail is not None:
            fields[step.name] = _read_tail(frame, tail, plan.flexible, values[-1] if prefix else None)
    if plan.tags is not None:
        _read_tags(frame, plan.tags, plan, fields)
    for f in plan.absent:
        fields[f.name] = default_column(f.type, f.default, frame.count)
    return Structs(frame.count, {f.name: fields[f.name] for f in plan.spec.fields})


def _prefix_code(tail: Item | None, flexible: bool) -> str:
    """The fixed part in front of a variable field that can be fetched with the run before it."""
    match tail:
        case Sized(text=True):
            return "u1" if flexible else ">i2"
        case Sized() | ListPlan():
            return "u1" if flexible else ">i4"
        case StructPlan(nullable=True, in_tag=in_tag):
            return "u1" if in_tag else "i1"
    return ""


def _read_item(frame: Frame, item: Item, flexible: bool) -> Column:
    """A single item, not preceded by a run."""
    if isinstance(item, str):
        return Fixed(frame.fetch([item])[0])
    prefix = _prefix_code(item, flexible)
    return _read_tail(frame, item, flexible, frame.fetch([prefix])[0] if prefix else None)


def _null(frame: Frame, lengths: Ints, nullable: bool) -> Bools | None:
    """Which are not null, `None` if all are; a null where none may be is doubtful."""
    if not frame.count or bounds(lengths)[0] >= 0:
        return None
    valid = lengths >= 0
    if not nullable:
        frame.doubt(~valid)
        return None
    return valid


def _read_tail(frame: Frame, tail: Item, flexible: bool, low: Array | None) -> Column:
    match tail:
        case Sized(text, nullable):
            assert low is not None
            lengths = frame.length(flexible, low)
            valid = _null(frame, lengths, nullable)
            lengths = _clamped(frame, lengths, 0x7FFF if text else 0x7FFFFFFF)
            if frame.at is None:
                start = frame.first + frame.step * np.arange(frame.count, dtype=np.int64)
            else:
                start = frame.at.copy()  # the frame's own array moves on
            first, step = frame.first, frame.step
            even = frame.at is None
            frame.advance(lengths)
            return Slices(start, lengths, valid, (first, step) if even and frame.at is None else None)
        case ListPlan(element, nullable):
            assert low is not None
            counts = frame.length(flexible, low)
            valid = _null(frame, counts, nullable)
            counts = _plausible(frame, counts, element)
            return Lists(counts, _read_elements(frame, counts, element, flexible), valid)
        case StructPlan(plan, nullable, in_tag):
            if not nullable:
                return read_message(frame, plan)
            assert low is not None
            present = frame.finish_varint(low) > 0 if in_tag else low >= 0
            if bool(present.all()):
                return read_message(frame, plan)
            return _read_present(frame, plan, present)
    raise TypeError(tail)


def _clamped(frame: Frame, lengths: Ints, limit: int) -> Ints:
    """Lengths from 0 to `limit`; greater ones are doubtful."""
    if not frame.count:
        return lengths
    low, high = bounds(lengths)
    if high > limit:
        frame.doubt(lengths > limit)
    return np.clip(lengths, 0, limit) if low < 0 or high > limit else lengths


def _plausible(frame: Frame, counts: Ints, element: Item) -> Ints:
    """Counts of elements for which the message has room; others are doubtful, and 0. As in Kafka, so that damage reserves no memory."""
    if not frame.count or bounds(counts) == (0, 0):
        return counts
    width = np.dtype(element).itemsize if isinstance(element, str) else 1
    impossible = counts * width > frame.room()
    if bool(impossible.any()):
        frame.doubt(impossible)
        counts = np.where(impossible, 0, counts)
    return np.maximum(counts, 0) if bounds(counts)[0] < 0 else counts


def _read_present(frame: Frame, plan: Plan, present: Bools) -> Structs:
    """A struct that only some places have."""
    places = np.flatnonzero(present)
    if not len(places):
        nothing = {f.name: default_column(f.type, f.default, frame.count) for f in plan.spec.fields}
        return Structs(frame.count, nothing, present)
    inner = frame.select(places)
    columns = read_message(inner, plan)
    frame.own_positions()[places] = inner.positions()
    return Structs(frame.count, {name: expand(column, places, frame.count) for name, column in columns.fields.items()}, present)


# ---- lists


def _read_elements(frame: Frame, counts: Ints, element: Item, flexible: bool) -> Column:
    """The elements of the lists whose counts were fetched."""
    total = int(counts.sum())
    if isinstance(element, str):
        width = np.dtype(element).itemsize
        starts = _element_starts(frame.positions(), counts, width, total)
        children = Frame(frame.buffer, starts, np.repeat(frame.owners(), counts))
        values = children.fetch([element])[0]
        frame.advance(counts * width)
        return Fixed(values)
    starts = np.empty(total, dtype=np.int64)
    _walk(frame, counts, element, flexible, starts)
    children = Frame(frame.buffer, starts, np.repeat(frame.owners(), counts))
    return _read_item(children, element, flexible)


def _element_starts(at: Ints, counts: Ints, width: int, total: int) -> Ints:
    """Where each element of lists of fixed-width elements starts."""
    first = np.cumsum(counts) - counts
    return np.repeat(at - first * width, counts) + np.arange(total, dtype=np.int64) * width


def _walk(frame: Frame, counts: Ints, element: Item, flexible: bool, starts: Ints) -> None:
    """Find where every element starts, and move the frame behind its lists."""
    at = frame.positions().copy()
    first = np.cumsum(counts) - counts
    places = np.flatnonzero(counts > 0)
    number = 0
    while len(places) > FEW:
        starts[first[places] + number] = at[places]
        step = Frame(frame.buffer, at[places], places if frame.owner is None else frame.owner[places])
        _skip(step, element, flexible)
        at[places] = step.positions()
        number += 1
        places = places[counts[places] > number]
    if len(places):
        data = frame.buffer.data.data
        owners = frame.owners()
        for place in places.tolist():
            position = int(at[place])
            base = int(first[place])
            try:
                for index in range(number, int(counts[place])):
                    starts[base + index] = position
                    position = _skip_one(data, position, element, flexible)
            except (IndexError, ValueError, Inexact):
                frame.buffer.doubtful[owners[place]] = True
                starts[base + index : base + int(counts[place])] = 0
            at[place] = position
    frame.at = at


def _skip(frame: Frame, item: Item, flexible: bool) -> None:
    """Move the frame behind one item at each place."""
    match item:
        case str():
            frame.advance(np.dtype(item).itemsize)
        case Sized(text, nullable):
            lengths = frame.length(flexible, frame.fetch([_prefix_code(item, flexible)])[0])
            _null(frame, lengths, nullable)
            frame.advance(_clamped(frame, lengths, 0x7FFF if text else 0x7FFFFFFF))
        case ListPlan(element, nullable):
            counts = frame.length(flexible, frame.fetch([_prefix_code(item, flexible)])[0])
            _null(frame, counts, nullable)
            counts = _plausible(frame, counts, element)
            if isinstance(element, str):
                frame.advance(counts * np.dtype(element).itemsize)
            else:
                _walk(frame, counts, element, flexible, np.empty(int(counts.sum()), dtype=np.int64))
        case StructPlan(plan, nullable, in_tag):
            if not nullable:
                _skip_message(frame, plan)
                return
            mark = frame.fetch([_prefix_code(item, flexible)])[0]
            present = frame.finish_varint(mark) > 0 if in_tag else mark >= 0
            places = np.flatnonzero(present)
            inner = frame.select(places)
            _skip_message(inner, plan)
            frame.own_positions()[places] = inner.positions()


def _skip_message(frame: Frame, plan: Plan) -> None:
    for step in plan.steps:
        width = sum(np.dtype(code).itemsize for _, code in step.fixed)
        if width:
            frame.advance(width)
        if step.tail is not None:
            _skip(frame, step.tail, plan.flexible)
    if plan.tags is not None:
        counts = frame.varint()
        if frame.count and bounds(counts)[1] > 0:
            _hop_tags(frame, counts, None)


def _skip_one(data: Any, position: int, item: Item, flexible: bool) -> int:
    """Where one item ends that starts at `position`. Raises `IndexError`, `ValueError` or `Inexact` where it leaves the buffer or is impossible."""
    match item:
        case str():
            return position + np.dtype(item).itemsize
        case Sized() | ListPlan():
            if flexible:
                n, position = _one_varint(data, position)
                n -= 1
            else:
                width = 2 if isinstance(item, Sized) and item.text else 4
                n, position = int.from_bytes(data[position : position + width], "big", signed=True), position + width
            if n > len(data) - position:
                raise ValueError(n)
            if isinstance(item, Sized):
                return position + max(n, 0)
            if isinstance(item.element, str):
                return position + max(n, 0) * np.dtype(item.element).itemsize
            for _ in range(n):
                position = _skip_one(data, position, item.element, flexible)
            return position
        case StructPlan(plan, nullable, in_tag):
            if nullable:
                mark = data[position]
                position += 1
                if (mark == 0) if in_tag else (mark > 127):
                    return position
            for step in plan.steps:
                position += sum(np.dtype(code).itemsize for _, code in step.fixed)
                if step.tail is not None:
                    position = _skip_one(data, position, step.tail, plan.flexible)
            if plan.tags is not None:
                n, position = _one_varint(data, position)
                for _ in range(n):
                    _, position = _one_varint(data, position)
                    size, position = _one_varint(data, position)
                    if not 0 <= size <= len(data) - position:
                        raise ValueError(size)
                    position += size
            return position
    raise TypeError(item)


def _one_varint(data: Any, position: int) -> tuple[int, int]:
    first = data[position]
    return (first, position + 1) if first < 0x80 else uvarint_rest(data, position + 1, first)


# ---- tagged fields


def _read_tags(frame: Frame, tags: TagPlan, plan: Plan, fields: dict[str, Column]) -> None:
    counts = frame.varint()
    fields |= {field.name: default_column(field.type, field.default, frame.count) for _, field, _ in tags.known}
    if not frame.count or bounds(counts)[1] <= 0 or (bounds(counts) == (1, 1) and _read_common_tag(frame, tags, plan, fields)):
        return
    found = {tag: (np.full(frame.count, -1, dtype=np.int64), np.zeros(frame.count, dtype=np.int64)) for tag, _, _ in tags.known}
    _hop_tags(frame, counts, found)
    for tag, field, item in tags.known:
        starts, sizes = found[tag]
        places = np.flatnonzero(starts >= 0)
        if not len(places):
            continue
        inner = Frame(frame.buffer, starts[places], places if frame.owner is None else frame.owner[places])
        column = _read_item(inner, item, plan.flexible)
        _check_size(inner, inner.positions() - starts[places], sizes[places])
        if len(places) == frame.count:
            fields[field.name] = column
        else:
            fields[field.name] = _with_default(expand(column, places, frame.count), field, starts >= 0)


def _read_common_tag(frame: Frame, tags: TagPlan, plan: Plan, fields: dict[str, Column]) -> bool:
    """The most frequent case: every message has one tagged field, the same one. Returns whether it was read."""
    ahead = frame.fork()
    found = ahead.varint()
    sizes = ahead.varint()
    first, last = bounds(found)
    known = [(field, item) for tag, field, item in tags.known if tag == first]
    if not known or first != last:
        return False
    field, item = known[0]
    start = ahead.fork()
    fields[field.name] = _read_item(ahead, item, plan.flexible)
    _check_size(ahead, ahead.moved_since(start), sizes)
    frame.at, frame.first, frame.step = ahead.at, ahead.first, ahead.step
    return True


def _check_size(frame: Frame, read: int | Ints, sizes: Ints) -> None:
    """Kafka ignores the size of a tagged field that it knows. Where it is wrong, only a closer look can follow Kafka."""
    if isinstance(read, int) and bounds(sizes) == (read, read):
        return
    wrong = sizes != read
    if bool(wrong.any()):
        frame.doubt(wrong)


def _hop_tags(frame: Frame, counts: Ints, found: dict[int, tuple[Ints, Ints]] | None) -> None:
    """Go from tagged field to tagged field; note where the known ones are (`found`), count the others unless only skipping."""
    number = 0
    places = np.flatnonzero(counts > 0)
    while len(places):
        everywhere = len(places) == frame.count
        step = frame if everywhere else frame.select(places)
        tags = step.varint()
        sizes = step.varint()
        if bool((sizes < 0).any()) or int(sizes.max()) > frame.buffer.size:
            step.doubt((sizes < 0) | (sizes > frame.buffer.size))
            sizes = np.where((sizes < 0) | (sizes > frame.buffer.size), 0, sizes)
        if found is not None:
            known = np.zeros(len(places), dtype=np.bool_)
            for tag, (starts, lengths) in found.items():
                here = tags == tag
                if bool(here.any()):
                    starts[places[here]] = step.positions()[here]
                    lengths[places[here]] = sizes[here]
                    known |= here
            if not bool(known.all()):
                np.add.at(frame.buffer.unknown_tags, step.owners()[~known], 1)
        step.advance(sizes)
        if not everywhere:
            frame.own_positions()[places] = step.positions()
        number += 1
        places = places[counts[places] > number]
        if len(places) and number > MANY_TAGS:
            frame.doubt(counts > number)  # let the exact reader judge
            return


# ---- defaults and gaps


def default_column(wire: WireType, default: Any, count: int) -> Column:
    """A field with its default in every place."""
    absent = np.zeros(count, dtype=np.bool_) if default is None else None
    nothing = np.zeros(count, dtype=np.int64)
    match wire:
        case FixedType(code=code, size=size):
            kind = "u" if code.isupper() else "i"
            return Fixed(np.full(count, 0 if default is None else default, dtype=f"{kind}{size}"), absent)
        case UuidType():
            return Fixed(np.zeros(count, dtype="V16"), absent)
        case StringType() | BytesType():
            return Slices(nothing, nothing, absent)
        case ArrayType(element):
            return Lists(nothing, default_column(element, None, 0), absent)
        case StructType(spec):
            inner = {f.name: default_column(f.type, f.default if default is None else getattr(default, f.name), count) for f in spec.fields}
            return Structs(count, inner, absent)


def expand(column: Column, places: Ints, count: int) -> Column:
    """The column with its values at `places` of `count`, and null elsewhere."""
    valid = np.zeros(count, dtype=np.bool_)
    valid[places] = True if column.valid is None else column.valid
    match column:
        case Fixed(values):
            wide = np.zeros(count, dtype=values.dtype)
            wide[places] = values
            return Fixed(wide, valid)
        case Slices(start=start, length=length):
            starts = np.zeros(count, dtype=np.int64)
            lengths = np.zeros(count, dtype=np.int64)
            starts[places] = start
            lengths[places] = length
            return Slices(starts, lengths, valid)
        case Lists(counts, child):
            wide_counts = np.zeros(count, dtype=np.int64)
            wide_counts[places] = counts
            return Lists(wide_counts, child, valid)
        case Structs(_, fields):
            return Structs(count, {name: expand(inner, places, count) for name, inner in fields.items()}, valid)


def _with_default(column: Column, field: FieldSpec, present: Bools) -> Column:
    """Put the field's default where it is not present (so far: null)."""
    if field.default is None:
        return column
    valid = column.valid
    assert valid is not None
    valid |= ~present
    match column:
        case Fixed(values) if isinstance(field.type, FixedType):
            values[~present] = field.default
        case Structs(_, fields) if isinstance(field.type, StructType):
            for f in field.type.spec.fields:
                inner = FieldSpec(f.name, f.json_name, f.type, f.nullable, f.versions, f.tag, getattr(field.default, f.name), f.ignorable, f.release)
                fields[f.name] = _with_default(fields[f.name], inner, present)
    # Text, bytes, uuids and lists: what stands there, nothing, is the default of all that Kafka declares.
    if bool(valid.all()):
        column.valid = None
    return column
