"""Which groups subscribe to a topic: so that a change of the topic finds them, and what is kept for it can be dropped with the last of them."""

from collections.abc import Callable, Iterable

__all__ = ["TopicIndex"]


class TopicIndex:
    """Topic → ids of the groups that subscribe to it. `on_last`: is called with a topic that no group subscribes to any more."""

    __slots__ = ("groups_by_topic", "on_last")

    def __init__(self) -> None:
        self.groups_by_topic: dict[str, set[str]] = {}
        self.on_last: Callable[[str], object] | None = None

    def groups(self, topics: Iterable[str]) -> set[str]:
        """The groups that subscribe to one of the topics."""
        found: set[str] = set()
        for topic in topics:
            found |= self.groups_by_topic.get(topic, set())
        return found

    def subscribe(self, topic: str, group_id: str) -> None:
        """A group subscribes to a topic; again does nothing."""
        self.groups_by_topic.setdefault(topic, set()).add(group_id)

    def unsubscribe(self, topic: str, group_id: str) -> None:
        """A group no longer subscribes to a topic."""
        groups = self.groups_by_topic.get(topic)
        if groups is None:
            return
        groups.discard(group_id)
        if not groups:
            del self.groups_by_topic[topic]
            if self.on_last is not None:
                self.on_last(topic)
