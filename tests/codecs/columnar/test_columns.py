"""`decode_columns` and `decode_record` give the same results. Every difference is a bug."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import zip_longest
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quorate.codecs import (
    CONSUMER_OFFSETS,
    RECORD_TYPES,
    CoordinatorRecord,
    Reason,
    TaggedField,
    Uuid,
    as_kafka_reads,
    decode_columns,
    decode_record,
    encode_record,
    extension,
    record_schema,
)
from quorate.codecs.columnar import assemble, columns, flat
from quorate.codecs.columnar import values as values_module
from quorate.codecs.columnar.columns import SAMPLE, decode_slots, distinct_keys
from quorate.codecs.columnar.rows import facts_of
from quorate.codecs.columnar.schema import PROBLEMS
from quorate.codecs.columnar.slots import Slots
from quorate.codecs.columnar.values import CHUNK, CHUNK_BYTES, SMALLEST_CHUNK
from quorate.codecs.generate import uvarint
from quorate.codecs.messages import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
    TopicPartitions,
)
from quorate.codecs.records import Record
from tests.codecs.helpers.captures import PARTITIONS
from tests.codecs.helpers.strategies import RECORD_VERSIONS, damaged, records, records_of, version_id
from tests.extent import portion, sampled

Raw = tuple[bytes | None, bytes | None]


def expected(raw: Sequence[Raw], topic: str) -> dict[str, list[dict[str, Any]]]:
    """Return the records of `decode_record` in the form of Arrow's `to_pylist`."""
    out: dict[str, list[dict[str, Any]]] = {}
    for row, (key, value) in enumerate(raw):
        record = decode_record(key, value, topic=topic)
        readable = as_kafka_reads(record)
        if readable is not None:
            out.setdefault(readable.name, []).append(columns_of(readable, row))
        if record.problem is not None:
            out.setdefault(PROBLEMS, []).append(problem_of(record, row, key, value))
    return out


def columns_of(record: CoordinatorRecord, row: int) -> dict[str, Any]:
    absent = {field.name: None for field in record.type.value.fields}
    return {"row": row, **absent, **facts_of(record)}


def problem_of(record: Record, row: int, key: bytes | None, value: bytes | None) -> dict[str, Any]:
    problem = record.problem
    assert problem is not None
    facts = {
        "reason": problem.reason,
        "where": problem.where,
        "position": problem.position,
        "field": problem.field,
        "detail": problem.detail,
    }
    return {"row": row, "type_id": record.type_id, **facts, "key": key, "value": value}


def decoded(raw: Sequence[Raw], topic: str = CONSUMER_OFFSETS) -> dict[str, list[dict[str, Any]]]:
    """Decode in C and with NumPy, which have equal results.

    In C, all rows are decoded again by NumPy if many are irregular, or these one by one. The latter
    are decoded once for all ways and selections of fields, which takes half of the time otherwise.
    """
    keys, values = (pa.array(column, pa.binary()) for column in zip(*raw, strict=True))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "decode_record", cache(decode_record))
        batches = decode_columns(keys, values, topic=topic)
        for batch in batches.values():
            batch.validate(full=True)
        assert_narrow(batches, Slots.of(keys), Slots.of(values), topic)
        patch.setattr(flat, "IRREGULAR", 1)
        patch.setattr(assemble, "LONG_RUN", (1, 1_000)[len(raw) % 2])
        assert batches == decode_columns(keys, values, topic=topic)
        assert_narrow(batches, Slots.of(keys), Slots.of(values), topic)
        patch.setattr(extension, "_extension", None)
        assert batches == decode_columns(keys, values, topic=topic)
        assert_narrow(batches, Slots.of(keys), Slots.of(values), topic)
    return {name: batch.to_pylist() for name, batch in batches.items()}


