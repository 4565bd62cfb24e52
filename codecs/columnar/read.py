"""Read frames to columns: follow a plan and collect the positions of the values of every field.

Text and bytes stay positions and lengths until Arrow copies them at the end.
"""

import numpy as np

from quorate.codecs.columnar.column import Column, Fixed, Lists, Slices, Structs, default_column, expand, with_default
from quorate.codecs.columnar.frame import Array, Bools, Frame, Ints, bounds
from quorate.codecs.columnar.plan import Item, ListPlan, ReadPlan, Sized, StructPlan, TagPlan
from quorate.codecs.columnar.walk import clamped, nulls, plausible, prefix_code, skip_tags, walk


def read_message(frame: Frame, plan: ReadPlan) -> Structs:
    """Read the columns of the messages at the frame's positions, and advance past them."""
    fields: dict[str, Column] = {}
    for step in plan.steps:
        codes = [code for _, code in step.fixed]
        tail = step.tail
        prefix = prefix_code(tail, plan.flexible)
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


def _read_item(frame: Frame, item: Item, flexible: bool) -> Column:
    """Read a single item without a run before it."""
    if isinstance(item, str):
        return Fixed(frame.fetch([item])[0])
    prefix = prefix_code(item, flexible)
    return _read_tail(frame, item, flexible, frame.fetch([prefix])[0] if prefix else None)


def _read_tail(frame: Frame, tail: Item, flexible: bool, low: Array | None) -> Column:
    match tail:
        case Sized(text, nullable):
            assert low is not None
            lengths = frame.length(flexible, low)
            valid = nulls(frame, lengths, nullable)
            lengths = clamped(frame, lengths, 0x7FFF if text else 0x7FFFFFFF)
            if frame.at is None:
                start = frame.first + frame.step * np.arange(frame.count, dtype=np.int64)
            else:
                start = frame.at.copy()  # the frame advances its own array
            first, step = frame.first, frame.step
            even = frame.at is None
            frame.advance(lengths)
            return Slices(start, lengths, valid, (first, step) if even and frame.at is None else None)
        case ListPlan(element, nullable):
            assert low is not None
            counts = frame.length(flexible, low)
            valid = nulls(frame, counts, nullable)
            counts = plausible(frame, counts, element)
            return Lists(counts, _read_elements(frame, counts, element, flexible), valid)
        case StructPlan(plan, nullable, in_tag):
            if not nullable:
                return read_message(frame, plan)
            assert low is not None
            mark = frame.finish_varint(low) if in_tag else low
            frame.doubt((mark != 1) & (mark != (0 if in_tag else -1)))
            present = mark > 0 if in_tag else mark >= 0
            if bool(present.all()):
                return read_message(frame, plan)
            return _read_present(frame, plan, present)
    raise TypeError(tail)


def _read_present(frame: Frame, plan: ReadPlan, present: Bools) -> Structs:
    """Read a struct that is null at some positions."""
    places = np.flatnonzero(present)
    if not len(places):
        nothing = {f.name: default_column(f.type, f.default, frame.count) for f in plan.spec.fields}
        return Structs(frame.count, nothing, present)
    inner = frame.select(places)
    columns = read_message(inner, plan)
    frame.own_positions()[places] = inner.positions()
    return Structs(
        frame.count, {name: expand(column, places, frame.count) for name, column in columns.fields.items()}, present
    )


# ---- lists


def _read_elements(frame: Frame, counts: Ints, element: Item, flexible: bool) -> Column:
    """Read the elements of lists whose counts were fetched."""
    total = int(counts.sum())
    if isinstance(element, str):
        width = np.dtype(element).itemsize
        starts = _element_starts(frame.positions(), counts, width, total)
        children = Frame(frame.buffer, starts, np.repeat(frame.owners(), counts))
        values = children.fetch([element])[0]
        frame.advance(counts * width)
        return Fixed(values)
    starts = np.empty(total, dtype=np.int64)
    walk(frame, counts, element, flexible, starts)
    children = Frame(frame.buffer, starts, np.repeat(frame.owners(), counts))
    return _read_item(children, element, flexible)


def _element_starts(at: Ints, counts: Ints, width: int, total: int) -> Ints:
    """Return the start of each element of lists with elements of fixed width."""
    first = np.cumsum(counts) - counts
    return np.repeat(at - first * width, counts) + np.arange(total, dtype=np.int64) * width


# ---- tagged fields


def _read_tags(frame: Frame, tags: TagPlan, plan: ReadPlan, fields: dict[str, Column]) -> None:
    counts = frame.varint()
    fields |= {field.name: default_column(field.type, field.default, frame.count) for _, field, _ in tags.known}
    if frame.count and bounds(counts)[0] < 0:
        frame.doubt(counts < 0)
    if (
        not frame.count
        or bounds(counts)[1] <= 0
        or (bounds(counts) == (1, 1) and _read_common_tag(frame, tags, plan, fields))
    ):
        return
    found = {
        tag: (np.full(frame.count, -1, dtype=np.int64), np.zeros(frame.count, dtype=np.int64))
        for tag, _, _ in tags.known
    }
    skip_tags(frame, counts, found)
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
            fields[field.name] = with_default(expand(column, places, frame.count), field, starts >= 0)


def _read_common_tag(frame: Frame, tags: TagPlan, plan: ReadPlan, fields: dict[str, Column]) -> bool:
    """Read the tagged section if every message has one tagged field, the same one.

    This is the most frequent case. Returns whether it was read.
    """
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
    """Mark messages with a wrong size of a known tagged field as doubtful.

    Kafka ignores the size, which only the decoder for single records can do.
    """
    if isinstance(read, int) and bounds(sizes) == (read, read):
        return
    wrong = sizes != read
    if bool(wrong.any()):
        frame.doubt(wrong)
