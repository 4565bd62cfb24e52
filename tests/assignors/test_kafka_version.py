"""Releases of Kafka, as assignors compare them."""

import pytest

from quorate.codecs.releases import KafkaVersion
from tests.oracle.client import HERE


def test_releases_are_ordered_by_number_and_not_as_text() -> None:
    written = ["3.9.2", "4.0.0", "4.0.1", "4.2", "4.10.0", "10.0.0"]
    releases = [KafkaVersion.parse(text) for text in written]
    assert releases == sorted(releases)
    assert [str(release) for release in releases] == ["3.9.2", "4.0.0", "4.0.1", "4.2.0", "4.10.0", "10.0.0"]


def test_a_release_without_a_patch_is_the_first_of_its_line() -> None:
    assert KafkaVersion.parse(" 4.3 ") == KafkaVersion(4, 3) == KafkaVersion(4, 3, 0) < KafkaVersion.NEWEST


@pytest.mark.parametrize("text", ["", "4", "4.", "v4.3.1", "4.3.1-rc0", "4.3.1.2", "٤.٣", "-1.0"])
def test_other_texts_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version of Kafka: write it as 4\.3\.1"):
        KafkaVersion.parse(text)


def test_the_newest_is_the_one_that_the_oracle_runs() -> None:
    assert f">{KafkaVersion.NEWEST}</kafka.version>" in (HERE / "pom.xml").read_text(encoding="utf-8")
