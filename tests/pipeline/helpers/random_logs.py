"""Random logs: commits of few keys, and records of quorate's coordinator."""

from random import Random
from typing import Any

from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.classic_group import GroupMetadataKey, GroupMetadataValue
from quorate.codecs.messages.offsets import (
    LegacyOffsetCommitKey,
    LegacyOffsetCommitValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from quorate.coordinator.log import StoredMarker, StoredRecord
from quorate.coordinator.records import tombstone, written
from tests.coordinator.consumer_scripts import History
from tests.coordinator.share_scripts import ShareHistory
from tests.differential.shard_side import ShardSide

Stored = StoredRecord | StoredMarker
Response = dict[str, Any]


def random_commits(seed: int, groups: tuple[str, ...] = ("g", "h")) -> list[Stored]:
    """Return commits of few keys, transactions of several producers, and deletions of groups.

    Transactions are committed, aborted, or left open. With few keys, records of a key often meet.
    """
    rng = Random(seed)
    found: list[Stored] = []
    for offset in range(rng.choice([20, 60, 120])):
        producer_id = rng.choice([-1, -1, 5, 6])
        group = rng.choice(groups)
        kind = rng.random()
        record: CoordinatorRecord | None = None
        key: Any = OffsetCommitKey(group=group, topic="t", partition=rng.randrange(2))
        if kind < 0.5:
            record = written(
                key,
                OffsetCommitValue(
                    offset=offset * 10, metadata=rng.choice(["", "x"]), commit_timestamp=rng.choice([-1, 1000])
                ),
            )
        elif kind < 0.55:
            legacy = LegacyOffsetCommitKey(group=group, topic="t", partition=key.partition)
            value = LegacyOffsetCommitValue(offset=offset, metadata="", commit_timestamp=0)
            record = CoordinatorRecord(key=legacy, value=value, version=0)
        elif kind < 0.7:
            record = tombstone(key)
        elif kind < 0.8:
            record = tombstone(GroupMetadataKey(group=group))
        elif kind < 0.84:
            value_of_group = GroupMetadataValue(
                protocol_type="consumer",
                generation=offset,
                protocol=None,
                leader=None,
                current_state_timestamp=5,
                members=(),
            )
            record = written(GroupMetadataKey(group=group), value_of_group)
        elif producer_id >= 0:
            marker = StoredMarker(
                offset=offset, timestamp_ms=offset, producer_id=producer_id, producer_epoch=0, commit=rng.random() < 0.5
            )
            found.append(marker)
        if record is not None:
            group_record = isinstance(record.key, GroupMetadataKey)
            found.append(
                StoredRecord(
                    offset=offset,
                    timestamp_ms=offset,
                    record=record,
                    producer_id=-1 if group_record else producer_id,
                    producer_epoch=-1 if group_record or producer_id < 0 else 0,
                )
            )
    return found


class CoordinatorSide:
    """Our coordinator, for scripts that send requests to one or two coordinators."""

    def __init__(self) -> None:
        self.side = ShardSide()

    def op(self, op: str, **fields: Any) -> Response:
        return {"id": 0, **self.side.run({"op": op, "id": 0, **fields})}

    def request(self, api: str, version: int | None = None, *, client_id: str = "client", **body: Any) -> Response:
        of_version = {} if version is None else {"version": version}
        return self.op("request", api=api, clientId=client_id, body=body, **of_version)


def random_groups(seed: int) -> list[Stored]:
    """Return records of our coordinator for members that join, leave and change."""
    coordinator = CoordinatorSide()
    make: Any = ShareHistory if seed % 4 == 0 else History
    make(Random(seed), coordinator).run(80)
    return list(coordinator.side.log.stored)
