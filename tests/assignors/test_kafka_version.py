"""`KafkaVersion`, which assignors compare."""

import pytest

from quorate.codecs.releases import KafkaVersion
from tests.oracle.client import HERE


def test_releases_are_ordered_by_number_and_not_as_text() -> None:
    written = ["3.9.2", "4.0.0", "4.0.1", "4.2", "4.10.0", "10.0.0"]
    releases = [KafkaVersion.parse(text) for text in written]
    assert releases == sorted(releases)
    assert [str(release) for release in releases] == ["3.9.2", "4.0.0", "4.0.1", "4.2.0", "4.10.0", "10.0.0"]


def test_a_release_without_a_patch_number_is_patch_0() -> None:
    assert KafkaVersion.parse(" 4.3 ") == KafkaVersion(4, 3) == KafkaVersion(4, 3, 0) < KafkaVersion.NEWEST


@pytest.mark.parametrize("text", ["", "4", "4.", "v4.3.1", "4.3.1-rc0", "4.3.1.2", "٤.٣", "-1.0"])
def test_other_texts_are_rejected_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a version of Kafka: write it as 4\.4\.0"):
        KafkaVersion.parse(text)


def test_the_newest_release_is_that_of_the_oracle() -> None:
    assert f">{KafkaVersion.NEWEST}</kafka.version>" in (HERE / "pom.xml").read_text(encoding="utf-8")
