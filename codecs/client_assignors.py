"""Tagged fields of quorate for KIP-848's client-side assignors; no release of Kafka has them.

| fields | in |
|---|---|
| `AnnouncedAssignors` | `ConsumerGroupHeartbeatRequest`, `ConsumerGroupMemberMetadataValue` |
| `ComputeAssignment` | `ConsumerGroupHeartbeatResponse` |
| `AssignmentDetails` | `Assignment` in `ConsumerGroupHeartbeatResponse` |
| `TargetDetails` | `ConsumerGroupTargetAssignmentMemberValue` |
| `TargetOrigin` | `ConsumerGroupTargetAssignmentMetadataValue` |
| `ComputingMember` | `DescribedGroup` in `ConsumerGroupDescribeResponse` |

`quorate.codecs.tags` reads and writes them.
"""

from quorate.codecs.message import Message, message, struct, tagged
from quorate.codecs.tags import OWN_TAG
from quorate.codecs.wire import Array, Bool, Bytes, Int8, Int16, String

__all__ = [
    "AnnouncedAssignors",
    "AssignedMetadata",
    "AssignmentDetails",
    "ClientAssignor",
    "ComputeAssignment",
    "ComputedBy",
    "ComputingMember",
    "TargetDetails",
    "TargetMetadata",
    "TargetOrigin",
]


@struct
class ClientAssignor(Message):
    """A client-side assignor that a member supports.

    `minimum_version` and `maximum_version` are those of the metadata that it understands. `reason`
    says why the metadata changed, as a code of the assignor. `metadata_version` and `metadata` are
    the member's input for the assignor.
    """

    name: String = ""
    minimum_version: Int16 = 0
    maximum_version: Int16 = 0
    reason: Int8 = 0
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@message(versions=range(1), flexible_since=0)
class AnnouncedAssignors(Message):
    """The client-side assignors that a member supports, in order of preference.

    In a request, `None` means "unchanged" and an empty list means "none".
    """

    client_assignors: Array[ClientAssignor] | None = tagged(OWN_TAG, default=None)


@message(versions=range(1), flexible_since=0)
class ComputeAssignment(Message):
    """Whether this member must run the group's client-side assignor now."""

    should_compute_assignment: Bool = tagged(OWN_TAG, default=False)


@struct
class AssignedMetadata(Message):
    """The metadata that a client-side assignor assigns to a member, next to its partitions.

    `error` is an error code of the assignor, 0 for no error.
    """

    assignor: String = ""
    error: Int8 = 0
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@message(versions=range(1), flexible_since=0)
class AssignmentDetails(Message):
    """Metadata of the target assignment reached by the member, if a client computed it."""

    metadata: AssignedMetadata | None = tagged(OWN_TAG, default=None)


@struct
class TargetMetadata(Message):
    """The metadata that a client-side assignor assigns to a member, next to its partitions."""

    version: Int16 = 0
    data: Bytes = b""


@message(versions=range(1), flexible_since=0)
class TargetDetails(Message):
    """Metadata of a member's target assignment."""

    metadata: TargetMetadata | None = tagged(OWN_TAG, default=None)


@struct
class ComputedBy(Message):
    """The assignor that computed a target assignment, and the member that ran it.

    `error` is an error code of the assignor, 0 for no error. With an error, the partitions are
    those of the previous target assignment.
    """

    assignor: String = ""
    member_id: String = ""
    error: Int8 = 0


@message(versions=range(1), flexible_since=0)
class TargetOrigin(Message):
    """The origin of the target assignment; `None` for the coordinator."""

    computed_by: ComputedBy | None = tagged(OWN_TAG, default=None)


@message(versions=range(1), flexible_since=0)
class ComputingMember(Message):
    """The member that currently runs the group's client-side assignor."""

    computing_member_id: String | None = tagged(OWN_TAG, default=None)
