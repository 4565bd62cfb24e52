"""The orders of few keys are those of the maps step by step."""

from collections import Counter
from itertools import product
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quorate.assignors.java_order import JavaHashMap, JavaHashSet, copied_set, copied_set_capacity
from quorate.assignors.java_order.few import few_in_order, few_numbers_in_order, few_strings_in_order, is_crowded
from quorate.codecs import Uuid

TOGETHER = ["".join(parts) for parts in product(["Aa", "BB"], repeat=5)]
"""Texts with equal hashes."""

texts = st.lists(st.text(max_size=3) | st.sampled_from(TOGETHER), unique=True, max_size=60)
capacities = st.sampled_from([1, 2, 8, 16, 32, 64, 128])


@given(texts, capacities)
def test_texts_are_in_the_order_of_a_map(keys: list[str], capacity: int) -> None:
    made: JavaHashMap[str, None] = JavaHashMap(capacity)
    for key in keys:
        made.put(key, None)
    assert list(few_strings_in_order(keys, capacity)) == list(made)


@given(st.lists(st.text(max_size=2) | st.sampled_from(TOGETHER), max_size=60), st.sampled_from([17, 21]))
def test_copied_sets_of_texts_may_have_repeats(keys: list[str], jdk: int) -> None:
    assert copied_set(keys, jdk) == list(JavaHashSet.of(keys, jdk=jdk))


@given(st.lists(st.binary(min_size=16, max_size=16).map(Uuid), unique=True, max_size=40), capacities)
def test_ids_are_in_the_order_of_a_map(keys: list[Uuid], capacity: int) -> None:
    made: JavaHashMap[Uuid, None] = JavaHashMap(capacity)
    for key in keys:
        made.put(key, None)
    assert list(few_in_order(keys, capacity)) == list(made)


@given(
    st.lists(st.integers(0, 40) | st.integers(0, 60).map(lambda one: one * 16) | st.integers(65_000, 70_000)),
    st.sampled_from([17, 21]),
)
def test_numbers_are_in_the_order_of_a_copied_set(numbers: list[int], jdk: int) -> None:
    assert list(few_numbers_in_order(numbers, copied_set_capacity(len(numbers), jdk))) == list(
        JavaHashSet.of(numbers, jdk=jdk)
    )


@pytest.mark.parametrize("others", [0, 3, 8, 20, 40, 80])
@pytest.mark.parametrize("equal", [8, 9, 10, 11, 12, 30])
def test_equal_hashes_make_a_small_table_grow(equal: int, others: int) -> None:
    for keys in (
        [*TOGETHER[:equal], *map(str, range(others))],
        [*map(str, range(others)), *TOGETHER[:equal]],
    ):
        made: JavaHashMap[str, None] = JavaHashMap()
        for key in keys:
            made.put(key, None)
        assert list(few_strings_in_order(keys)) == list(made)


@given(st.integers(0, 1 << 32), st.sampled_from([7, 63, 1 << 20]), st.sampled_from([1, 8, 64]), capacities)
def test_crowded_tables_are_found_at_every_size(seed: int, most: int, step: int, capacity: int) -> None:
    rng = Random(seed)
    spreaded = [rng.randrange(most) * step for _ in range(rng.randrange(120))]
    is_full, size = len(spreaded) > 8, capacity
    while is_full and max(Counter(one & size - 1 for one in spreaded[: size * 3 // 4 + 1]).values(), default=0) <= 8:
        is_full = len(spreaded) > size * 3 // 4
        size *= 2
    assert is_crowded(spreaded, capacity) == is_full
