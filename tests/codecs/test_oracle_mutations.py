"""Randomly changed records: all our decoders agree with Kafka's serdes and encode the same bytes.

The decoders are `decode_record`, the columns and the construct layout. `make fuzz` runs tens of
thousands of seeds.
"""

from random import Random
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from quorate.codecs import CoordinatorRecord, MalformedRecord, decode_record, encode_record
from quorate.codecs.layout import LayoutError, record_value_layout
from quorate.codecs.messages import RECORD_TYPES
from tests.codecs.columnar.test_columns import decoded, expected
from tests.codecs.helpers.strategies import KAFKA, RECORD_VERSIONS, records_of
from tests.codecs.test_oracle_records import check_same_result, hexed
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

AT_ONCE = 200
Raw = tuple[bytes, bytes | None]

PIECES = [bytes.fromhex(one) for one in (
    "00", "01", "02", "7f", "80", "ff", "ffff", "fffe", "8000", "8100", "ffffffff", "fffffffe", "80000000",
    "ffffffff0f", "ffffffff07", "8080808008", "8080808010", "80808080807f", "00010000",
)]  # fmt: skip
"""Valid and invalid bytes of lengths, nulls and tag sections."""


def samples(number: int, count: int) -> dict[str, list[Raw]]:
    """Return records of every type and version."""
    found: dict[str, list[Raw]] = {topic: [] for topic in RECORD_TYPES}

    @seed(number)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def collect(data: st.DataObject) -> None:
        record_type, version = data.draw(st.sampled_from(RECORD_VERSIONS))
        key, value = encode_record(data.draw(records_of(record_type, version, release=KAFKA)))
        assert key is not None
        found[record_type.topic].append((key, value))

    collect()
    return found


def mutated(random: Random, data: bytes) -> bytes:
    """Change a bit or a length, or insert, delete or cut off bytes, one to three times.

    Changes are more frequent near the end, where tags are.
    """
    changed = bytearray(data)
    for _ in range(random.choice([1, 1, 1, 2, 3])):
        at = random.randrange(len(changed) + 1) if random.random() < 0.6 else len(changed) - random.randrange(12)
        at = max(at, 0)
        match random.randrange(6):
            case 0 if changed:
                changed[min(at, len(changed) - 1)] ^= 1 << random.randrange(8)
            case 1:
                del changed[at:]
            case 2:
                piece = random.choice(PIECES)
                changed[at : at + len(piece)] = piece
            case 3:
                changed[at:at] = random.choice(PIECES)
            case 4:
                del changed[at : at + random.randrange(1, 5)]
            case 5 if changed:
                place = min(at, len(changed) - 1)
                changed[place] = (changed[place] + random.choice([-2, -1, 1, 2])) % 256
    return bytes(changed)


class _Responded:
    """Takes the place of the oracle and returns a response that was received before."""

    def __init__(self, response: dict[str, Any]) -> None:
        self.response = response

    def call(self, *_: Any, **__: Any) -> dict[str, Any]:
        return self.response


def check_layout(topic: str, key: bytes, value: bytes | None) -> None:
    """Check that the layout decodes values like `decode_record`, and rejects malformed ones.

    With the option to read like Kafka, it decodes what Kafka can decode.
    """
    record = decode_record(key, value, topic=topic)
    if value is None or record.key is None or record.type_id is None:
        return
    layout = record_value_layout(RECORD_TYPES[topic][record.type_id].value.cls)
    if isinstance(record, CoordinatorRecord):
        assert layout.parse(value) == record.value
    elif isinstance(record, MalformedRecord) and record.value is not None:
        with pytest.raises(LayoutError, match=record.reason):
            layout.parse(value)
        assert layout.parse(value, as_kafka_reads=True) == record.value


def check(oracle: Oracle, number: int, rounds: int, count: int) -> None:
    random = Random(number)
    valid = samples(number, count)
    for _ in range(rounds):
        topic = random.choice([topic for topic, found in valid.items() if found])
        raw: list[Raw] = []
        for _ in range(AT_ONCE):
            key, value = random.choice(valid[topic])
            if random.random() < 0.08:
                key = mutated(random, key)
            if value is not None and random.random() < 0.95:
                value = value[:2] + mutated(random, value[2:])
            raw.append((key, value))
        ops = [{"op": "decode", "topic": topic, "key": hexed(key), "value": hexed(value)} for key, value in raw]
        for (key, value), response in zip(raw, oracle.call("many", ops=ops)["answers"], strict=True):
            about = f"seed {number}: {topic} {hexed(key)} {hexed(value)}"
            try:
                check_same_result(_Responded(response), topic, key, value)  # type: ignore[arg-type]
                check_layout(topic, key, value)
            except AssertionError as error:
                raise AssertionError(f"{about}: {error}") from error
        assert decoded(raw, topic) == expected(raw, topic), f"seed {number}"


@pytest.mark.parametrize("number", range(portion(3, usual=1)))
def test_mutated_records_are_read_as_by_kafka(oracle: Oracle, number: int) -> None:
    check(oracle, number, rounds=4, count=100)


@pytest.mark.fuzz
@pytest.mark.parametrize("number", range(100, 110))
def test_mutated_records_are_read_as_by_kafka_in_long_runs(oracle: Oracle, number: int) -> None:
    check(oracle, number, rounds=25, count=1000)
