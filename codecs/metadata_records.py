"""Records of `__cluster_metadata` (KIP-631): those of KRaft's controllers that quorate supports.

A record has no key. Its value begins with a frame version, the record's type and its version, as
unsigned varints. A record with another type or version is decoded to `UnknownMetadata` with its
bytes.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from quorate.codecs.errors import DecodeError, Reason
from quorate.codecs.exact import decode_exactly
from quorate.codecs.fast_decode import message_decoder
from quorate.codecs.fast_encode import encode_message
from quorate.codecs.generate import Inexact, read_uvarint
from quorate.codecs.lazy_dataclass import dataclass
from quorate.codecs.message import Message, field, message, struct, tagged
from quorate.codecs.wire import Array, Bool, Bytes, Float64, Int8, Int16, Int32, Int64, String, UInt16, Uuid

CLUSTER_METADATA = "__cluster_metadata"
_FRAME_VERSION = 1


@struct
class BrokerEndpoint(Message):
    """A listener of a broker.

    `security_protocol`: 0 PLAINTEXT, 1 SSL, 2 SASL_PLAINTEXT, 3 SASL_SSL.
    """

    name: String = field(map_key=True)
    host: String
    port: UInt16
    security_protocol: Int16


@struct
class BrokerFeature(Message):
    """A feature with the versions that a broker supports."""

    name: String = field(map_key=True)
    min_supported_version: Int16
    max_supported_version: Int16


@message(versions=range(0, 5), flexible_since=0)
class RegisterBrokerRecord(Message):
    """A broker is registered, for the first time or again.

    Version 3 has log directories (KIP-858), 4 cordoned ones (4.3).
    """

    broker_id: Int32
    is_migrating_zk_broker: Bool = field(since=2, default=False)
    incarnation_id: Uuid
    broker_epoch: Int64
    end_points: Array[BrokerEndpoint]
    features: Array[BrokerFeature]
    rack: String | None
    fenced: Bool = field(default=True)
    in_controlled_shutdown: Bool = field(since=1, default=False)
    log_dirs: Array[Uuid] = tagged(0, since=3, default=())
    cordoned_log_dirs: Array[Uuid] | None = tagged(1, since=4, default=None)


@message(versions=range(0, 1), flexible_since=0)
class UnregisterBrokerRecord(Message):
    """A broker is unregistered."""

    broker_id: Int32
    broker_epoch: Int64


@message(versions=range(0, 1), flexible_since=0)
class TopicRecord(Message):
    """A topic is created."""

    name: String
    topic_id: Uuid


@message(versions=range(0, 3), flexible_since=0)
class PartitionRecord(Message):
    """A partition is created.

    Version 1 has log directories (KIP-858), 2 eligible leader replicas (KIP-966).
    """

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    replicas: Array[Int32]
    isr: Array[Int32]
    removing_replicas: Array[Int32]
    adding_replicas: Array[Int32]
    leader: Int32 = field(default=-1)
    leader_recovery_state: Int8 = tagged(0, default=0)
    leader_epoch: Int32 = field(default=-1)
    partition_epoch: Int32 = field(default=-1)
    directories: Array[Uuid] = field(since=1, default=())
    eligible_leader_replicas: Array[Int32] | None = tagged(1, since=2, default=None)
    last_known_elr: Array[Int32] | None = tagged(2, since=2, default=None)


@message(versions=range(0, 1), flexible_since=0)
class ConfigRecord(Message):
    """A config is set; a null value deletes it.

    `resource_type`: 2 topic, 4 broker, 16 client metrics, 32 group.
    """

    resource_type: Int8
    resource_name: String
    name: String
    value: String | None


@message(versions=range(0, 3), flexible_since=0)
class PartitionChangeRecord(Message):
    """A change of a partition.

    A new leader increments the leader epoch, and every change the partition epoch.
    """

    partition_id: Int32 = field(default=-1)
    topic_id: Uuid
    isr: Array[Int32] | None = tagged(0, default=None)
    leader: Int32 = tagged(1, default=-2)
    replicas: Array[Int32] | None = tagged(2, default=None)
    removing_replicas: Array[Int32] | None = tagged(3, default=None)
    adding_replicas: Array[Int32] | None = tagged(4, default=None)
    leader_recovery_state: Int8 = tagged(5, default=-1)
    directories: Array[Uuid] | None = tagged(8, since=1, default=None)
    eligible_leader_replicas: Array[Int32] | None = tagged(6, since=2, default=None)
    last_known_elr: Array[Int32] | None = tagged(7, since=2, default=None)


@message(versions=range(0, 1), flexible_since=0)
class RemoveTopicRecord(Message):
    """A topic is deleted, with its partitions and configs."""

    topic_id: Uuid


@message(versions=range(0, 1), flexible_since=0)
class UserScramCredentialRecord(Message):
    """A user's credential for SCRAM. `mechanism`: 1 SCRAM-SHA-256, 2 SCRAM-SHA-512."""

    name: String
    mechanism: Int8
    salt: Bytes
    stored_key: Bytes
    server_key: Bytes
    iterations: Int32


