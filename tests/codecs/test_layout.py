"""The construct layout: the same bytes as the generated code, and use inside other layouts."""

from typing import Any

import construct
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import RECORD_TYPES, CoordinatorRecord, decode_record, encode_record
from quorate.codecs.exact import decode_exactly
from quorate.codecs.layout import layout, record_key_layout, record_value_layout
from quorate.codecs.messages import GroupMetadataKey, MemberMetadata, OffsetCommitValue
from tests.codecs.helpers.strategies import RECORD_VERSIONS, damaged, records_of, version_id
from tests.extent import portion


@pytest.mark.parametrize(("record_type", "version"), RECORD_VERSIONS, ids=version_id)
@given(data=st.data())
@settings(max_examples=portion(15))
def test_layout_equals_the_generated_code(record_type: Any, version: int, data: st.DataObject) -> None:
    record = data.draw(records_of(record_type, version))
    key, value = encode_record(record)
    assert record_key_layout(record_type.topic).build(record.key) == key
    assert record_value_layout(record_type.value.cls, write_version=version).build(record.value) == value
    assert record_key_layout(record_type.topic).parse(key) == record.key
    assert record_value_layout(record_type.value.cls).parse(value) == record.value


@given(data=st.data(), case=st.sampled_from(RECORD_VERSIONS))
@settings(max_examples=portion(300))
def test_generated_decoder_rejects_the_same_bytes_as_the_layout(data: st.DataObject, case: Any) -> None:
    """Both decode damaged values to the same result, or both reject them."""
    record_type, version = case
    key, value = encode_record(data.draw(records_of(record_type, version)))
    assert value is not None
    value = value[:2] + data.draw(damaged(value[2:]))
    record = decode_record(key, value, topic=record_type.topic)
    if isinstance(record, CoordinatorRecord):
        message, end = decode_exactly(record_type.value, version, value, 2, "value")
        assert (message, value[end:]) == (record.value, record.value_trailing)
    else:
        with pytest.raises(ValueError, match="at byte"):
            decode_exactly(record_type.value, version, value, 2, "value")


def test_layout_can_be_embedded_in_other_layouts() -> None:
    envelope = construct.Struct(
        "sent_ms" / construct.Int64ub, "commit" / layout(OffsetCommitValue, 3), "end" / construct.Const(b".")
    )
    commit = OffsetCommitValue(offset=9, metadata="m", commit_timestamp=2)
    data = envelope.build({"sent_ms": 5, "commit": commit})
    assert data == (5).to_bytes(8, "big") + bytes.fromhex("0000000000000009ffffffff00016d0000000000000002") + b"."
    assert envelope.parse(data).commit == commit


def test_undeclared_versions_and_types_are_rejected() -> None:
    with pytest.raises(ValueError, match="OffsetCommitValue has no version 5"):
        layout(OffsetCommitValue, 5)
    with pytest.raises(ValueError, match="MemberMetadata has no version 0"):
        layout(MemberMetadata, 0)
    with pytest.raises(ValueError, match="a struct inside messages"):
        record_value_layout(MemberMetadata)
    with pytest.raises(ValueError, match="has no record type 9"):
        record_key_layout().parse(b"\x00\x09")


def test_error_positions_are_those_of_the_whole_stream() -> None:
    envelope = construct.Struct("magic" / construct.Bytes(3), "key" / record_key_layout())
    with pytest.raises(construct.ConstructError, match="truncated in group"):
        envelope.parse(b"abc\x00\x02\x00\x09g")
    assert envelope.parse(b"abc\x00\x02\x00\x01g").key == GroupMetadataKey(group="g")
    assert set(RECORD_TYPES) == {"__consumer_offsets", "__share_group_state", "__transaction_state"}
