"""Finds out what is wrong with bytes or values that the fast path refused, and reads what Kafka would still read.

It works through the construct layout, which is imported only then: undamaged logs never come here.
"""

from io import BytesIO

from quorate.codecs.errors import DecodeError, EncodeError
from quorate.codecs.message import Message, MessageSpec

__all__ = ["decode_exactly", "encode_exactly"]


def decode_exactly(
    spec: MessageSpec, version: int, data: bytes, position: int, where: str, *, as_kafka_reads: bool = False
) -> tuple[Message, int]:
    """The message that starts at `position`, and where it ends.

    Bytes that follow are ignored, as in Kafka.

    Raises `DecodeError`, with `as_kafka_reads` only where Kafka's generated classes throw: they
    ignore wrong sizes of tagged fields that they know, and take every negative length for null.
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
    """The bytes of `message` in `version`, also where its text is not UTF-8.

    Raises `EncodeError` naming the field that cannot be written.
    """
    from quorate.codecs.layout import ConstructError, layout

    try:
        data: bytes = layout(type(message), version).build(message)
    except (ConstructError, TypeError, AttributeError, ValueError) as error:
        raise EncodeError(f"{message.spec.name} version {version}: {error}") from None
    return data