@message(versions=range(0, 1), flexible_since=0)
class FeatureLevelRecord(Message):
    """The finalized level of a feature, such as `metadata.version`."""

    name: String
    feature_level: Int16


@struct
class EntityData(Message):
    """An entity of a quota. `entity_name`: `None` is the default entity of the type."""

    entity_type: String
    entity_name: String | None


@message(versions=range(0, 1), flexible_since=0)
class ClientQuotaRecord(Message):
    """A quota of an entity is set or, with `remove`, deleted."""

    entity: Array[EntityData]
    key: String
    value: Float64
    remove: Bool


@message(versions=range(0, 1), flexible_since=0)
class ProducerIdsRecord(Message):
    """A broker gets a block of producer ids; `next_producer_id` is the first one after it."""

    broker_id: Int32
    broker_epoch: Int64 = field(default=-1)
    next_producer_id: Int64


@message(versions=range(0, 4), flexible_since=0)
class BrokerRegistrationChangeRecord(Message):
    """A broker is fenced (1) or unfenced (-1)."""

    broker_id: Int32
    broker_epoch: Int64
    fenced: Int8 = tagged(0, default=0)
    in_controlled_shutdown: Int8 = tagged(1, since=1, default=0)
    log_dirs: Array[Uuid] = tagged(2, since=2, default=())
    cordoned_log_dirs: Array[Uuid] | None = tagged(3, since=3, default=None)


@message(versions=range(0, 1), flexible_since=0)
class AccessControlEntryRecord(Message):
    """An ACL is created (KIP-801).

    The numbers are those of ResourceType, PatternType, AclOperation and AclPermissionType.
    """

    id: Uuid
    resource_type: Int8
    resource_name: String
    pattern_type: Int8
    principal: String
    host: String
    operation: Int8
    permission_type: Int8


@message(versions=range(0, 1), flexible_since=0)
class RemoveAccessControlEntryRecord(Message):
    """An ACL is deleted."""

    id: Uuid


@message(versions=range(0, 1), flexible_since=0)
class RemoveUserScramCredentialRecord(Message):
    """A user's credential for a SCRAM mechanism is deleted."""

    name: String
    mechanism: Int8


@message(versions=range(0, 1), flexible_since=0)
class UnregisterControllerRecord(Message):
    """A controller is unregistered (KIP-1312)."""

    controller_id: Int32


METADATA_TYPES: Mapping[int, type[Message]] = MappingProxyType(
    {
        0: RegisterBrokerRecord,
        1: UnregisterBrokerRecord,
        2: TopicRecord,
        3: PartitionRecord,
        4: ConfigRecord,
        5: PartitionChangeRecord,
        9: RemoveTopicRecord,
        11: UserScramCredentialRecord,
        12: FeatureLevelRecord,
        14: ClientQuotaRecord,
        15: ProducerIdsRecord,
        17: BrokerRegistrationChangeRecord,
        18: AccessControlEntryRecord,
        19: RemoveAccessControlEntryRecord,
        22: RemoveUserScramCredentialRecord,
        29: UnregisterControllerRecord,
    }
)
"""Record type → its message; all are flexible from version 0 on."""
_TYPE_OF: Mapping[type[Message], int] = MappingProxyType({one: number for number, one in METADATA_TYPES.items()})


@dataclass(frozen=True, slots=True)
class UnknownMetadata:
    """A record with a type or version that is not declared here."""

    type_id: int
    version: int
    data: bytes


def encode_metadata(record: Message, version: int) -> bytes:
    """Encode the value of a record in one version.

    Raises `EncodeError` if the version cannot carry a field.
    """
    return bytes((_FRAME_VERSION, _TYPE_OF[type(record)], version)) + encode_message(record, version)


def decode_metadata(data: bytes) -> Message | UnknownMetadata:
    """Decode the value of a record. Raises `DecodeError` if the bytes are not a record."""
    try:
        frame, position = read_uvarint(data, 0)
        type_id, position = read_uvarint(data, position)
        version, position = read_uvarint(data, position)
    except (IndexError, Inexact):
        raise DecodeError(
            Reason.TRUNCATED, where="frame", position=len(data), detail="the record ends inside its header"
        ) from None
    if frame != _FRAME_VERSION:
        raise DecodeError(Reason.UNKNOWN_VERSION, where="frame version", position=0, detail=f"{frame} is not 1")
    cls = METADATA_TYPES.get(type_id)
    if cls is None or cls.spec.versions is None or version not in cls.spec.versions:
        return UnknownMetadata(type_id, version, data)
    try:
        found: Any = message_decoder(cls.spec, version, lenient=True)(data, position)
    except Exception:  # noqa: BLE001  # any failure of the fast path: `decode_exactly` decodes or explains
        found, _ = decode_exactly(cls.spec, version, data, position, cls.spec.name, as_kafka_reads=True)
    assert isinstance(found, Message)
    return found
