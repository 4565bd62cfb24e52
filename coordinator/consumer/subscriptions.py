"""Subscriptions of a group: topics, metadata hash (KIP-1101), subscription type, group epoch."""

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from quorate.assignors.subscription_type import SubscriptionType
from quorate.codecs import CoordinatorRecord
from quorate.codecs.messages.consumer_group import ConsumerGroupMemberMetadataValue
from quorate.coordinator.consumer import records as write
from quorate.coordinator.consumer.partition_metadata import Subscriptions, changed_record
from quorate.coordinator.metadata_hash import group_hash, topic_hash
from quorate.coordinator.shard import CoordinatorShard
from quorate.coordinator.state.consumer import ConsumerGroup, is_homogeneous
from quorate.coordinator.state.consumer_member import ConsumerMember
from quorate.coordinator.state.modern import ModernGroup
from quorate.coordinator.state.topic_counts import changed, recounted

REFRESH_INTERVAL_MS = 2_147_483_647
"""How long a metadata hash is valid unless a subscribed topic changes."""

Counts = dict[str, tuple[int, int]]
"""Topic → number of members that subscribe by name, and of resolved regexes that match it.

Topics with neither are left out.
"""


class Refreshed(NamedTuple):
    """The group epoch and the subscription type after a refresh."""

    epoch: int
    subscription_type: SubscriptionType


def is_stale(group: ModernGroup[Any, Any], now_ms: int) -> bool:
    """Return whether the metadata hash must be computed.

    That is after a load, after a change of a subscribed topic, and after a failed write.
    """
    return now_ms >= group.refresh_at_ms or group.epoch < group.refresh_epoch


def refresh(
    shard: CoordinatorShard,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    records: list[CoordinatorRecord],
    *,
    bump: bool,
    now_ms: int,
) -> Refreshed:
    """Compute the metadata hash with the member's new metadata.

    A changed hash increments the group epoch; with `bump`, it is always incremented. Also deletes
    the record of type 4 of a broker before KIP-1101; for such a release, updates that record
    instead.
    """
    counts = with_member(group, old, new)
    computed = 0
    if shard.behaviour.metadata_hash:
        computed = hash_of(shard, counts)
        bump = bump or computed != group.metadata_hash
    else:
        subscriptions = Subscriptions(shard, group)
        subscriptions.change(old, new)
        changed_records = changed_record(group, subscriptions.topics(shard.image))
        records += changed_records
        bump = bump or bool(changed_records)
    is_new = new.member_id not in group.members and new.metadata.instance_id not in group.static_members
    alike = is_homogeneous(regexes_with_member(group, old.metadata, new.metadata), counts, len(group.members) + is_new)
    kind = SubscriptionType.HOMOGENEOUS if alike else SubscriptionType.HETEROGENEOUS
    epoch = group.epoch
    if bump:
        epoch += 1
        records.append(write.group_epoch(group.group_id, epoch, computed))
    group.refresh_at_ms, group.refresh_epoch = now_ms + REFRESH_INTERVAL_MS, epoch
    if group.has_partition_metadata_record and shard.behaviour.metadata_hash:
        records.append(write.partition_metadata_tombstone(group.group_id))
    return Refreshed(epoch, kind)


def with_member(group: ConsumerGroup, old: ConsumerMember, new: ConsumerMember) -> Counts:
    """Return the counts of the group's topics after `old` became `new`.

    The topics of a regex are removed with its last subscriber.
    """
    counts: Counts = dict(group.topic_subscribers)
    found = group.recount_names(old.metadata.subscribed_topic_names, new.metadata.subscribed_topic_names)
    for topic in found.down.gone:
        del counts[topic]
    counts.update(found.down.fewer)
    counts.update(found.more)
    regex = old.metadata.subscribed_topic_regex
    if regex and regex != new.metadata.subscribed_topic_regex and group.regex_subscribers.get(regex) == 1:
        resolved = group.regexes.get(regex)
        add_topics(counts, () if resolved is None else resolved.topics, -1, regex=True)
    return counts


def without_members(
    shard: CoordinatorShard, group: ConsumerGroup, members: Iterable[ConsumerMember], regexes: Iterable[str]
) -> Counts:
    """Return the counts of existing topics without these members and regexes."""
    names = shard.image.topics.keys() & group.topic_subscribers.keys()
    counts: Counts = {name: group.topic_subscribers[name] for name in names}
    for member in members:
        add_topics(counts, filter(counts.__contains__, member.metadata.subscribed_topic_names), -1, regex=False)
    for regex in regexes:
        resolved = group.regexes.get(regex)
        matched = () if resolved is None else resolved.topics
        add_topics(counts, filter(counts.__contains__, matched), -1, regex=True)
    return counts


def add_topics(counts: Counts, topics: Iterable[str], change: int, *, regex: bool) -> None:
    """Add `change` to the counts of topics."""
    new = recounted(counts, dict.fromkeys(topics), (0, 0), lambda count: changed(count, change, regex=regex))
    counts.update(new)
    for topic in [topic for topic, count in new.items() if count == (0, 0)]:
        del counts[topic]


def hash_of(shard: CoordinatorShard, topics: Mapping[str, Any]) -> int:
    """Return the hash of the existing topics, using cached topic hashes.

    Topics that do not exist cost nothing.
    """
    known = shard.topic_hashes
    hashes: dict[str, int] = {}
    for name in shard.image.topics.keys() & topics.keys():
        if name not in known:
            topic = shard.image.topics[name]
            known[name] = topic_hash(topic.id, name, shard.image.racks(topic), shard.config.hash_algorithm)
        hashes[name] = known[name]
    return group_hash(hashes, shard.config.hash_algorithm)


def regexes_with_member(
    group: ConsumerGroup, old: ConsumerGroupMemberMetadataValue, new: ConsumerGroupMemberMetadataValue
) -> dict[str, int]:
    """Return regex → number of subscribers after `old` became `new`."""
    counts: dict[str, int] = dict(group.regex_subscribers)
    for regex, change in ((old.subscribed_topic_regex, -1), (new.subscribed_topic_regex, 1)):
        if not regex:
            continue
        count = counts.pop(regex, 0) + change
        if count > 0:
            counts[regex] = count
    return counts


def subscription_type_of(group: ConsumerGroup) -> SubscriptionType:
    """Return the subscription type of the stored members."""
    return SubscriptionType.HOMOGENEOUS if group.is_homogeneous else SubscriptionType.HETEROGENEOUS
