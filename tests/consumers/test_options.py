"""Parameters of quorate's consumers: each wrong one is rejected by its name."""

from typing import Any

import pytest

from quorate.assignors import RangeAssignor
from quorate.assignors.adapters import kafka_python
from quorate.codecs.errors import InputError
from quorate.consumers.client_assignors import OfferedAssignors
from quorate.consumers.options import ProtocolOptions, SubscriptionPattern


def check(remote_assignor: Any = None, **configs: Any) -> bool:
    return ProtocolOptions(LookupError, "consumer", remote_assignor, (), "error").check(configs, ())


@pytest.mark.parametrize("name", ["group_id", "group_instance_id", "client_rack"])
def test_texts_are_strings(name: str) -> None:
    with pytest.raises(LookupError, match=f"{name} is 5; use a string"):
        check(**{name: 5})
    with pytest.raises(LookupError, match="group_remote_assignor is 5"):
        check(5)
    assert check("range", group_id="g", group_instance_id=None, client_rack="a")


@pytest.mark.parametrize(("name", "value"), [("group_id", ""), ("group_id", " "), ("group_instance_id", "a b")])
def test_texts_that_kafkas_consumer_rejects_are_rejected(name: str, value: str) -> None:
    with pytest.raises(LookupError, match=f"{name} is {value!r}; use "):
        check(**{name: value})


@pytest.mark.parametrize("name", ["max_poll_interval_ms", "rebalance_timeout_ms"])
@pytest.mark.parametrize("value", [0, -1, 1.5, "5", 2**31])
def test_durations_are_milliseconds_of_an_int32(name: str, value: Any) -> None:
    with pytest.raises(LookupError, match=f"{name} is {value!r}; use whole milliseconds from 1"):
        check(**{name: value})
    assert check(max_poll_interval_ms=2**31 - 1, rebalance_timeout_ms=None)


def test_patterns_are_strings_that_match_something() -> None:
    with pytest.raises(TypeError, match="SubscriptionPattern: the regex is 5"):
        SubscriptionPattern(5)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="the regex is empty"):
        SubscriptionPattern("")


@pytest.mark.parametrize("assignors", [None, "range", ["range"], RangeAssignor(), [RangeAssignor]])
def test_client_assignors_are_a_list_of_instances(assignors: Any) -> None:
    with pytest.raises(InputError, match=r"use instances, such as \[RangeAssignor\(\)\]"):
        OfferedAssignors(assignors)


@pytest.mark.parametrize(
    "given", [kafka_python.Range, kafka_python.Range(), RangeAssignor, RangeAssignor(), "range", None]
)
def test_assignors_of_the_classic_protocol_are_a_list(given: Any) -> None:
    check = ProtocolOptions(LookupError, "classic", None, (), "error").check
    with pytest.raises(LookupError, match=r"which is no list: write partition_assignment_strategy=\[\.\.\.\]"):
        check({"partition_assignment_strategy": given}, ())
    assert not check({"partition_assignment_strategy": (kafka_python.Range,)}, ())


@pytest.mark.parametrize("given", [RangeAssignor, RangeAssignor()])
def test_assignors_of_the_classic_protocol_are_adapters(given: Any) -> None:
    with pytest.raises(LookupError, match=r"RangeAssignor.*, which needs an adapter: .* quorate\.assignors\.adapters"):
        ProtocolOptions(LookupError, "classic", None, (), "error").check({"partition_assignment_strategy": [given]}, ())
