"""Error responses from the declarations: an error at the top level, or in each innermost element.

Responses are built from the request by field names. `error_codes_in` finds the errors of any.
"""

from functools import cache
from operator import itemgetter
from typing import Any

from quorate.codecs.api.error_codes import ERROR_FIELDS, ErrorCode
from quorate.codecs.api.lookup import api_of
from quorate.codecs.message import FieldSpec, Message, MessageSpec
from quorate.codecs.wire import ArrayType, StructType

_MESSAGE = "error_message"
_SYNONYMS = (
    frozenset({"name", "topic", "topic_name"}),
    frozenset({"partition_index", "partition", "index", "partition_id"}),
)
"""Names of fields with the same meaning in requests and responses."""
_MINUS_ONE = frozenset({"base_offset", "committed_offset", "high_watermark", "low_watermark", "node_id", "port"})
"""Fields that are -1 after an error, although that is not the default."""
_WITH_TEXT = frozenset(
    {
        "AlterClientQuotas",
        "AlterShareGroupOffsets",
        "DeleteShareGroupOffsets",
        "DeleteShareGroupState",
        "DescribeConfigs",
        "DescribeProducers",
        "DescribeQuorum",
        "FindCoordinator",
        "InitializeShareGroupState",
        "ReadShareGroupState",
        "ReadShareGroupStateSummary",
        "UnregisterBroker",
        "UnregisterController",
        "WriteShareGroupState",
    }
)
"""APIs whose responses have at least the text of the error code. Others leave out such a generic
message, as Kafka does (`ApiError.fromThrowable`).
"""
_UNRELATED = frozenset(
    {"allow_replication_factor_change", "leader_epoch", "producer_epoch", "producer_id", "timestamp"}
)
"""Fields of the same name that have different meanings in a request and its response."""


def error_response(request: Message, version: int, code: int, *, message: str = "", with_parts: bool = False) -> Any:
    """Return the response to a request, in a version, with an error and nothing else.

    If the request names nothing, the response is empty. `with_parts`: the response has elements
    also with an error at the top level. `message`: see `error_message`.
    """
    spec, text = api_of(type(request)).response, error_message(type(request), code, message)
    return error_element(request, spec, version, code, message=text, with_parts=with_parts)


def error_message(request: type[Message], code: int, message: str = "") -> str | None:
    """Return the message of the response to a request that failed: `message`, or what Kafka sends.

    That is the text of the error code in some responses, and nothing in others.
    """
    return message or (ErrorCode(code).text if api_of(request).name in _WITH_TEXT else None)


def error_codes_in(response: Message) -> list[int]:
    """Return all error codes in a response, at any level, except 0."""
    own, inner = _error_fields(response.spec)
    found = [code for code in (getattr(response, name) for name in own) if code]
    for name in inner:
        value: Any = getattr(response, name)
        for part in value or ():
            found += error_codes_in(part)
    return found


@cache
def _error_fields(spec: MessageSpec) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the names of error code fields, and of arrays whose elements have such fields."""
    structs = [(field.name, _struct_in(field)) for field in spec.fields]
    return (
        tuple(field.name for field in spec.fields if field.name in ERROR_FIELDS),
        tuple(name for name, struct in structs if struct is not None and any(_error_fields(struct))),
    )


@cache
def has_error(spec: MessageSpec, version: int) -> bool:
    """Return whether a response, or an element of one, has an error of its own in a version."""
    return any(one.name in ERROR_FIELDS for one in _carried(spec, version))


def with_error(response: Any, version: int, code: int) -> Any:
    """Return a response with an error in it: at the top level, else in each innermost element."""
    spec: MessageSpec = response.spec
    carried = _carried(spec, version)
    values: dict[str, Any] = {field.name: getattr(response, field.name) for field in spec.fields}
    own = [one.name for one in carried if one.name in ERROR_FIELDS]
    for name in own:
        values[name] = int(code)
    if not own:
        for one in carried:
            if _struct_in(one) is not None and values[one.name]:
                values[one.name] = tuple(with_error(part, version, code) for part in values[one.name])
    return spec.cls(**values)


def error_element(
    request: Any, spec: MessageSpec, version: int, code: int, *, message: str | None = None, with_parts: bool = False
) -> Any:
    """Return an element of a response with an error, for an element of the request."""
    values: dict[str, Any] = {}
    on_top = has_error(spec, version)
    for one in _carried(spec, version):
        element = _struct_in(one)
        if one.name in ERROR_FIELDS:
            values[one.name] = int(code)
        elif element is not None:
            if (with_parts or not on_top) and (parts := _elements_for(request, element, version)) is not None:
                values[one.name] = tuple(
                    error_element(part, element, version, code, message=message, with_parts=with_parts)
                    for part in parts
                )
        elif one.name == _MESSAGE:
            values[one.name] = message
        elif one.nullable and version >= one.nullable_since and getattr(request, one.name, "") is None:
            values[one.name] = None
        elif one.name not in _UNRELATED and (found := _value_of(request, one.name)) is not None:
            values[one.name] = found
        elif one.name in _MINUS_ONE:
            values[one.name] = -1
    return spec.cls(**values)


@cache
def _carried(spec: MessageSpec, version: int) -> tuple[FieldSpec, ...]:
    return tuple(field for field in spec.fields if version in field.versions)


def _struct_in(spec: FieldSpec) -> MessageSpec | None:
    inner = spec.type.element if isinstance(spec.type, ArrayType) else None
    return inner.spec if isinstance(inner, StructType) else None


def _value_of(request: Any, name: str) -> Any:
    """Return an element's value for the field that the response calls `name`."""
    if isinstance(request, dict):
        return request.get(name)
    for same in (name, *next((names for names in _SYNONYMS if name in names), ())):
        value = getattr(request, same, None)
        if value is not None and not isinstance(value, tuple | Message):
            return value
    return None


def _elements_for(request: Any, element: MessageSpec, version: int) -> list[Any] | None:
    """Return the request's elements for those of a response."""
    for name, key in () if isinstance(request, dict) else _sources(request.spec, element, version):
        value = getattr(request, name)
        if value is not None:
            return list(value) if key is None else [{key: each} for each in value]
    return None


@cache
def _sources(spec: MessageSpec, element: MessageSpec, version: int) -> tuple[tuple[str, str | None], ...]:
    """Return arrays of a request whose elements share field names with an element, the best first.

    An array of numbers or names has the first field of the response's elements, which is returned.
    """
    unwanted = {*ERROR_FIELDS, _MESSAGE}
    wanted = [field.name for field in _carried(element, version) if field.name not in unwanted]
    names = {same for name in wanted for group in _SYNONYMS if name in group for same in group}.union(wanted)
    found: list[tuple[int, str, str | None]] = []
    for field in _carried(spec, version):
        inner = _struct_in(field)
        if inner is not None:
            found.append((len(names & {f.name for f in inner.fields}), field.name, None))
        elif isinstance(field.type, ArrayType):
            found.append((1, field.name, wanted[0]))
    found.sort(key=itemgetter(0), reverse=True)
    return tuple((name, key) for score, name, key in found if score)
