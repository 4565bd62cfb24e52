"""OffsetFetch v0–10: several groups since v8 (KIP-709), stable offsets since v7 (KIP-447).

v10 has topic ids.
"""

from quorate.codecs import Uuid
from quorate.codecs.api import OffsetFetchRequest, OffsetFetchResponse
from quorate.codecs.api.offset_fetch import (
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.offsets.commit import BY_TOPIC_ID
from quorate.coordinator.offsets.member import check_fetch
from quorate.coordinator.results import RequestContext, Result
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state import CommittedOffset, ShareGroup

SEVERAL_GROUPS = 8


def fetch_offsets(
    shard: CoordinatorShard, request: OffsetFetchRequest, context: RequestContext
) -> Result[OffsetFetchResponse]:
    """Return committed offsets, -1 where there is none."""
    if context.api_version >= SEVERAL_GROUPS:
        groups = tuple(_of_group(shard, group, request, context) for group in request.groups)
        return Result(response=OffsetFetchResponse(groups=groups))
    topics = (
        None
        if request.topics is None
        else tuple(
            OffsetFetchRequestTopics(name=topic.name, partition_indexes=topic.partition_indexes)
            for topic in request.topics
        )
    )
    found = _of_group(shard, OffsetFetchRequestGroup(group_id=request.group_id, topics=topics), request, context)
    return Result(
        response=OffsetFetchResponse(
            error_code=found.error_code,
            topics=tuple(
                OffsetFetchResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        OffsetFetchResponsePartition(
                            partition_index=part.partition_index,
                            committed_offset=part.committed_offset,
                            committed_leader_epoch=part.committed_leader_epoch,
                            metadata=part.metadata,
                            error_code=part.error_code,
                        )
                        for part in topic.partitions
                    ),
                )
                for topic in found.topics
            ),
        )
    )


def _of_group(
    shard: CoordinatorShard, requested: OffsetFetchRequestGroup, request: OffsetFetchRequest, context: RequestContext
) -> OffsetFetchResponseGroup:
    # For stable offsets, Kafka reads the latest state, as for a write.
    group = (shard.state.groups.get if request.require_stable else shard.state.readable)(requested.group_id)
    if isinstance(group, ShareGroup):
        group = None  # share groups commit no offsets; a former group may have
    if group is not None:
        try:
            check_fetch(group, member_id=requested.member_id, epoch=requested.member_epoch)
        except ApiError as error:
            return OffsetFetchResponseGroup(group_id=requested.group_id, error_code=error.code)
    if requested.topics is not None:
        topics = _topics(shard, requested, request, context, exists=group is not None)
    else:
        topics = [] if group is None else _every_topic(shard, requested.group_id, request, context)
    return OffsetFetchResponseGroup(group_id=requested.group_id, topics=tuple(topics))


def _topics(
    shard: CoordinatorShard,
    requested: OffsetFetchRequestGroup,
    request: OffsetFetchRequest,
    context: RequestContext,
    *,
    exists: bool,
) -> list[OffsetFetchResponseTopics]:
    by_id = context.api_version >= BY_TOPIC_ID
    found: list[OffsetFetchResponseTopics] = []
    unknown: list[OffsetFetchResponseTopics] = []
    for topic in requested.topics or ():
        name = topic.name
        if by_id:
            image = shard.image.topics_by_id.get(topic.topic_id)
            name = name if image is None else image.name
        if by_id and not name:
            unknown.append(
                OffsetFetchResponseTopics(
                    topic_id=topic.topic_id,
                    partitions=tuple(
                        OffsetFetchResponsePartitions(
                            partition_index=index, committed_offset=-1, error_code=ErrorCode.UNKNOWN_TOPIC_ID
                        )
                        for index in topic.partition_indexes
                    ),
                )
            )
            continue
        partitions = tuple(
            _partition(
                shard, requested.group_id, name, index, request.require_stable, exists=exists, topic_id=topic.topic_id
            )
            for index in topic.partition_indexes
        )
        found.append(OffsetFetchResponseTopics(name=name, topic_id=topic.topic_id, partitions=partitions))
    return found + unknown


def _every_topic(
    shard: CoordinatorShard, group_id: str, request: OffsetFetchRequest, context: RequestContext
) -> list[OffsetFetchResponseTopics]:
    topics = shard.state.offsets.committed.get(group_id)
    if topics is None:
        return []
    found = []
    for name, partitions in topics.ordered():
        image = shard.image.topics.get(name)
        if image is None and context.api_version >= BY_TOPIC_ID:
            continue
        found.append(
            OffsetFetchResponseTopics(
                name=name,
                topic_id=Uuid.ZERO if image is None else image.id,
                partitions=tuple(
                    _partition(shard, group_id, name, index, request.require_stable)
                    for index, _ in partitions.ordered()
                ),
            )
        )
    return found


def _partition(
    shard: CoordinatorShard,
    group_id: str,
    topic: str,
    index: int,
    require_stable: bool,
    *,
    exists: bool = True,
    topic_id: Uuid = Uuid.ZERO,
) -> OffsetFetchResponsePartitions:
    """Return a partition's offset, unless it was committed for another topic of the same name."""
    offsets = shard.state.offsets
    if require_stable and offsets.is_pending(group_id, topic, index):
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=-1, error_code=ErrorCode.UNSTABLE_OFFSET_COMMIT
        )
    found: CommittedOffset | None = offsets.get(group_id, topic, index) if exists else None
    if found is None or (topic_id != Uuid.ZERO and found.topic_id not in (Uuid.ZERO, topic_id)):
        return OffsetFetchResponsePartitions(partition_index=index, committed_offset=-1)
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=found.value.offset,
        committed_leader_epoch=found.leader_epoch,
        metadata=found.value.metadata,
    )
