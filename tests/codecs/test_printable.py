"""Text forms of partitions, times and ids, and escaping for terminals."""

import pytest

from quorate.codecs.printable import brief_id, printable, spans, time_text


@pytest.mark.parametrize(
    ("items", "text"), [([], ""), ([3], "3"), ([0, 1, 2], "0-2"), ([5, 0, 2, 1], "0-2 5"), ([1, 3, 5, 6], "1 3 5-6")]
)
def test_partitions_are_printed_as_ranges(items, text):
    assert spans(items) == text


def test_times_outside_of_the_calendar_are_printed_as_numbers():
    assert time_text(0) == "1970-01-01 00:00:00.000"
    assert time_text(-1) == "1969-12-31 23:59:59.999"
    assert time_text(2**63 - 1) == str(2**63 - 1)


def test_unprintable_characters_are_escaped():
    assert printable("a\x00\x1b[0m\u200b\ue000é日") == r"a\x00\x1b[0m\u200b\ue000é日"
    assert printable("\udcff") == r"\udcff"


@pytest.mark.parametrize(
    ("text", "brief"),
    [
        ("xfgFzHx6Rs+m234T6Qszjw", "xfgFzHx6…"),
        ("consumer-1-0f9d1f3a-5a6e-4f0e-9d8e-0123456789ab", "consumer-1-0f9d1f3a…"),
        ("a-member-of-22-letters", "a-member-of-22-letters"),
        ("worker-1", "worker-1"),
    ],
)
def test_generated_member_ids_are_shortened_to_their_first_characters(text, brief):
    assert brief_id(text) == brief