def assert_narrow(batches: dict[str, pa.RecordBatch], keys: Slots, values: Slots, topic: str) -> None:
    """Assert that some of the fields are decoded equally, also with one of some expected types."""
    always = ["row", "tombstone", "value_version", "unknown_tags"]
    for turn in (0, 1):
        fields = {kind.name: frozenset(record_schema(kind).names[turn::2]) for kind in RECORD_TYPES[topic].values()}
        narrow = {
            name: batch
            if name == PROBLEMS
            else batch.select([one for one in batch.schema.names if one in always or one in fields[name]])
            for name, batch in batches.items()
        }
        for expected_type in {None, max(fields), *sampled(sorted(batches))} - {PROBLEMS}:
            assert narrow == decode_slots(keys, values, topic=topic, fields=fields, expected=expected_type)


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_captured_logs_have_equal_columns_and_records(partition: Any) -> None:
    import base64

    raw: list[Raw] = [
        (base64.b64decode(line["key"]), None if line["value"] is None else base64.b64decode(line["value"]))
        for line in partition.oracle()
        if line["kind"] == "record" and "control" not in line
    ]
    if raw:  # a partition with transaction markers only has no records
        assert decoded(raw, partition.topic) == expected(raw, partition.topic)


@pytest.mark.parametrize(("record_type", "version"), RECORD_VERSIONS, ids=version_id)
@given(data=st.data())
@settings(max_examples=portion(15))
def test_generated_records_of_each_type_and_version(record_type: Any, version: int, data: st.DataObject) -> None:
    found = data.draw(st.lists(records_of(record_type, version), min_size=1, max_size=6))
    repeats = data.draw(st.sampled_from([1, 20]))  # more lists than are decoded one by one
    raw = [encode_record(record) for record in found] * repeats
    assert decoded(raw, record_type.topic) == expected(raw, record_type.topic)


@given(data=st.data(), topic=st.sampled_from(list(RECORD_TYPES)))
@settings(max_examples=portion(150))
def test_mixes_with_damage(data: st.DataObject, topic: str) -> None:
    raw: list[Raw] = []
    for record in data.draw(st.lists(records(topic), min_size=1, max_size=12)):
        key, value = encode_record(record)
        fault = data.draw(st.sampled_from(["none", "none", "key", "value", "null key"]))
        if fault == "key" and key is not None:
            key = data.draw(damaged(key))
        elif fault == "value" and value is not None:
            value = data.draw(damaged(value))
        elif fault == "null key":
            key = None
        raw += [(key, value)] * data.draw(st.sampled_from([1, 1, 16]))
    order = data.draw(st.permutations(range(len(raw)))) if len(raw) < 30 else range(len(raw))
    shuffled = [raw[i] for i in order]
    assert decoded(shuffled, topic) == expected(shuffled, topic)


@given(
    raw=st.lists(
        st.tuples(st.none() | st.binary(max_size=60), st.none() | st.binary(max_size=200)), min_size=1, max_size=40
    )
)
@settings(max_examples=portion(200))
def test_arbitrary_bytes(raw: list[Raw]) -> None:
    typed: list[Raw] = [
        (None if key is None else bytes([0, i % 26]) + key, value) for i, (key, value) in enumerate(raw)
    ]
    assert decoded([*raw, *typed]) == expected([*raw, *typed], CONSUMER_OFFSETS)


def commit(
    partition: int, *, metadata: str = "", group: str = "g", topic_id: Uuid = Uuid.ZERO, version: int = 4
) -> Raw:
    key = OffsetCommitKey(group=group, topic="t", partition=partition)
    value = OffsetCommitValue(offset=partition, metadata=metadata, commit_timestamp=1, topic_id=topic_id)
    return encode_record(CoordinatorRecord(key=key, value=value, version=version))


