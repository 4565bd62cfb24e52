"""Records of a produced batch read in C, against the same in Python."""

import random
from dataclasses import replace
from typing import Any

import google_crc32c
import pytest

from quorate.cluster.record_checks import TopicPolicy, validated
from quorate.codecs import extension
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.batches.v2 import CRC_START
from quorate.coordinator.log import AppendError

NOW_MS = 1_700_000_000_000
pytestmark = pytest.mark.skipif(extension.extension() is None, reason="installed without a compiler")
POLICY = TopicPolicy(
    name="t-0",
    compression="producer",
    compacted=False,
    append_time=False,
    before_max_ms=1_000_000,
    after_max_ms=1_000_000,
)


def outcome(batch: bytes, policy: TopicPolicy) -> Any:
    """Return what `validated` returns, or its error."""
    try:
        return validated(batch, policy, NOW_MS)
    except AppendError as error:
        return type(error), error.code, error.message, getattr(error, "records", None)


def in_python(batch: bytes, policy: TopicPolicy) -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extension, "_extension", None)
        return outcome(batch, policy)


def some_batch(rng: random.Random) -> bytes:
    """Return a batch of random records, in half of the cases with damaged bytes."""
    count = rng.choice((1, 2, 5, 63, 64, 65, 200))
    headers = (("h", b"1"),) if rng.random() < 0.2 else ()
    records = [
        BatchRecord(
            offset=place,
            timestamp_ms=NOW_MS + rng.choice((0, place, -place, rng.randrange(-2_000_000, 2_000_000))),
            key=rng.choice((None, b"", b"key")),
            value=rng.choice((None, b"", bytes(rng.randrange(300)))),
            headers=headers if rng.random() < 0.5 else (),
        )
        for place in range(count)
    ]
    batch = bytearray(encode_batch(records, compression=rng.choice(("none", "none", "gzip"))))
    if rng.random() < 0.5:
        for _ in range(rng.choice((1, 1, 3))):
            batch[rng.randrange(61, len(batch))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)))
        batch[17:21] = google_crc32c.value(bytes(batch[CRC_START:])).to_bytes(4, "big")
    return bytes(batch)


@pytest.mark.parametrize("seed", range(20))
def test_records_are_read_in_c_as_in_python(seed: int) -> None:
    rng = random.Random(seed)
    for step in range(40):
        batch = some_batch(rng)
        policy = replace(POLICY, compacted=rng.random() < 0.3, append_time=rng.random() < 0.2)
        assert outcome(batch, policy) == in_python(batch, policy), f"seed {seed}, step {step}: {batch.hex()}"


def test_whole_batches_are_read_in_c(monkeypatch: pytest.MonkeyPatch) -> None:
    records = [BatchRecord(offset=one, timestamp_ms=NOW_MS + one, key=None, value=b"v") for one in range(50)]
    monkeypatch.setattr("quorate.cluster.record_checks.read_record", None)
    assert validated(bytes(encode_batch(records)), POLICY, NOW_MS)[1] == NOW_MS + 49


def test_a_count_that_exceeds_the_bytes_reserves_no_memory() -> None:
    batch = bytearray(encode_batch([BatchRecord(offset=0, timestamp_ms=NOW_MS, key=None, value=b"v")]))
    batch[57:61] = (1 << 30).to_bytes(4, "big")
    assert outcome(bytes(batch), POLICY) == in_python(bytes(batch), POLICY)
