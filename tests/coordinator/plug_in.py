"""A server-side assignor that is written twice, here and as tests/oracle/…/oracle/PlugIn.java.

Its result depends on everything that an assignor sees. It fails for members in certain racks.
"""

from quorate.assignors import GroupAssignment, GroupSpec, SubscribedTopicDescriber, SubscriptionType
from quorate.codecs import Uuid

FAULTS = ["refuses", "raises", "returns null"]
"""Racks of members for which it fails."""


class PlugIn:
    """Prefers local members, then the owner, then the member with the fewest partitions."""

    name = "plug-in"

    def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber) -> GroupAssignment:
        subscriptions = {member_id: group_spec.member_subscription(member_id) for member_id in group_spec.member_ids}
        racks = {subscription.rack_id for subscription in subscriptions.values()}
        for fault in FAULTS:
            if fault in racks:
                if fault == "returns null":
                    return None  # type: ignore[return-value]
                raise RuntimeError(fault)
        target: dict[str, dict[Uuid, list[int]]] = {member_id: {} for member_id in subscriptions}
        counts = dict.fromkeys(subscriptions, 0)
        topics = {topic for subscription in subscriptions.values() for topic in subscription.subscribed_topic_ids}
        backwards = group_spec.subscription_type is SubscriptionType.HETEROGENEOUS
        for topic in sorted(topics, key=str, reverse=backwards):
            subscribers = [one for one in subscriptions if topic in subscriptions[one].subscribed_topic_ids]
            for partition in range(topic_describer.num_partitions(topic)):
                local = topic_describer.racks_for_partition(topic, partition)
                ranked = sorted(
                    (
                        subscriptions[member_id].rack_id not in local,
                        partition not in group_spec.member_assignment(member_id).get(topic, ()),
                        counts[member_id],
                        subscriptions[member_id].instance_id is None,
                        member_id,
                    )
                    for member_id in subscribers
                )
                # Partitions without an owner go to the second member.
                second = len(ranked) > 1 and not group_spec.is_partition_assigned(topic, partition)
                chosen = ranked[1 if second else 0][-1]
                counts[chosen] += 1
                target[chosen].setdefault(topic, []).append(partition)
        return target
