"""The partition of a group: `Utils.abs(hashCode()) % partitions`."""

import pytest

from quorate.codecs.log import read_log
from quorate.coordinator.partitioning import partition_for
from tests.codecs.helpers.captures import CAPTURES


@pytest.mark.parametrize(
    ("name", "hash_code"), [("a", 97), ("orders", -1008770331), ("polygenelubricants", -(2**31)), ("", 0)]
)
def test_partition_of_a_group_follows_javas_hash(name: str, hash_code: int) -> None:
    for partitions in (1, 4, 50):
        assert partition_for(name, partitions) == (0 if hash_code == -(2**31) else abs(hash_code)) % partitions


def test_partitions_of_recorded_groups_equal_kafkas() -> None:

    found = {
        (entry.record.key.group, entry.partition)
        for entry in read_log(CAPTURES / "classic-3.9")
        if hasattr(getattr(entry.record, "key", None), "group")
    }
    assert len(found) > 5
    assert {(group, partition_for(group, 4)) for group, _ in found} == found