def test_more_records_than_one_chunk_keep_their_order() -> None:
    raw = [commit(i % 500, metadata="x" * (i % 3), version=3 + i % 2) for i in range(2 * CHUNK + 17)]
    raw[CHUNK + 5] = (raw[CHUNK + 5][0], b"\x00\x04damaged")
    raw[CHUNK + 6] = (raw[CHUNK + 6][0], None)
    batches = decode_columns(*(pa.array(column, pa.binary()) for column in zip(*raw, strict=True)))
    rows = batches["OffsetCommit"].column("row").to_pylist()
    assert rows == [i for i in range(len(raw)) if i != CHUNK + 5]
    assert batches[PROBLEMS].column("row").to_pylist() == [CHUNK + 5]
    of_chunk = expected(raw[CHUNK : CHUNK + 8], CONSUMER_OFFSETS)["OffsetCommit"][3:]
    assert batches["OffsetCommit"].slice(CHUNK + 3, 4).to_pylist() == [
        one | {"row": CHUNK + one["row"]} for one in of_chunk
    ]


def test_tombstones_keep_their_rows_also_in_chunks_of_tombstones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(values_module, "CHUNK", 4)
    raw = [commit(i % 5, metadata="x" * (i % 3), version=i % 5) for i in range(60)]
    dead = {1, *range(16, 31), *range(41, 60, 3)}
    raw = [(key, None if i in dead else value) for i, (key, value) in enumerate(raw)]
    raw[3], raw[35], raw[36] = (raw[3][0], b"\x00"), (raw[35][0], b"\x00\x63"), (raw[36][0], (raw[36][1] or b"") + b"!")
    found = decoded(raw)
    assert found == expected(raw, CONSUMER_OFFSETS)
    assert {one["row"] for one in found["OffsetCommit"] if one["tombstone"]} == dead
    nothing = [(key, None) for key, _ in raw]
    assert decoded(nothing) == expected(nothing, CONSUMER_OFFSETS)


def test_long_records_are_decoded_in_smaller_chunks_and_keep_their_order() -> None:
    raw = [commit(i % 500, metadata="x" * (1000 + i % 3)) for i in range(SMALLEST_CHUNK + 100)]
    raw[SMALLEST_CHUNK + 5] = (raw[SMALLEST_CHUNK + 5][0], b"\x00\x04damaged")
    assert sum(len(value or b"") for _, value in raw) > CHUNK_BYTES
    assert decoded(raw) == expected(raw, CONSUMER_OFFSETS)


def test_rarely_repeated_keys_are_decoded() -> None:
    raw = [commit(i, group=f"group-{i % 7}") for i in range(SAMPLE + 100)]
    assert decoded(raw) == expected(raw, CONSUMER_OFFSETS)


def test_only_keys_that_repeat_are_numbered() -> None:
    keys = Slots.of(pa.array([b"%d" % number for number in range(SAMPLE + 1)]))
    assert distinct_keys(keys, None) == (keys, None)
    distinct, code = distinct_keys(Slots.of(pa.array([b"a", b"b", None, b"a", None, b""])), None)
    assert code is not None
    assert code.tolist() == [0, 1, 2, 0, 2, 3]
    assert [distinct.bytes_at(place) for place in range(4)] == [b"a", b"b", None, b""]


def test_a_record_with_trailing_bytes_is_decoded_and_reported() -> None:
    key, value = commit(1)
    assert value is not None
    found = decoded([(key, value + b"\x01\x02")])
    assert found["OffsetCommit"][0]["offset"] == 1
    assert [(p["row"], p["reason"], p["detail"]) for p in found[PROBLEMS]] == [(0, Reason.TRAILING, "0102")]


def test_text_that_is_not_utf8_becomes_replacement_characters() -> None:
    key, value = commit(1, metadata="abc")
    assert key is not None
    assert value is not None
    raw: list[Raw] = [(key, value.replace(b"abc", b"\xff\xfec")), (key[:4] + b"\xe9" + key[5:], value)]
    found = decoded(raw)
    assert found["OffsetCommit"][0]["metadata"] == "\ufffd\ufffdc"
    assert found["OffsetCommit"][1]["group"] == "\ufffd"
    assert found == expected(raw, CONSUMER_OFFSETS)


