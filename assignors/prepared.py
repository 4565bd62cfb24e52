"""The member's part in client-side assignment (KIP-848).

Runs an assignor on the group that the coordinator sent.

```python
if heartbeat.should_compute_assignment:
    ids = {"group_id": "g", "member_id": member_id, "member_epoch": epoch}
    prepared = send(ConsumerGroupPrepareAssignmentRequest(**ids))
    send(install_request(prepared, LagAwareAssignor(lags=lags), **ids))
```

No release of Kafka supports client-side assignors. quorate's coordinators do if configured.
"""

from collections.abc import Mapping

from quorate.assignors.assignor import Assignor
from quorate.assignors.model import AssignorError, Member
from quorate.assignors.topology import Topic, Topology
from quorate.codecs.api import ConsumerGroupInstallAssignmentRequest, ConsumerGroupPrepareAssignmentResponse
from quorate.codecs.api.consumer_group_install_assignment import InstalledMember, InstalledTopicPartitions
from quorate.codecs.api.consumer_group_prepare_assignment import PreparedTopic

__all__ = ["error_request", "install_request", "members_and_topology"]


def members_and_topology(prepared: ConsumerGroupPrepareAssignmentResponse) -> tuple[dict[str, Member], Topology]:
    """Convert the response to the input of assignors.

    A member's owned partitions are its current target assignment. `user_data` is the metadata that
    it sent with the assignor; `None` if there is none.
    """
    names = {topic.topic_id: topic.topic_name for topic in prepared.topics}
    members = {
        member.member_id: Member(
            topics=tuple(names[topic_id] for topic_id in member.subscribed_topic_ids if topic_id in names),
            rack=member.rack_id,
            instance_id=member.instance_id,
            owned=tuple(
                (names[topic.topic_id], partition)
                for topic in member.topic_partitions
                if topic.topic_id in names  # the other topics were deleted or have no subscriber left
                for partition in topic.partitions
            ),
            generation=0,  # all target assignments are of the same epoch
            user_data=member.assignor.metadata or None,
        )
        for member in prepared.members
    }
    return members, Topology(map(_topic, prepared.topics))


def _topic(topic: PreparedTopic) -> Topic:
    numbers = tuple(partition.partition for partition in topic.partitions)
    return Topic(
        name=topic.topic_name,
        partitions=len(numbers),
        racks=tuple(partition.racks for partition in topic.partitions),
        id=topic.topic_id,
        numbers=None if numbers == tuple(range(len(numbers))) else numbers,
    )


def install_request(
    prepared: ConsumerGroupPrepareAssignmentResponse,
    assignor: Assignor,
    *,
    group_id: str,
    member_id: str,
    member_epoch: int,
    metadata: Mapping[str, bytes] | None = None,
    metadata_version: int | None = None,
) -> ConsumerGroupInstallAssignmentRequest:
    """Run the assignor and return the request that installs its assignment.

    `metadata`: member id → metadata that the member receives with its partitions.
    `metadata_version`: by default the newest that all members support. Raises `AssignorError`; send
    `error_request` in that case.
    """
    if assignor.name == "cooperative-sticky":
        raise AssignorError(
            "cooperative-sticky withholds moving partitions for one round, which the coordinator does here; use sticky"
        )
    members, topology = members_and_topology(prepared)
    assigned = assignor.assign(members, topology)
    ids = {topic.topic_name: topic.topic_id for topic in prepared.topics}
    metadata = metadata or {}
    version = prepared.maximum_version if metadata_version is None else metadata_version
    installed = []
    for member in prepared.members:
        data = metadata.get(member.member_id, b"")
        installed.append(
            InstalledMember(
                member_id=member.member_id,
                topic_partitions=tuple(
                    InstalledTopicPartitions(topic_id=ids[topic], partitions=tuple(sorted(partitions)))
                    for topic, partitions in assigned.by_topic(member.member_id).items()
                ),
                metadata_version=version if data else 0,
                metadata=data,
            )
        )
    return ConsumerGroupInstallAssignmentRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        group_epoch=prepared.group_epoch,
        members=tuple(installed),
    )


def error_request(
    prepared: ConsumerGroupPrepareAssignmentResponse, error: int, *, group_id: str, member_id: str, member_epoch: int
) -> ConsumerGroupInstallAssignmentRequest:
    """Return the request that reports a failed assignment.

    `error`: an error code of the assignor's own, not 0. All members receive it and keep their
    assignment. Raises `ValueError` for 0.
    """
    if not error:
        raise ValueError("error must not be 0")
    return ConsumerGroupInstallAssignmentRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        group_epoch=prepared.group_epoch,
        error=error,
    )
