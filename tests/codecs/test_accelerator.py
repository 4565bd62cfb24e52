"""The accelerator in C and the generated Python give equal objects and bytes, and reject the same.

The other tests of codecs use the accelerator where it is installed; these skip without it.
"""

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from inspect import signature
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorate.codecs import CONSUMER_OFFSETS, RECORD_TYPES, CoordinatorRecord, Uuid, is_accelerated
from quorate.codecs.accelerator import program
from quorate.codecs.extension import extension
from quorate.codecs.fast_decode import generated_decoder, message_decoder
from quorate.codecs.fast_encode import (
    _has_records,
    generated_encoder,
    generated_parts_encoder,
    message_encoder,
)
from quorate.codecs.message import MessageSpec
from quorate.codecs.messages import OffsetCommitKey, OffsetCommitValue
from quorate.codecs.record_encode import RECORD_CODECS, _encode_in_python
from quorate.codecs.records import _decoder_in_python, _Keys
from tests.codecs.helpers.random_messages import ALL_VERSIONS, damaged_bytes, random_message
from tests.conftest import CI
from tests.extent import sampled

needs_accelerator = pytest.mark.skipif(not is_accelerated(), reason="the accelerator is not installed: make .venv/.dev")


def result(function: Callable[..., Any], *arguments: Any) -> str:
    """Return what a function returns, with the types of all values, or that it raises."""
    try:
        return repr(function(*arguments))
    except Exception:  # noqa: BLE001  # the accelerator need not raise the same one
        return "raised"


def compare(seed: int, spec: MessageSpec, version: int, *, damaged: int) -> None:
    """Compare decoders and encoders of one version with a message, and with damaged bytes of it."""
    random, where = Random(seed), f"compare({seed}, {spec.name}.spec, {version}, damaged={damaged})"
    native = program(spec, version, spec.is_flexible(version))
    assert native is not None
    python = generated_encoder(spec, version)
    wrong = random_message(random, spec, version, wrong=0.05)
    assert result(native.encode, wrong) == result(python, wrong), where
    message = random_message(random, spec, version)
    data = native.encode(message)
    assert data == python(message), where
    if _has_records(spec):
        assert b"".join(native.encode_parts(message)) == data
        assert b"".join(generated_parts_encoder(spec, version)(message)) == data
    for lenient in (False, True):
        decode = message_decoder(spec, version, lenient=lenient)
        expected = generated_decoder(spec, version, lenient=lenient)
        assert decode(data, 0) == message == expected(data, 0), where
        for _ in range(damaged):
            other = damaged_bytes(random, data)
            assert result(decode, other, 0) == result(expected, other, 0), (where, lenient, other.hex())


@needs_accelerator
def test_every_version_of_every_message_is_equal_in_c_and_python() -> None:
    seed = 7 if CI else Random().randrange(1 << 32)
    for number, (spec, version) in enumerate(sampled(ALL_VERSIONS)):
        compare(seed + number, spec, version, damaged=15)


@pytest.mark.fuzz
@needs_accelerator
@pytest.mark.parametrize("seed", range(20))
def test_millions_of_damaged_inputs_are_equal_in_c_and_python(seed: int) -> None:
    for number, (spec, version) in enumerate(ALL_VERSIONS):
        compare(seed * len(ALL_VERSIONS) + number, spec, version, damaged=60)


@needs_accelerator
@pytest.mark.parametrize("topic", RECORD_TYPES)
def test_records_are_equal_in_c_and_python(topic: str) -> None:
    seed = 7 if CI else Random().randrange(1 << 32)
    random = Random(seed)
    codec, python = RECORD_CODECS[topic], _decoder_in_python(_Keys(topic))
    assert codec is not None
    for record_type in RECORD_TYPES[topic].values():
        for version in record_type.versions:
            where = seed, record_type.name, version
            record = CoordinatorRecord(
                key=random_message(random, record_type.key, 0),
                value=random_message(random, record_type.value, version),
                version=version,
                topic=topic,
            )
            key, value = codec.encode(record)
            assert (key, value) == _encode_in_python(record), where
            assert value is not None
            assert repr(codec.decode(key, value)) == repr(record) == repr(python(key, value)), where
            tombstone = replace(record, value=None, version=None)
            assert codec.encode(tombstone) == (key, None)
            assert codec.decode(key, None) == tombstone
            for _ in range(20):
                pair = random.choice([key, damaged_bytes(random, key)]), damaged_bytes(random, value)
                assert result(codec.decode, *pair) == result(python, *pair), (where, pair)


@needs_accelerator
def test_the_codec_of_records_leaves_others_to_python() -> None:
    codec = RECORD_CODECS[CONSUMER_OFFSETS]
    assert codec is not None
    key, value = (
        OffsetCommitKey(group="g", topic="t", partition=7),
        OffsetCommitValue(offset=1, metadata="", commit_timestamp=1),
    )
    record = CoordinatorRecord(key=key, value=value, version=3)
    assert result(codec.encode, record) != "raised"
    for change in (
        {"key_trailing": b"x"},
        {"value_trailing": b"x"},
        {"value_as_read": b"x"},
        {"topic": "orders"},
        {"version": None},
        {"version": -1},
        {"version": 99},
        {"version": "3"},
        {"key": value},
        {"value": key},
    ):
        assert result(codec.encode, replace(record, **change)) == "raised", change
    for wrong in (
        (b"", None),
        (b"\x00", None),
        (None, None),
        (b"\x7f\xff", None),
        (b"\xff\xff", b""),
        (bytearray(9), None),
    ):
        assert result(codec.decode, *wrong) == "raised"