def test_long_lists_among_short_ones() -> None:
    sizes = [1] * 30 + [5000] + [0] * 5 + [300]
    raw = []
    for i, size in enumerate(sizes):
        topics = tuple(
            TopicPartitions(topic_id=Uuid(j.to_bytes(16, "big")), partitions=tuple(range(j % 4))) for j in range(size)
        )
        value = ConsumerGroupCurrentMemberAssignmentValue(
            member_epoch=i,
            previous_member_epoch=0,
            state=0,
            assigned_partitions=topics,
            partitions_pending_revocation=topics[:2],
        )
        key = ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id=str(i))
        raw.append(encode_record(CoordinatorRecord(key=key, value=value, version=0)))
    assert decoded(raw) == expected(raw, CONSUMER_OFFSETS)


def test_count_beyond_the_record_allocates_nothing() -> None:
    key, _ = encode_record(
        CoordinatorRecord(
            key=ConsumerGroupCurrentMemberAssignmentKey(group_id="g", member_id="m"), value=None, version=None
        )
    )
    huge = bytes(2 + 4 + 4 + 1) + b"\xff\xff\xff\xff\x07" + bytes(20)
    raw: list[Raw] = [(key, huge)] * 20
    assert decoded(raw) == expected(raw, CONSUMER_OFFSETS)


def test_damage_is_not_followed_into_other_messages() -> None:
    """A damaged list must not read other messages' bytes as counts, which grew without limit."""
    topology, strange = bytes.fromhex("00170000"), b"\x00\x63"
    damaged_value = bytes.fromhex("000080000000068001" + "78" * 99)
    other = bytes.fromhex("010101c13e0000c13e") + b"\xff\xff\xff\xff\x07" * 4 + bytes(20_000)
    raw: list[Raw] = [(strange, other), *[(topology, damaged_value)] * 20, (strange, other)]
    assert decoded(raw) == expected(raw, CONSUMER_OFFSETS)


@pytest.mark.fuzz
@given(data=st.data(), topic=st.sampled_from(list(RECORD_TYPES)))
@settings(max_examples=3000)
def test_large_mixes_with_damage(data: st.DataObject, topic: str) -> None:
    raw: list[Raw] = []
    for record in data.draw(st.lists(records(topic), min_size=20, max_size=60)):
        key, value = encode_record(record)
        if value is not None and data.draw(st.booleans()):
            value = data.draw(damaged(value))
        raw += [(key, value)] * data.draw(st.sampled_from([1, 1, 5]))
    found, wanted = decoded(raw, topic), expected(raw, topic)
    for name in found | wanted:  # the first difference is more useful than two dumps
        for ours, theirs in zip_longest(found.get(name, []), wanted.get(name, [])):
            assert ours == theirs, f"{name}: {raw[(ours or theirs or {})['row']]}"
    assert found == wanted


def test_chunks_too_large_to_be_joined_are_decoded_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("quorate.codecs.columnar.columns.JOINED_BYTES", 100)
    raw: list[Raw] = [commit(i % 3, metadata="m" * (i % 2)) for i in range(30)]
    raw[7] = (raw[7][0], b"damaged")
    raw[22] = (raw[22][0], (raw[22][1] or b"") + b"behind")
    keys, values = (list(column) for column in zip(*raw, strict=True))
    key_chunks = pa.chunked_array([pa.array(keys[a:b], pa.binary()) for a, b in [(0, 4), (4, 4), (4, 19), (19, 30)]])
    value_chunks = pa.chunked_array([pa.array(values[a:b], pa.binary()) for a, b in [(0, 11), (11, 30)]])
    found = {name: batch.to_pylist() for name, batch in decode_columns(key_chunks, value_chunks).items()}
    assert found == expected(raw, CONSUMER_OFFSETS)


def test_unknown_tagged_fields_are_counted() -> None:
    key = ConsumerGroupMetadataKey(group_id="g")
    tags = (TaggedField(7, b"x"), TaggedField(900, b""))
    plain = ConsumerGroupMetadataValue(epoch=1)
    strange = ConsumerGroupMetadataValue(epoch=2, metadata_hash=5, unknown_tags=tags)
    raw = [encode_record(CoordinatorRecord(key=key, value=value, version=0)) for value in (plain, strange)]
    assert [row["unknown_tags"] for row in decoded(raw)["ConsumerGroupMetadata"]] == [0, 2]


