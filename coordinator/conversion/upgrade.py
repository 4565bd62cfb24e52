"""Upgrade of a classic group to a consumer group (KIP-848, "Upgrade").

It happens when a member of the new protocol joins.
"""

from quorate.codecs import CoordinatorRecord, DecodeError
from quorate.codecs.messages.classic_group import GroupMetadataKey
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.codecs.messages.protocol import ConsumerProtocolSubscription
from quorate.coordinator.classic.group import LiveGroup, LiveMember
from quorate.coordinator.classic.groups import as_live
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.members import as_written
from quorate.coordinator.consumer.owned import Order, Partitions, as_recorded, grown_map
from quorate.coordinator.consumer.partition_metadata import converted_topics
from quorate.coordinator.consumer.subscriptions import hash_of
from quorate.coordinator.conversion.embedded import (
    CustomAssignment,
    classic_metadata,
    cut_off,
    partitions_in,
    read_subscription,
)
from quorate.coordinator.conversion.timers import restart_session
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.records import tombstone
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.classic import ClassicGroup
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.consumer_member import ConsumerMember, recorded
from quorate.coordinator.state.groups import CONSUMER_PROTOCOL, ReplayError


def upgrade(
    shard: CoordinatorShard, group: ClassicGroup, records: list[CoordinatorRecord], now_ms: int
) -> ConsumerGroup:
    """Return the consumer group that replaces a classic group, and add its records.

    All members have the classic group's generation as epoch, and keep their assignments. Pending
    requests fail with REBALANCE_IN_PROGRESS, even if the conversion then fails. Raises `ApiError`:
    GROUP_ID_NOT_FOUND, or UNKNOWN_SERVER_ERROR where Kafka fails.
    """
    live = as_live(shard, group, now_ms)
    _check(shard, live)
    live.fail_pending_responses(ErrorCode.REBALANCE_IN_PROGRESS)
    records.append(tombstone(GroupMetadataKey(group=live.group_id)))
    made = _converted(shard, live)
    _write(shard, made, records)
    for _, member in made.members.ordered():
        restart_session(shard, made.group_id, member, now_ms)
    return made


def _check(shard: CoordinatorShard, group: LiveGroup) -> None:
    if not shard.config.group_consumer_migration_policy.upgrades:
        raise _refused(group, "online upgrade is disabled.")
    if group.protocol_type != CONSUMER_PROTOCOL:
        raise _refused(group, "the group does not use the consumer embedded protocol.")
    if len(group.members) > shard.config.group_consumer_max_size:
        raise _refused(group, "the group size exceeds the consumer group maximum size.")


def _refused(group: LiveGroup, why: str) -> ApiError:
    return ApiError(
        ErrorCode.GROUP_ID_NOT_FOUND,
        f"Cannot upgrade classic group {group.group_id} to consumer group because {why}",
    )


def _converted(shard: CoordinatorShard, group: LiveGroup) -> ConsumerGroup:
    made = ConsumerGroup(group.group_id)
    made.epoch = made.assignment_epoch = group.generation
    for member in group.ordered_members():
        data = member.assignment
        try:
            partitions = partitions_in(data, shard.image, shard.config.jdk)
            data = _offered(group, member)
            metadata = _metadata(member, read_subscription(data))
        except DecodeError as error:
            if not shard.behaviour.rejects_malformed and not cut_off(error, data):
                why = f"cannot decode the assignment or subscription of member {member.member_id}: {error}"
                raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, why) from None
            raise _refused(group, "the embedded consumer protocol is malformed.") from None
        except CustomAssignment:
            raise _refused(
                group,
                "an unsupported custom assignor is in use. Please refer to the documentation or switch to a default "
                "assignor before re-attempting the upgrade.",
            ) from None
        made.targets[member.member_id] = as_recorded(partitions)
        try:
            made.put_member(_member(member.member_id, metadata, partitions, group.generation, Order.of(shard.config)))
        except ReplayError as error:
            raise ApiError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    if shard.behaviour.metadata_hash:
        made.metadata_hash = hash_of(shard, made.topic_subscribers)
    else:
        made.partition_metadata = converted_topics(made, shard.image)
    return made


def _offered(group: LiveGroup, member: LiveMember) -> bytes:
    if all(offered.name != group.protocol for offered in member.protocols):
        # Members of a rebalancing group may no longer support the last generation's protocol.
        raise ApiError(
            ErrorCode.UNKNOWN_SERVER_ERROR, f"member {member.member_id} does not support protocol {group.protocol}"
        )
    return member.protocol_metadata(group.protocol)


def _metadata(member: LiveMember, subscription: ConsumerProtocolSubscription) -> ConsumerGroupMemberMetadataValue:
    return ConsumerGroupMemberMetadataValue(
        instance_id=member.group_instance_id,
        rack_id=subscription.rack_id or None,
        client_id=member.client_id,
        client_host=member.client_host,
        subscribed_topic_names=subscription.topics,
        subscribed_topic_regex="",
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        server_assignor=None,
        classic_member_metadata=classic_metadata(member.session_timeout_ms, member.protocols),
    )


def _member(
    member_id: str,
    metadata: ConsumerGroupMemberMetadataValue,
    partitions: Partitions,
    generation: int,
    order: Order,
) -> ConsumerMember:
    return ConsumerMember(
        member_id=member_id,
        metadata=metadata,
        epoch=generation,
        previous_epoch=generation,
        assigned_partitions=recorded(
            {
                topic_id: dict.fromkeys(grown_map(numbers) if order.maps else numbers, generation)
                for topic_id, numbers in partitions.items()
            }
        ),
    )


def _write(shard: CoordinatorShard, group: ConsumerGroup, records: list[CoordinatorRecord]) -> None:
    group_id = group.group_id
    members = [member for _, member in group.members.ordered()]
    records += [write.member_metadata(group_id, one.member_id, as_written(one.metadata)) for one in members]
    if group.partition_metadata is not None:
        records.append(write.partition_metadata(group_id, group.partition_metadata))
    records.append(write.group_epoch(group_id, group.epoch, group.metadata_hash))
    records += [
        write.target_assignment(
            group_id, one.member_id, {topic.topic_id: topic.partitions for topic in group.targets[one.member_id]}
        )
        for one in members
    ]
    records.append(write.target_epoch(group_id, group.epoch, 0))
    epochs = shard.behaviour.assignment_epochs
    records += [write.current_assignment(group_id, one, epochs=epochs) for one in members]