@needs_accelerator
def test_memory_does_not_grow() -> None:
    """A reference that is not released would keep an object of each call."""
    random = Random(7)
    cases = []
    for spec, version in sampled(ALL_VERSIONS):
        found = random_message(random, spec, version), random_message(random, spec, version, wrong=0.2)
        data = message_encoder(spec, version)(found[0])
        cases.append((spec, version, found, data, [damaged_bytes(random, data) for _ in range(3)]))

    def run() -> int:
        for spec, version, found, data, damaged in cases:
            encoder = program(spec, version, spec.is_flexible(version))
            assert encoder is not None
            for message in found:
                result(encoder.encode, message)
                result(encoder.encode_parts, message)
            for lenient in (False, True):
                for each in (data, *damaged):
                    result(message_decoder(spec, version, lenient=lenient), each, 0)
        gc.collect()
        return sys.getallocatedblocks()

    gc.freeze()  # what earlier tests left would be visited by each collection
    run()
    before = run()
    for _ in range(5):
        run()
    assert run() - before < 200, "about 15 calls for each of hundreds of messages"


def test_ids_that_only_differ_in_some_bytes_are_distinguished() -> None:
    """The accelerator keeps recent ids by their last byte."""
    random = Random(3)
    ids = [Uuid(random.randbytes(15) + bytes([last])) for last in (1, 1, 1, 65, 255) for _ in range(3)]
    encode, decode = (make(OffsetCommitValue.spec, 4) for make in (message_encoder, message_decoder))
    for topic_id in random.choices(ids, k=500):
        value = OffsetCommitValue(offset=1, metadata="", commit_timestamp=1, topic_id=topic_id)
        decoded: Any = decode(encode(value), 0)
        assert decoded == value
        assert type(decoded.topic_id) is Uuid


@needs_accelerator
@pytest.mark.parametrize(
    "arguments",
    [(), (b"",), (b"", "0"), (b"", 0, 0), ("", 0), (b"", -1), (b"", 1), (b"", 1 << 80), (bytearray(4), 0), (None, 0)],
)
def test_wrong_arguments_of_a_decoder_raise(arguments: tuple[Any, ...]) -> None:
    decode: Any = message_decoder(OffsetCommitKey.spec, 0)
    assert result(decode, *arguments) == "raised"


@needs_accelerator
def test_only_messages_of_the_class_are_encoded() -> None:
    encode = message_encoder(OffsetCommitKey.spec, 0)
    unset = object.__new__(OffsetCommitKey)
    for each in (None, unset, OffsetCommitValue(offset=1, metadata="", commit_timestamp=1, leader_epoch=1), object()):
        assert result(encode, each) == "raised"


def test_a_decoded_message_is_immutable() -> None:
    message = message_decoder(OffsetCommitKey.spec, 0)(b"\x00\x01g\x00\x01t\x00\x00\x00\x07", 0)
    assert message == OffsetCommitKey(group="g", topic="t", partition=7)
    assert type(message) is OffsetCommitKey
    with pytest.raises(AttributeError):
        message.group = "other"  # type: ignore[attr-defined]


@needs_accelerator
def test_functions_take_as_many_arguments_as_their_signatures_say() -> None:
    """mypy checks calls with these signatures, which test_packaging.py compares with the stub."""
    native: Any = extension()
    functions = [each for name, each in vars(native).items() if callable(each) and name != "NativeDict"]
    assert len(functions) >= 8
    for function in functions:
        arguments = [b""] * len(signature(function).parameters)
        with pytest.raises(
            TypeError, match=rf"takes (exactly|at most) {len(arguments)} arguments \({len(arguments) + 1} "
        ):
            function(*arguments, b"")


REPORT = """
import json, sys
from quorate.codecs import is_accelerated
print(json.dumps([is_accelerated(), "quorate.codecs._native" in sys.modules]))
"""


@pytest.mark.parametrize("wanted", ["0", "1"])
def test_the_environment_switches_it_off(wanted: str) -> None:
    environment = os.environ | {"QUORATE_NATIVE": wanted}
    done = subprocess.run([sys.executable, "-P", "-c", REPORT], env=environment, capture_output=True, check=True)
    assert json.loads(done.stdout) == [wanted != "0" and INSTALLED] * 2


@needs_accelerator
def test_tests_of_records_pass_with_the_generated_python() -> None:
    """Their other runs use the accelerator."""
    command = [
        sys.executable,
        "-P",
        "-m",
        "pytest",
        "-q",
        "-n0",
        "-p",
        "no:cacheprovider",
        "-m",
        "not oracle and not fuzz",
    ]
    tests = [str(Path(__file__).with_name(name)) for name in ("test_records.py", "test_subscription_forms.py")]
    environment = os.environ | {"QUORATE_NATIVE": "0"}
    done = subprocess.run([*command, *tests], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


INSTALLED = is_accelerated() or os.environ.get("QUORATE_NATIVE") == "0"
