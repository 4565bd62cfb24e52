"""A member's part in client-side assignment (KIP-848): any assignor, run on what the coordinator says of the group.

```python
if heartbeat.should_compute_assignment:
    prepared = ask(ConsumerGroupPrepareAssignmentRequest(group_id="g", member_id=me, member_epoch=epoch))
    ask(install_request(prepared, LagAwareAssignor(lags=lags), group_id="g", member_id=me, member_epoch=epoch))
```

No release of Kafka has client-side assignors; coordinators of quorate do where they are enabled.
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
    """What assignors work on.

    What a member owns is its present target, `user_data` the metadata that it announced with the
    assignor (`None` for none).
    """
    names = {topic.topic_id: topic.topic_name for topic in prepared.topics}
    members = {
        one.member_id: Member(
            topics=tuple(names[topic_id] for topic_id in one.subscribed_topic_ids if topic_id in names),
            rack=one.rack_id,
            instance_id=one.instance_id,
            owned=tuple(
                (names[topic.topic_id], partition)
                for topic in one.topic_partitions
                if topic.topic_id in names  # the others are gone, or nobody subscribes to them any more
                for partition in topic.partitions
            ),
            generation=0,  # all targets are of one assignment
            user_data=one.assignor.metadata or None,
        )
        for one in prepared.members
    }
    return members, Topology(map(_topic, prepared.topics))


def _topic(topic: PreparedTopic) -> Topic:
    numbers = tuple(one.partition for one in topic.partitions)
    return Topic(
        name=topic.topic_name,
        partitions=len(numbers),
        racks=tuple(one.racks for one in topic.partitions),
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
    """Run the assignor and say what it made.

    `metadata`: by member id, what members are told beside their partitions, in `metadata_version`,
    by default the newest that all of them understand. Raises `AssignorError`; `error_request` tells
    the group of that.
    """
    if assignor.name == "cooperative-sticky":
        raise AssignorError(
            "cooperative-sticky leaves partitions that move to nobody for one round, but here the coordinator sees to that; use sticky"
        )
    members, topology = members_and_topology(prepared)
    assigned = assignor.assign(members, topology)
    ids = {topic.topic_name: topic.topic_id for topic in prepared.topics}
    told = metadata or {}
    version = prepared.maximum_version if metadata_version is None else metadata_version
    installed = []
    for one in prepared.members:
        data = told.get(one.member_id, b"")
        installed.append(
            InstalledMember(
                member_id=one.member_id,
                topic_partitions=tuple(
                    InstalledTopicPartitions(topic_id=ids[topic], partitions=tuple(sorted(partitions)))
                    for topic, partitions in assigned.by_topic(one.member_id).items()
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
    """Say that there is no assignment, and why: `error` is the assignor's own number, not 0.

    All members are told, and keep what they have.
    """
    if not error:
        raise ValueError("0 is no error")
    return ConsumerGroupInstallAssignmentRequest(
        group_id=group_id,
        member_id=member_id,
        member_epoch=member_epoch,
        group_epoch=prepared.group_epoch,
        error=error,
    )
