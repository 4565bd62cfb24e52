"""Replayed logs of real brokers equal the brokers' descriptions at every checkpoint."""

from typing import Any
from uuid import uuid4

import pytest

from quorate.codecs import to_kafka_json
from quorate.coordinator.describe import classic, consumer, share, streams
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.state import ClassicGroup, ConsumerGroup, CoordinatorGroup, ShareGroup, StreamsGroup
from quorate.coordinator.streams.topology import configure_topics
from tests.coordinator.captures import CAPTURES, Checkpoint, checkpoints, entries, folders

NAMES = sorted(path.name for path in CAPTURES.iterdir())


def loaded(at: Checkpoint) -> list[GroupCoordinatorShard]:
    """Return a shard per partition that replayed its log up to the checkpoint."""
    shards = []
    for folder in folders(at.capture):
        shard = GroupCoordinatorShard(image=at.image, new_id=uuid4)
        for entry in entries(folder):
            if entry.offset < at.end_offsets.get(folder.name, 0):
                producer_id = entry.producer_id if entry.transactional else -1
                shard.replay(entry.record, offset=entry.offset, producer_id=producer_id, strict=True)
        assert not shard.state.skipped
        shards.append(shard)
    return shards


def described(shard: GroupCoordinatorShard, group: CoordinatorGroup, version: int) -> dict[str, Any]:
    """Return the group as in the response of its Describe API."""
    match group:
        case ConsumerGroup():
            return to_kafka_json(consumer.described(shard, group), version)
        case ShareGroup():
            return to_kafka_json(share.described(shard, group), version)
        case ClassicGroup():
            return to_kafka_json(classic.described(group), version)
        case StreamsGroup():
            # In no record: a heartbeat of a running member configures it.
            group.configured = configure_topics(group.topology, shard.image)
            return to_kafka_json(streams.described(shard, group), version)
    raise AssertionError(group)


@pytest.mark.parametrize("capture", NAMES)
def test_replayed_groups_equal_the_brokers_descriptions(capture: str) -> None:
    compared = 0
    for at in checkpoints(capture):
        shards = loaded(at)
        for reported in at.groups:
            if "raw" not in reported:
                continue
            (shard,) = [shard for shard in shards if reported["groupId"] in shard.state.groups]
            group = shard.state.groups[reported["groupId"]]
            (raw,) = reported["raw"]["data"]["groups"]
            assert (group.kind, group.protocol_type) == (reported["type"], reported["protocolType"]), f"{at}: {group}"
            assert described(shard, group, reported["raw"]["apiVersion"]) == raw, f"{at}: {group}"
            compared += 1
    assert compared > 0


@pytest.mark.parametrize("capture", NAMES)
def test_committed_offsets_equal_the_brokers_responses(capture: str) -> None:
    compared = 0
    for at in checkpoints(capture):
        found: dict[str, dict[str, tuple[int, int, str]]] = {}
        for shard in loaded(at):
            for group_id in shard.state.offsets.committed:
                found[group_id] = {
                    f"{topic}-{partition}": (offset.value.offset, offset.leader_epoch, offset.value.metadata)
                    for topic, partition, offset in shard.state.offsets.of_group(group_id)
                }
        for reported in at.groups:
            if reported.get("type") == "Share" or "offsets" not in reported:
                continue  # offsets of share groups are in __share_group_state
            wanted = {
                where: (one["offset"], one["leaderEpoch"], one["metadata"])
                for where, one in reported["offsets"].items()
                if one
            }
            assert found.get(reported["groupId"], {}) == wanted, f"{at}: {reported['groupId']}"
            compared += len(wanted)
    assert compared > 0