def test_wrong_size_of_a_known_tagged_field_is_read_as_by_kafka() -> None:
    key = b"\x00\x03\x00\x01g"
    value = b"\x00\x00\x00\x00\x00\x05\x01\x00\x03" + bytes(7) + b"\x2a"  # tag 0 has size 3, an int64 follows
    assert decoded([(key, value)]) == expected([(key, value)], CONSUMER_OFFSETS)
    assert decoded([(key, value)])["ConsumerGroupMetadata"][0]["metadata_hash"] == 42


def test_duplicate_tagged_field_is_read_as_by_kafka() -> None:
    key = b"\x00\x03\x00\x01g"
    # Tag 0 has size 9. By that size, tag 0 with 43 follows. Kafka reads an int64, after which there
    # is tag 7 without bytes.
    value = b"\x00\x00\x00\x00\x00\x05\x02" + b"\x00\x09" + bytes(7) + b"\x2a\x07" + b"\x00\x08" + bytes(7) + b"\x2b"
    sound = encode_record(
        CoordinatorRecord(
            key=ConsumerGroupMetadataKey(group_id="g"), value=ConsumerGroupMetadataValue(epoch=1), version=0
        )
    )
    found = decoded([sound, (key, value)])
    row = found["ConsumerGroupMetadata"][1]
    assert (row["metadata_hash"], row["unknown_tags"]) == (42, 1)
    assert [(p["row"], p["position"], p["detail"]) for p in found[PROBLEMS]] == [
        (1, 7, "tag 0 has size 9, its content 8")
    ]
    assert found == expected([sound, (key, value)], CONSUMER_OFFSETS)


TAGGED = [
    (record_type, version)
    for record_type, version in RECORD_VERSIONS
    if record_type.value.is_flexible(version)
    and any(field.tag is not None and version in field.versions for field in record_type.value.fields)
]


@st.composite
def tagged_sections(draw: st.DrawFn, tags: list[int]) -> bytes:
    """Generate duplicate or unordered tagged fields, with wrong sizes or sizes in an extra byte."""
    count = draw(st.integers(0, 4))
    section = bytes([count])
    for _ in range(count):
        payload = draw(
            st.sampled_from([0, 1, 2, 4, 8, 16]).flatmap(lambda n: st.lists(st.integers(0, 3), min_size=n, max_size=n))
        )
        size = max(0, len(payload) + draw(st.sampled_from([0, 0, 0, -1, 1])))
        section += uvarint(draw(st.sampled_from(tags)))
        section += bytes([*draw(st.sampled_from([[size], [size | 0x80, 0]])), *payload])
    return section


@pytest.mark.parametrize(("record_type", "version"), TAGGED, ids=version_id)
@given(data=st.data())
@settings(max_examples=portion(40))
def test_tagged_sections_that_kafka_does_not_write(record_type: Any, version: int, data: st.DataObject) -> None:
    known = {field.name: field for field in record_type.value.fields if field.tag is not None}
    defaults = {name: field.default for name, field in known.items()}
    raw: list[Raw] = []
    for record in data.draw(st.lists(records_of(record_type, version, unknown_tags=False), min_size=1, max_size=4)):
        assert record.value is not None
        key, value = encode_record(replace(record, value=replace(record.value, **defaults)))
        assert value is not None
        assert value.endswith(b"\x00")  # the number of tagged fields
        unknown = len(known) + 5
        raw.append((key, value[:-1] + data.draw(tagged_sections([*(field.tag for field in known.values()), unknown]))))
    assert decoded(raw, record_type.topic) == expected(raw, record_type.topic)


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.dictionary(pa.int32(), pa.binary())], ids=str)
def test_all_types_of_binary_arrays_are_accepted(kind: pa.DataType) -> None:
    raw = [commit(i % 3) for i in range(10)]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*raw, strict=True))
    keys = keys.dictionary_encode() if pa.types.is_dictionary(kind) else keys.cast(kind)
    sliced = decode_columns(keys.slice(2, 5), pa.chunked_array([values.slice(2, 3), values.slice(5, 2)]))
    assert sliced["OffsetCommit"].column("offset").to_pylist() == [2, 0, 1, 2, 0]


