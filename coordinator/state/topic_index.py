"""Index of the groups that subscribe to a topic.

It finds groups for a changed topic, and reports topics without subscribers.
"""

from collections.abc import Callable, Collection, Iterable

from quorate.coordinator.state.topic_counts import recounted

_NONE: frozenset[str] = frozenset()


class TopicIndex:
    """Topic → ids of the groups that subscribe to it.

    `on_last`: called with topics that have no subscribed group left. Topics with the same groups
    share one set, as a group may subscribe to 100,000.
    """

    __slots__ = ("groups_by_topic", "on_last")

    def __init__(self) -> None:
        self.groups_by_topic: dict[str, frozenset[str]] = {}
        self.on_last: Callable[[Collection[str]], object] | None = None

    def groups(self, topics: Iterable[str]) -> set[str]:
        """Return the groups that subscribe to one of the topics."""
        found: set[str] = set()
        for topic in topics:
            found |= self.groups_by_topic.get(topic, _NONE)
        return found

    def subscribe(self, topics: Collection[str], group_id: str) -> None:
        """Add a group's subscription to distinct topics; repeating it does nothing."""
        self.groups_by_topic.update(recounted(self.groups_by_topic, topics, _NONE, lambda groups: groups | {group_id}))

    def unsubscribe(self, topics: Collection[str], group_id: str) -> None:
        """Remove a group's subscription to these topics."""
        fewer = recounted(self.groups_by_topic, topics, _NONE, lambda groups: groups - {group_id})
        gone = [topic for topic, groups in fewer.items() if not groups]
        if len(gone) < len(fewer):
            self.groups_by_topic.update(fewer)
        for topic in gone:
            self.groups_by_topic.pop(topic, None)
        if gone and self.on_last is not None:
            self.on_last(gone)
