"""Share-partition state: record types 0 and 1 of `__share_group_state` (KIP-932), as of 4.1."""

from quorate.codecs.message import SHARE_GROUP_STATE, Message, key, struct, tagged, value
from quorate.codecs.wire import Array, Int8, Int16, Int32, Int64, String, Uuid


@key(0, since="4.1", topic=SHARE_GROUP_STATE)
class ShareSnapshotKey(Message):
    """A partition as consumed by a share group."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@struct
class StateBatch(Message):
    """A run of offsets in one delivery state: 0 available, 2 acknowledged, 4 archived.

    Requests to a share coordinator have it too, hence the defaults.
    """

    first_offset: Int64 = 0
    last_offset: Int64 = 0
    delivery_state: Int8 = 0
    delivery_count: Int16 = 0


@value(ShareSnapshotKey, versions=range(0, 1), flexible_since=0)
class ShareSnapshotValue(Message):
    """The whole state. Timestamps in ms."""

    snapshot_epoch: Int32
    state_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = tagged(0, default=-1, release="4.2")  # KIP-1226
    create_timestamp: Int64
    write_timestamp: Int64
    state_batches: Array[StateBatch]


@key(1, since="4.1", topic=SHARE_GROUP_STATE, note="its tombstones have the key of type 0")
class ShareUpdateKey(Message):
    """A partition as consumed by a share group."""

    group_id: String
    topic_id: Uuid
    partition: Int32


@value(ShareUpdateKey, versions=range(0, 1), flexible_since=0)
class ShareUpdateValue(Message):
    """A change to the last snapshot; -1 keeps the start offset or leader epoch."""

    snapshot_epoch: Int32
    leader_epoch: Int32
    start_offset: Int64
    delivery_complete_count: Int32 = tagged(0, default=-1, release="4.2")
    state_batches: Array[StateBatch]
