"""Resolution of regex subscriptions (KIP-848).

A `Task` resolves regexes asynchronously, since resolution may take long. All regexes of a group are
resolved together, so that a change of topics causes one rebalance.
"""

from collections.abc import Generator, Mapping, Sequence
from enum import Enum

from quorate.assignors.java_order import JavaHashMap, copied_map_capacity, in_java_order
from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.partition_metadata import Subscriptions, changed_record
from quorate.coordinator.consumer.patterns import PatternError, compiled
from quorate.coordinator.consumer.subscriptions import REFRESH_INTERVAL_MS, Counts, add_topics, hash_of
from quorate.coordinator.errors import ApiError, ErrorCode
from quorate.coordinator.image import MetadataDelta, MetadataImage
from quorate.coordinator.results import RequestContext, Result, Task
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup
from quorate.coordinator.state.modern import ModernGroup

MIN_REFRESH_INTERVAL_MS = 10_000
"""Minimum time between two resolutions of a group's regexes."""


class RegexChange(Enum):
    """How a heartbeat changes its member's regex.

    `RESOLVED`: the new regex is already resolved, or the member removed its regex.
    """

    NONE = "none"
    CHANGED = "changed"
    RESOLVED = "resolved"


def update_regex(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    old: ConsumerGroupMemberMetadataValue,
    new: ConsumerGroupMemberMetadataValue,
    records: list[CoordinatorRecord],
    context: RequestContext,
) -> RegexChange:
    """Apply the member's regex, and schedule a resolution if it is due.

    Raises `ApiError` INVALID_REGULAR_EXPRESSION for an invalid regex that is new to the group.
    """
    old_regex, new_regex = old.subscribed_topic_regex, new.subscribed_topic_regex
    change, is_new = RegexChange.NONE, False
    if old_regex != new_regex:
        change = RegexChange.CHANGED
        if old_regex and group.regex_subscribers.get(old_regex, 0) == 1:
            records.append(write.regex_tombstone(group.group_id, old_regex))
        if new_regex and group.regex_subscribers.get(new_regex, 0) == 0:
            _check_regex(new_regex)
            is_new = True
        elif (new_regex and new_regex in group.regexes) or (
            not new_regex and old_regex and shard.behaviour.regex_removal_bumps
        ):
            change = RegexChange.RESOLVED
    if is_new or group.regex_subscribers:
        _resolve_if_due(shard, group, old_regex, new_regex, is_new=is_new, context=context)
    return change


def _check_regex(regex: str) -> None:
    try:
        compiled(regex)
    except PatternError as error:
        raise ApiError(
            ErrorCode.INVALID_REGULAR_EXPRESSION,
            f"SubscribedTopicRegex `{regex}` is not a valid regular expression: {error}.",
        ) from None


def _resolve_if_due(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    old_regex: str | None,
    new_regex: str | None,
    *,
    is_new: bool,
    context: RequestContext,
) -> None:
    now_ms = context.now_ms
    name = f"{group.group_id}-regex"
    if any(task.name == name for task in shard.tasks):
        return
    # All regexes are resolved together, so any of them has the time of the last resolution.
    last = next((value for _, value in group.regexes.ordered()), None)
    if last is not None and now_ms <= last.timestamp + MIN_REFRESH_INTERVAL_MS:
        return
    subscribed = _subscribed_regexes(group, old_regex, new_regex, shard.config.jdk)
    due = (
        is_new
        or len(subscribed) != len(group.regexes)
        or (0 if last is None else last.version) < shard.new_topics_version
        or last is None
        or (
            shard.behaviour.rematches
            and now_ms > last.timestamp + shard.config.group_consumer_regex_refresh_interval_ms
        )
    )
    if due and subscribed:
        group_id = group.group_id

        image, matched = shard.image, dict[str, list[str]]()

        def match() -> Generator[None, None, None]:
            nonlocal image
            image = shard.image
            matched.update((yield from matching_topics(subscribed, image)))

        def resolve(at_ms: int) -> Result[None]:
            authorized = _authorized(shard, context, matched)
            version = image.version or shard.behaviour.first_version
            return Result(records=resolution_records(shard, group_id, authorized, version, at_ms))

        shard.tasks.append(Task(name=name, operation=resolve, work=match))


