"""Skip fields without reading them, to find the elements of nested lists or pass tagged fields.

Nested lists are walked element by element, for all messages at once: the first elements of all
lists, then the second ones, and so on. The last few long lists are walked one by one. Reading and
discarding the elements instead takes 25 to 52 % longer for target and current assignments
(2026-11).
"""

from typing import Any

import numpy as np

from quorate.codecs.columnar.frame import Bools, Frame, Ints, bounds
from quorate.codecs.columnar.plan import Item, ListPlan, ReadPlan, Sized, StructPlan
from quorate.codecs.generate import Inexact, read_uvarint

FEW = 12
"""With this many lists left or fewer, walking them one by one in Python is faster than numpy."""


MANY_TAGS = 64
"""More tagged fields than any message has."""


def prefix_code(tail: Item | None, flexible: bool) -> str:
    """Return the code of the fixed part of a variable field, which is fetched with its run."""
    match tail:
        case Sized(text=True):
            return "u1" if flexible else ">i2"
        case Sized() | ListPlan():
            return "u1" if flexible else ">i4"
        case StructPlan(nullable=True, in_tag=in_tag):
            return "u1" if in_tag else "i1"
    return ""


def nulls(frame: Frame, lengths: Ints, nullable: bool) -> Bools | None:
    """Return which values are not null, `None` if all are.

    A null in a field that is not nullable is doubtful, and so is a length below -1.
    """
    if not frame.count or bounds(lengths)[0] >= 0:
        return None
    valid = lengths >= 0
    if not nullable:
        frame.doubt(~valid)
        return None
    frame.doubt(lengths < -1)
    return valid


def clamped(frame: Frame, lengths: Ints, limit: int) -> Ints:
    """Return the lengths limited to 0 to `limit`; greater ones are doubtful."""
    if not frame.count:
        return lengths
    low, high = bounds(lengths)
    if high > limit:
        frame.doubt(lengths > limit)
    return np.clip(lengths, 0, limit) if low < 0 or high > limit else lengths


def plausible(frame: Frame, counts: Ints, element: Item) -> Ints:
    """Return the counts of elements that fit into the message; others are doubtful, and become 0.

    As in Kafka, damage then allocates no memory.
    """
    if not frame.count or bounds(counts) == (0, 0):
        return counts
    width = np.dtype(element).itemsize if isinstance(element, str) else 1
    impossible = counts * width > frame.bytes_left()
    if bool(impossible.any()):
        frame.doubt(impossible)
        counts = np.where(impossible, 0, counts)
    return np.maximum(counts, 0) if bounds(counts)[0] < 0 else counts


def walk(frame: Frame, counts: Ints, element: Item, flexible: bool, starts: Ints) -> None:
    """Find the start of every element, and advance the frame past its lists."""
    at = frame.positions().copy()
    first = np.cumsum(counts) - counts
    places = np.flatnonzero(counts > 0)
    ends, owners = frame.ends(), frame.owners()
    starts[:] = 0  # read for damaged messages, and not used
    number = 0
    while len(places) > FEW:
        starts[first[places] + number] = at[places]
        step = Frame(frame.buffer, at[places], owners[places])
        _skip(step, element, flexible)
        at[places] = step.positions()
        number += 1
        places = places[counts[places] > number]
        # An element takes at least a byte, so a message without bytes left has no further ones.
        # Without this check, bytes after a damaged message would be followed.
        spent = (at[places] >= ends[places]) | frame.buffer.doubtful[owners[places]]
        if bool(spent.any()):
            frame.buffer.doubtful[owners[places[spent]]] = True
            places = places[~spent]
    data = frame.buffer.data.data
    for place in places.tolist():
        position, base, end = int(at[place]), int(first[place]), int(ends[place])
        try:
            for index in range(number, int(counts[place])):
                starts[base + index] = position
                position = _skip_one(data, position, end, element, flexible)
        except (IndexError, ValueError, Inexact):
            frame.buffer.doubtful[owners[place]] = True
        at[place] = position
    frame.at = at


def _skip(frame: Frame, item: Item, flexible: bool) -> None:
    """Advance the frame past one item at each position."""
    match item:
        case str():
            frame.advance(np.dtype(item).itemsize)
        case Sized(text, nullable):
            lengths = frame.length(flexible, frame.fetch([prefix_code(item, flexible)])[0])
            nulls(frame, lengths, nullable)
            frame.advance(clamped(frame, lengths, 0x7FFF if text else 0x7FFFFFFF))
        case ListPlan(element, nullable):
            counts = frame.length(flexible, frame.fetch([prefix_code(item, flexible)])[0])
            nulls(frame, counts, nullable)
            counts = plausible(frame, counts, element)
            if isinstance(element, str):
                frame.advance(counts * np.dtype(element).itemsize)
            else:
                walk(frame, counts, element, flexible, np.empty(int(counts.sum()), dtype=np.int64))
        case StructPlan(plan, nullable, in_tag):
            if not nullable:
                _skip_message(frame, plan)
                return
            mark = frame.fetch([prefix_code(item, flexible)])[0]
            present = frame.finish_varint(mark) > 0 if in_tag else mark >= 0
            places = np.flatnonzero(present)
            inner = frame.select(places)
            _skip_message(inner, plan)
            frame.own_positions()[places] = inner.positions()


def _skip_message(frame: Frame, plan: ReadPlan) -> None:
    for step in plan.steps:
        width = sum(np.dtype(code).itemsize for _, code in step.fixed)
        if width:
            frame.advance(width)
        if step.tail is not None:
            _skip(frame, step.tail, plan.flexible)
    if plan.tags is not None:
        counts = frame.varint()
        if frame.count and bounds(counts)[1] > 0:
            skip_tags(frame, counts, None)


def _skip_one(data: Any, position: int, end: int, item: Item, flexible: bool) -> int:
    """Return the end of an item that starts at `position`, in a message that ends at `end`.

    Raises `IndexError`, `ValueError` or `Inexact` for damaged bytes.
    """
    match item:
        case str():
            return position + np.dtype(item).itemsize
        case Sized() | ListPlan():
            if flexible:
                n, position = read_uvarint(data, position)
                n -= 1
            else:
                width = 2 if isinstance(item, Sized) and item.text else 4
                n, position = int.from_bytes(data[position : position + width], "big", signed=True), position + width
            if n > end - position:
                raise ValueError(n)
            if isinstance(item, Sized):
                return position + max(n, 0)
            if isinstance(item.element, str):
                return position + max(n, 0) * np.dtype(item.element).itemsize
            for _ in range(n):
                position = _skip_one(data, position, end, item.element, flexible)
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
                    position = _skip_one(data, position, end, step.tail, plan.flexible)
            if plan.tags is not None:
                n, position = read_uvarint(data, position)
                if n > end - position:
                    raise ValueError(n)
                for _ in range(n):
                    _, position = read_uvarint(data, position)
                    size, position = read_uvarint(data, position)
                    if not 0 <= size <= end - position:
                        raise ValueError(size)
                    position += size
            return position
    raise TypeError(item)


def skip_tags(frame: Frame, counts: Ints, found: dict[int, tuple[Ints, Ints]] | None) -> None:
    """Pass the tagged fields; note the positions of known ones (`found`) and count the others.

    When only skipping, they are not counted.
    """
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
                    # Kafka reads each duplicate by its type and ignores its size. Only the size of
                    # the last one is compared.
                    again = here & (starts[places] >= 0)
                    if bool(again.any()):
                        step.doubt(again)
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
            frame.doubt(counts > number)  # left to the exact decoder
            return
