"""Loaded groups have the descriptions and timers of Kafka's coordinator."""

import pytest

from quorate.codecs.batches.model import ControlRecord
from tests.coordinator.captures import CAPTURES, entries, folders
from tests.coordinator.scripts import Duel, Json
from tests.oracle.client import Oracle

FOLDERS = {
    f"{path.parent.name}-{path.name[-1]}": path for one in sorted(CAPTURES.iterdir()) for path in folders(one.name)
}
DESCRIBED = {
    "consumer": ("ConsumerGroupDescribe", "groupIds"),
    "share": ("ShareGroupDescribe", "groupIds"),
    "classic": ("DescribeGroups", "groups"),
}


def records_of(name: str) -> list[Json]:
    """Return a partition's log as the op `load` expects it."""
    records: list[Json] = []
    for entry in entries(FOLDERS[name]):
        producer = (
            {"producerId": entry.producer_id, "producerEpoch": entry.producer_epoch} if entry.transactional else {}
        )
        if not isinstance(entry.record, ControlRecord):
            key, value = entry.key_bytes, entry.value_bytes
            assert key is not None
            records.append({"key": key.hex(), "value": None if value is None else value.hex(), **producer})
        elif entry.record.name in ("COMMIT", "ABORT"):
            records.append({"control": entry.record.name, **producer})
    return records


@pytest.mark.oracle
@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_loaded_groups_are_listed_and_described_as_by_kafka(oracle: Oracle, name: str) -> None:
    duel = Duel(oracle)
    duel.op("load", records=records_of(name), nowMs=1_800_000_000_000)
    listed = duel.request("ListGroups")["response"]["groups"]
    for kind, (api, field) in DESCRIBED.items():
        duel.request(
            api, **{field: ["nobody's", *(group["groupId"] for group in listed if group["groupType"] == kind)]}
        )
    duel.request("ListGroups", statesFilter=["stable"], typesFilter=["Consumer"])
    duel.request("DescribeGroups", 5, groups=["nobody's"])