def _subscribed_regexes(group: ConsumerGroup, old_regex: str | None, new_regex: str | None, jdk: int) -> list[str]:
    """Return the group's regexes with this heartbeat's change, in the order of Kafka's map."""
    size = len(group.regex_subscribers)
    counts: JavaHashMap[str, int] = JavaHashMap(copied_map_capacity(size, jdk) if size else None)
    for regex, count in group.regex_subscribers.ordered():
        counts.put(regex, count)
    if old_regex and old_regex in counts:
        if counts[old_regex] > 1:
            counts.put(old_regex, counts[old_regex] - 1)
        else:
            counts.remove(old_regex)
    if new_regex:
        counts.put(new_regex, counts.compute_if_absent(new_regex, int) + 1)
    return list(counts)


def matching_topics(regexes: Sequence[str], image: MetadataImage) -> Generator[None, None, dict[str, list[str]]]:
    """Return regex → sorted topics whose whole name it matches, in the order of Kafka's records.

    An invalid regex matches nothing. Yields after each topic, as matching one can take 10 ms.
    """
    matched: JavaHashMap[str, list[str]] = JavaHashMap(len(regexes))
    for regex in regexes:
        try:
            pattern = compiled(regex)
        except PatternError:
            matched.put(regex, [])
        else:
            names = []
            for name in image.topics:
                if pattern.matches(name):
                    names.append(name)
                yield
            matched.put(regex, in_java_order(names))
    copied: JavaHashMap[str, list[str]] = JavaHashMap(len(regexes))
    for regex, topics in matched.items():
        copied.put(regex, topics)
    return dict(copied.items())


def _authorized(
    shard: CoordinatorShard, context: RequestContext, matched: Mapping[str, Sequence[str]]
) -> Mapping[str, Sequence[str]]:
    """Return the matched topics that the client of the heartbeat may describe.

    As in Kafka, its permissions apply to the regexes of all members.
    """
    names = frozenset(name for topics in matched.values() for name in topics)
    if shard.may_describe is None or not names:
        return matched
    allowed = set(shard.may_describe(context, names))
    return {regex: [name for name in topics if name in allowed] for regex, topics in matched.items()}


def resolution_records(
    shard: CoordinatorShard, group_id: str, topics_of: Mapping[str, Sequence[str]], version: int, now_ms: int
) -> list[CoordinatorRecord]:
    """Return the records of resolved regexes, and of a new group epoch if the topics changed."""
    group = shard.state.groups.get(group_id)
    if not isinstance(group, ConsumerGroup):
        return []
    records: list[CoordinatorRecord] = []
    counts: Counts = dict(group.topic_subscribers)
    subscriptions = None if shard.behaviour.metadata_hash else Subscriptions(shard, group)
    changed = False
    for regex, topics in topics_of.items():
        if not group.regex_subscribers.get(regex):
            continue  # its last subscriber has left or changed its regex
        old = group.regexes.get(regex)
        before = () if old is None else old.topics
        if set(before) != set(topics):
            changed = True
            add_topics(counts, before, -1, regex=True)
            add_topics(counts, topics, 1, regex=True)
            if subscriptions is not None:
                subscriptions.match(regex, topics)
        records.append(write.resolved_regex(group_id, regex, topics=topics, version=version, timestamp_ms=now_ms))
    computed = 0
    if subscriptions is not None:
        changed_records = changed_record(group, subscriptions.topics(shard.image))
        records += changed_records
        changed = changed or bool(changed_records)
    else:
        computed = hash_of(shard, counts)
        changed = changed or computed != group.metadata_hash
    if changed:
        epoch = group.epoch + 1
        records.append(write.group_epoch(group_id, epoch, computed))
        group.refresh_at_ms, group.refresh_epoch = now_ms + REFRESH_INTERVAL_MS, epoch
    return records


def update_topics(shard: CoordinatorShard, delta: MetadataDelta, now_ms: int) -> Result[None]:
    """Mark the metadata hash of subscribed groups as outdated; store the version of new topics."""
    if shard.new_topics_version == -1 or delta.created:
        shard.new_topics_version = shard.image.version
    for group_id in shard.state.topics.groups((*delta.changed, *(topic.name for topic in delta.deleted))):
        group = shard.state.groups.get(group_id)
        if isinstance(group, ModernGroup):
            group.refresh_at_ms, group.refresh_epoch = 0, 0
    return Result()


def set_first_topics_version(shard: CoordinatorShard) -> None:
    """Set the image version from which regexes must be resolved again, after a load."""
    if shard.new_topics_version == -1:
        shard.new_topics_version = shard.image.version
