"""Share state of partitions, which are assignable only with it (KIP-932; record type 15).

A heartbeat writes partitions as "initializing", the share coordinator initializes their state, and
they are written as "initialized". The shard's persister sends the requests to share coordinators.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial

from quorate.assignors.java_order import JavaHashMap, JavaHashSet
from quorate.codecs import CoordinatorRecord, Uuid
from quorate.codecs.api import InitializeShareGroupStateRequest, InitializeShareGroupStateResponse
from quorate.codecs.api.initialize_share_group_state import InitializeStateData, PartitionData
from quorate.coordinator.image import MetadataDelta
from quorate.coordinator.results import Result, Task
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.share import records as write
from quorate.coordinator.share.partitions import (
    GONE,
    NamedPartitions,
    combined,
    copy_without,
    deleting_topics,
    in_map,
    named,
    read,
)
from quorate.coordinator.state.share import ShareGroup

TIMER = "initialize-share-group-state-{}"


def uninitialized(
    shard: CoordinatorShard,
    group: ShareGroup,
    topics: Mapping[str, int],
    now_ms: int,
    in_order: Callable[[Collection[str]], Iterable[str]],
) -> NamedPartitions:
    """Return the partitions without share state that are not initializing.

    Those that are initializing for longer than the retry interval are included. `in_order`: sorts
    topics in Kafka's order. Topics that do not exist cost nothing.
    """
    jdk = shard.config.jdk
    state = shard.state.share_states.get(group.group_id)
    initialized: NamedPartitions = {}
    if state is not None:
        initialized = read(state.initialized_topics, jdk=jdk)
        if now_ms - group.initializing_since_ms < shard.config.group_share_initialize_retry_interval_ms:
            initialized = combined(initialized, read(state.initializing_topics, jdk=jdk), jdk=jdk)
    without: dict[str, tuple[Uuid, Sequence[int]]] = {}
    for name in shard.image.topics.keys() & topics.keys():
        topic = shard.image.topics[name]
        _, numbers = initialized.get(topic.id, ("", ()))
        if not numbers or len(numbers) < topic.partitions:
            without[name] = topic.id, tuple(one for one in range(topic.partitions) if one not in numbers)
    missing: JavaHashMap[Uuid, tuple[str, Sequence[int]]] = JavaHashMap()
    for name in in_order(without.keys()) if len(without) > 1 else without:
        topic_id, left = without[name]
        missing.compute_if_absent(topic_id, partial(_pair, name, left))
    return dict(missing.items())


def _pair(name: str, partitions: Sequence[int]) -> tuple[str, Sequence[int]]:
    return name, partitions


def initialize(
    shard: CoordinatorShard, group_id: str, epoch: int, missing: NamedPartitions, records: list[CoordinatorRecord]
) -> Callable[[int], None]:
    """Add the record that these partitions are initializing.

    `epoch`: of the group; their state gets it as state epoch. New partitions of topics that the
    group knows are consumed from the first record; those of new topics from where the group's
    config says.

    Returns a function to call with the time in ms when the record is written.
    """
    state = shard.state.share_states.get(group_id)
    listed = () if state is None else (*state.initialized_topics, *state.initializing_topics)
    known = {topic.topic_id for topic in listed}
    records.append(initializing_record(shard, group_id, missing))
    request = state_request(
        group_id,
        epoch,
        {
            topic_id: dict.fromkeys(partitions, 0 if topic_id in known else -1)
            for topic_id, (_, partitions) in missing.items()
        },
    )

    def then(response: InitializeShareGroupStateResponse, now_ms: int) -> Result[None]:
        if any(one.error_code for topic in response.results for one in topic.partitions):
            return _not_initialized(shard, group_id, missing, now_ms)
        return initialized(shard, group_id, missing, now_ms)

    def start(now_ms: int) -> Result[None]:
        pending = shard.persister.persist(request)
        if pending.response is not None:
            return then(pending.response, now_ms)
        shard.after(pending, "initialize-share-group-state", then)
        return Result()

    def on_written(now_ms: int) -> None:
        state_written(shard, group_id, now_ms)
        shard.timers.schedule(TIMER.format(group_id), now_ms, start, retry_ms=None)

    return on_written


def initializing_record(shard: CoordinatorShard, group_id: str, partitions: NamedPartitions) -> CoordinatorRecord:
    """Return the record that partitions are initializing, in addition to others."""
    jdk = shard.config.jdk
    state = shard.state.share_states.get(group_id)
    if state is None:
        return write.state_partitions(group_id, initializing=partitions, initialized={}, deleting=())
    initializing = combined(read(state.initializing_topics, jdk=jdk), partitions, jdk=jdk)
    deleting = JavaHashSet.of(deleting_topics(state), jdk=jdk)
    for topic_id in initializing:
        deleting.discard(topic_id)
    return write.state_partitions(
        group_id,
        initializing=initializing,
        initialized=read(state.initialized_topics, jdk=jdk),
        deleting=named(deleting, shard.image),
    )


def state_request(
    group_id: str, epoch: int, starts: Mapping[Uuid, Mapping[int, int]]
) -> InitializeShareGroupStateRequest:
    """Return the request to create share state. `starts`: by topic id and partition."""
    return InitializeShareGroupStateRequest(
        group_id=group_id,
        topics=tuple(
            InitializeStateData(
                topic_id=topic_id,
                partitions=tuple(
                    PartitionData(partition=partition, state_epoch=epoch, start_offset=start)
                    for partition, start in partitions.items()
                ),
            )
            for topic_id, partitions in starts.items()
        ),
    )


def state_written(shard: CoordinatorShard, group_id: str, now_ms: int) -> None:
    """Restart the retry interval of initializing partitions, after a record of share state.

    Kafka restarts it when it replays any such record, also one about other partitions.
    """
    group = shard.state.groups.get(group_id)
    if isinstance(group, ShareGroup):
        group.initializing_since_ms = now_ms


def initialized(shard: CoordinatorShard, group_id: str, made: NamedPartitions, now_ms: int) -> Result[None]:
    """Record that the partitions have share state; if that fails, they become uninitialized."""
    if not isinstance(shard.state.groups.get(group_id), ShareGroup):
        return Result()
    jdk = shard.config.jdk
    state = shard.state.share_states.get(group_id)
    done = in_map(in_map({topic_id: (_name(shard, topic_id), numbers) for topic_id, (_, numbers) in made.items()}))
    if state is None:
        record = write.state_partitions(group_id, initializing={}, initialized=done, deleting=())
    else:
        record = write.state_partitions(
            group_id,
            initializing=_less(read(state.initializing_topics, jdk=jdk), done, jdk=jdk),
            initialized=combined(read(state.initialized_topics, jdk=jdk), done, jdk=jdk),
            deleting=named(deleting_topics(state), shard.image),
        )

    def give_up(code: int) -> None:
        shard.tasks.append(
            Task(
                name="uninitialize-share-group-state",
                operation=lambda at_ms: _not_initialized(shard, group_id, made, at_ms),
            )
        )

    return Result(records=[record], on_appended=lambda: state_written(shard, group_id, now_ms), on_failed=give_up)


def _name(shard: CoordinatorShard, topic_id: Uuid) -> str:
    topic = shard.image.topics_by_id.get(topic_id)
    return GONE if topic is None else topic.name


def _less(topics: NamedPartitions, gone: NamedPartitions, *, jdk: int) -> NamedPartitions:
    """Return copies of topics without the partitions in `gone`."""
    left: dict[Uuid, tuple[str, tuple[int, ...]]] = {}
    for topic_id, (name, numbers) in topics.items():
        copy = JavaHashSet.of(numbers, jdk=jdk)
        for number in gone[topic_id][1] if topic_id in gone else ():
            copy.discard(number)
        if topic_id not in gone or len(copy):
            left[topic_id] = (name, tuple(copy))
    return in_map(left)


def _not_initialized(shard: CoordinatorShard, group_id: str, failed: NamedPartitions, now_ms: int) -> Result[None]:
    jdk = shard.config.jdk
    state = shard.state.share_states.get(group_id)
    if state is None or not state.initializing_topics or not failed:
        return Result()
    record = write.state_partitions(
        group_id,
        initializing=_less(read(state.initializing_topics, jdk=jdk), failed, jdk=jdk),
        initialized=read(state.initialized_topics, jdk=jdk),
        deleting=named(deleting_topics(state), shard.image),
    )
    return Result(records=[record], on_appended=lambda: state_written(shard, group_id, now_ms))


def forget_topics(shard: CoordinatorShard, delta: MetadataDelta, now_ms: int) -> Result[None]:
    """Return the records that remove deleted topics from the share state of groups."""
    gone = [topic.id for _, topic in delta.deleted_places.values()]
    records: list[CoordinatorRecord] = []
    touched: list[str] = []
    jdk = shard.config.jdk
    for group_id, state in shard.state.share_states.ordered() if gone else ():
        initializing = read(state.initializing_topics, jdk=jdk)
        initialized = read(state.initialized_topics, jdk=jdk)
        deleting = deleting_topics(state)
        if not any(topic_id in initializing or topic_id in initialized or topic_id in deleting for topic_id in gone):
            continue
        left = JavaHashSet.of(deleting, jdk=jdk)
        for topic_id in gone:
            left.discard(topic_id)
        touched.append(group_id)
        records.append(
            write.state_partitions(
                group_id,
                initializing=copy_without(initializing, gone, jdk=jdk),
                initialized=copy_without(initialized, gone, jdk=jdk),
                deleting=named(left, shard.image),
            )
        )

    def appended() -> None:
        for group_id in touched:
            state_written(shard, group_id, now_ms)

    return Result(records=records, on_appended=appended)


def losing_state(shard: CoordinatorShard, group_id: str) -> tuple[CoordinatorRecord, NamedPartitions] | None:
    """Return the record that marks a group's share state for deletion, and what to delete.

    `None` if the group has no state.
    """
    state = shard.state.share_states.get(group_id)
    if state is None:
        return None
    jdk = shard.config.jdk
    lost = combined(read(state.initialized_topics, jdk=jdk), read(state.initializing_topics, jdk=jdk), jdk=jdk)
    already: dict[Uuid, tuple[str, range]] = {
        topic_id: (topic.name, range(topic.partitions))
        for topic_id in deleting_topics(state)
        if (topic := shard.image.topics_by_id.get(topic_id)) is not None
    }
    if already:
        found: NamedPartitions = in_map(already)
        lost = combined(lost, found, jdk=jdk)
    names: JavaHashMap[Uuid, str] = JavaHashMap()
    for topic_id, (name, _) in lost.items():
        names.put(topic_id, name)
    return write.state_partitions(group_id, initializing={}, initialized={}, deleting=names.items()), lost
