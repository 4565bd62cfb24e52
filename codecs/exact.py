"""Decode and encode what the fast path rejects, and name the field that is wrong.

Uses the construct layout, which is imported only then: undamaged logs never need it.
"""

from io import BytesIO

from quorate.codecs.errors import DecodeError, EncodeError
from quorate.codecs.message import Message, MessageSpec


def decode_exactly(
    spec: MessageSpec, version: int, data: bytes, position: int, where: str, *, as_kafka_reads: bool = False
) -> tuple[Message, int]:
    """Decode the message at `position`; return it and the position after it.

    Trailing bytes are ignored, as in Kafka. Raises `DecodeError`. With `as_kafka_reads` it raises
    only where Kafka's generated classes throw: they ignore wrong sizes of known tagged fields, and
    read every negative length as null.
    """
    from quorate.codecs.layout import LayoutError, layout

    stream = BytesIO(data)
    stream.seek(position)
    try:
        message: Message = layout(spec.cls, version).parse_stream(stream, as_kafka_reads=as_kafka_reads)
    except LayoutError as error:
        raise DecodeError(
            error.reason, where=where, position=error.position, field=error.field, detail=error.detail
        ) from None
    return message, stream.tell()


def encode_exactly(message: Message, version: int) -> bytes:
    """Encode `message` in `version`, also if its text is not UTF-8.

    Raises `EncodeError` with the name of the field that cannot be written.
    """
    from quorate.codecs.layout import ConstructError, layout

    try:
        data: bytes = layout(type(message), version).build(message)
    except (ConstructError, TypeError, AttributeError, ValueError) as error:
        raise EncodeError(f"{message.spec.name} version {version}: {error}") from None
    return data
