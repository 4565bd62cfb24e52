"""What KIP-848's client-side assignors add to Kafka's messages: tagged fields of quorate's own, which no release of Kafka has.

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
    """A client-side assignor that a member can run.

    `minimum_version` to `maximum_version`: of the metadata that it understands.

    `reason`: why the metadata changed, in the assignor's own numbers; `metadata_version`,
    `metadata`: what the assignor has to know of the member.
    """

    name: String = ""
    minimum_version: Int16 = 0
    maximum_version: Int16 = 0
    reason: Int8 = 0
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@message(versions=range(1), flexible_since=0)
class AnnouncedAssignors(Message):
    """The assignors that a member can run, the one that it prefers first.

    In a request, `None` means "as before", and an empty list none any more.
    """

    client_assignors: Array[ClientAssignor] | None = tagged(OWN_TAG, default=None)


@message(versions=range(1), flexible_since=0)
class ComputeAssignment(Message):
    """Whether it is this member's turn to run the group's client-side assignor."""

    should_compute_assignment: Bool = tagged(OWN_TAG, default=False)


@struct
class AssignedMetadata(Message):
    """What a client-side assignor gives a member in addition to its partitions.

    `error`: the assignor's own number of what it could not do; 0 for no error.
    """

    assignor: String = ""
    error: Int8 = 0
    metadata_version: Int16 = 0
    metadata: Bytes = b""


@message(versions=range(1), flexible_since=0)
class AssignmentDetails(Message):
    """Metadata of the target assignment that the member has reached, if a client-side assignor computed it."""

    metadata: AssignedMetadata | None = tagged(OWN_TAG, default=None)


@struct
class TargetMetadata(Message):
    """What a client-side assignor gives a member in addition to its partitions."""

    version: Int16 = 0
    data: Bytes = b""


@message(versions=range(1), flexible_since=0)
class TargetDetails(Message):
    """Metadata of a member's target assignment."""

    metadata: TargetMetadata | None = tagged(OWN_TAG, default=None)


@struct
class ComputedBy(Message):
    """Who computed a target assignment: the assignor, and the member that ran it.

    `error`: the assignor's own number of what it could not do; the partitions are then those of the
    target before. 0 for no error.
    """

    assignor: String = ""
    member_id: String = ""
    error: Int8 = 0


@message(versions=range(1), flexible_since=0)
class TargetOrigin(Message):
    """Who computed the target assignment; `None` for the coordinator."""

    computed_by: ComputedBy | None = tagged(OWN_TAG, default=None)


@message(versions=range(1), flexible_since=0)
class ComputingMember(Message):
    """The member that is running the group's client-side assignor at the moment."""

    computing_member_id: String | None = tagged(OWN_TAG, default=None)
