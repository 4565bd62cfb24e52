"""Finds out what is wrong with bytes or values that the fast path refused, and reads what Kafka would still read.

It works through the construct layout, which is imported only then: undamaged logs never come here.
"""

from io import BytesIO
from typing import NoReturn

from quorate.codecs.errors import DecodeError, EncodeError
from quorate.codecs.message import Message, MessageSpec

__all__ = ["decode_exactly", "explain_encode"]


def decode_exactly(spec: MessageSpec, version: int, data: bytes, position: int, where: str) -> tuple[Message, int]:
    """The message that starts at `position`, and where it ends. Bytes that follow are not looked at, as in Kafka. Raises `DecodeError`."""
    from quorate.codecs.layout import LayoutError, layout

    stream = BytesIO(data)
    stream.seek(position)
    try:
        message: Message = layout(spec.cls, version).parse_stream(stream)
    except LayoutError as error:
        raise DecodeError(
            error.reason, where=where, position=error.position, field=error.field, detail=error.detail
        ) from None
    return message, stream.tell()


def explain_encode(message: Message, version: int, cause: Exception) -> NoReturn:
    """Raise the `EncodeError` that names the field for which `message` cannot be written in `version`."""
    from quorate.codecs.layout import LayoutError, layout

    name = message.spec.name
    try:
        layout(type(message), version).build(message)
    except LayoutError as error:
        raise EncodeError(f"{name} version {version}: {error}") from None
    except (TypeError, AttributeError, ValueError) as error:
        raise EncodeError(f"{name} version {version}: {error}") from None
    raise EncodeError(f"{name} version {version}: {cause}") from cause