@given(data=st.data())
@settings(max_examples=portion(30))
def test_dictionary_encoded_keys_give_the_same_columns(data: st.DataObject) -> None:
    raw: list[Raw] = [
        encode_record(record) for record in data.draw(st.lists(records(CONSUMER_OFFSETS), min_size=1, max_size=8))
    ]
    raw = [*raw, (raw[0][0], b"damaged"), *raw]
    keys, values = (pa.array(column, pa.binary()) for column in zip(*raw, strict=True))
    plain, coded = (decode_columns(keys, values, dictionary=dictionary) for dictionary in (False, True))
    assert {name: batch.to_pylist() for name, batch in coded.items()} == {
        name: batch.to_pylist() for name, batch in plain.items()
    }
    for name, batch in coded.items():
        if name != PROBLEMS:
            kinds = {field.name: field.type for field in batch.schema}
            assert pa.types.is_dictionary(kinds["group" if "group" in kinds else "group_id"])


@pytest.mark.parametrize("native", [True, False], ids=["c", "numpy"])
def test_text_of_damaged_keys_is_no_category(native: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    if not native:
        monkeypatch.setattr(extension, "_extension", None)
    names = [f"{number:02}" for number in range(64)]
    raw = [commit(1, group=name) for name in names]
    key, value = commit(1, group="damaged")
    assert key is not None
    raw += [(key[:-5], value)]  # ends inside the name of the topic
    for order in (slice(None), slice(None, None, -1)):
        keys, values = (pa.array(column, pa.binary()) for column in zip(*raw[order], strict=True))
        found = decode_columns(keys, values, dictionary=True)
        groups = found["OffsetCommit"].column("group")
        assert sorted(groups.dictionary.to_pylist()) == names
        assert groups.to_pylist() == names[order]
        assert found[PROBLEMS].num_rows == 1


@pytest.mark.parametrize("trailing", [1, 2, 40])
def test_categories_have_the_same_order_in_c_and_numpy(trailing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = [commit(1, group=f"{number:03}") for number in range(128)]
    for place in range(5, 5 + trailing):
        key, value = commit(1, group=f"trailing-{place}")
        assert key is not None
        raw.insert(place, (key + b"\1", value))
    keys, values = (pa.array(column, pa.binary()) for column in zip(*raw, strict=True))
    in_c = decode_columns(keys, values, dictionary=True)
    monkeypatch.setattr(extension, "_extension", None)
    in_numpy = decode_columns(keys, values, dictionary=True)
    assert in_c[PROBLEMS].equals(in_numpy[PROBLEMS])
    assert in_c[PROBLEMS].column("row").to_pylist() == list(range(5, 5 + trailing))
    groups, same = (found["OffsetCommit"].column("group") for found in (in_c, in_numpy))
    assert groups.to_pylist() == same.to_pylist()
    assert groups.dictionary.equals(same.dictionary)
    assert groups.indices.equals(same.indices)


def test_empty_input_gives_no_columns() -> None:
    assert decode_columns(pa.array([], pa.binary()), pa.array([], pa.binary())) == {}


def test_arrays_of_different_lengths_are_rejected() -> None:
    with pytest.raises(ValueError, match="2 keys and 1 values"):
        decode_columns(pa.array([b"", b""]), pa.array([b""]))


def test_a_topic_without_records_is_named() -> None:
    with pytest.raises(KeyError, match="topic='orders' is not a coordinator topic; use one of __consumer_offsets, "):
        decode_columns([], [], topic="orders")


def test_keys_and_values_have_no_common_column_names() -> None:
    for types in RECORD_TYPES.values():
        for record_type in types.values():
            names = record_schema(record_type).names
            assert len(set(names)) == len(names), record_type.name
            assert not any(name.startswith("log_") for name in names), record_type.name
