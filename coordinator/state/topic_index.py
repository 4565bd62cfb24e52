"""Which groups subscribe to a topic: so that a change of the topic finds them, and what is kept for it can be dropped with the last of them."""

from collections.abc import Callable, Collection, Iterable

from quorate.coordinator.state.topic_counts import recounted

__all__ = ["TopicIndex"]

_NONE: frozenset[str] = frozenset()


class TopicIndex:
    """Topic → ids of the groups that subscribe to it.

    `on_last`: is called with topics that no group subscribes to any more.

    Topics with the same groups share one set of them: a group may subscribe to 100,000.
    """

    __slots__ = ("groups_by_topic", "on_last")

    def __init__(self) -> None:
        self.groups_by_topic: dict[str, frozenset[str]] = {}
        self.on_last: Callable[[Collection[str]], object] | None = None

    def groups(self, topics: Iterable[str]) -> set[str]:
        """The groups that subscribe to one of the topics."""
        found: set[str] = set()
        for topic in topics:
            found |= self.groups_by_topic.get(topic, _NONE)
        return found

    def subscribe(self, topics: Collection[str], group_id: str) -> None:
        """A group subscribes to different topics; again does nothing."""
        self.groups_by_topic.update(recounted(self.groups_by_topic, topics, _NONE, lambda groups: groups | {group_id}))

    def unsubscribe(self, topics: Collection[str], group_id: str) -> None:
        """A group no longer subscribes to these topics."""
        fewer = recounted(self.groups_by_topic, topics, _NONE, lambda groups: groups - {group_id})
        gone = [topic for topic, groups in fewer.items() if not groups]
        if len(gone) < len(fewer):
            self.groups_by_topic.update(fewer)
        for topic in gone:
            self.groups_by_topic.pop(topic, None)
        if gone and self.on_last is not None:
            self.on_last(gone)
