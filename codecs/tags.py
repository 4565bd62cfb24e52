"""Tagged fields of a plug-in inside Kafka's messages (KIP-482).

A plug-in declares its fields in a message of their own:

    @message(versions=range(1), flexible_since=0)
    class Note(Message):
        note: String = tagged(OWN_TAG, default="")

In Kafka's message they are unknown tags, which readers without the plug-in skip.
"""

from functools import lru_cache
from operator import attrgetter
from typing import TypeAlias, TypeVar, cast

from quorate.codecs.errors import DecodeError
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.fast_encode import encode_message
from quorate.codecs.message import Message, message
from quorate.codecs.wire import TaggedField

__all__ = ["OWN_TAG", "Tags", "read_tags", "with_tags", "written_tags"]

M = TypeVar("M", bound=Message)

Tags: TypeAlias = tuple[TaggedField, ...]
"""Tagged fields as bytes: the `unknown_tags` of a message."""

OWN_TAG = 20_848
"""The first tag for plug-ins, far from Kafka's tags, which start at 0 in each message."""


@message(versions=range(1), flexible_since=0)
class _Section(Message):
    """A section of tagged fields."""


def written_tags(fields: Message) -> Tags:
    """Encode the tagged fields of a plug-in, without those that have their default."""
    return message_decoder(_Section.spec, 0)(encode_message(fields, 0), 0).unknown_tags


def with_tags(tags: Tags, fields: Message) -> Tags:
    """Return the tags with those of a plug-in's declaration added or replaced."""
    own = {field.tag for field in fields.spec.fields}
    others = (tag for tag in tags if tag.tag not in own)
    return tuple(sorted((*others, *written_tags(fields)), key=attrgetter("tag")))


@lru_cache(maxsize=4096)
def read_tags(fields: type[M], tags: Tags, *, strict: bool = True) -> M:
    """Decode the tags that a plug-in declared in `fields`; a missing tag gives the default.

    Raises `DecodeError` for bytes that do not match. Without `strict`, all fields then have their
    defaults.
    """
    own = {field.tag for field in fields.spec.fields}
    section = _Section(unknown_tags=tuple(tag for tag in tags if tag.tag in own))
    if not section.unknown_tags:
        return fields()
    try:
        found, _ = decode_exactly(fields.spec, 0, encode_message(section, 0), 0, fields.spec.name)
    except DecodeError:
        if strict:
            raise
        return fields()
    return cast(M, found)
