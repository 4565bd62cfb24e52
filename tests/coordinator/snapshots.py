"""The content of a `CoordinatorState` as comparable values, with the order and size of its maps."""

from collections import Counter
from typing import Any

from quorate.assignors.java_order import TimelineMap
from quorate.codecs.message import Message
from quorate.coordinator.state import CommittedOffset, CoordinatorState
from quorate.coordinator.state.topic_index import TopicIndex


def snapshot(state: CoordinatorState) -> dict[str, Any]:
    """Return a value that is equal for two states that no request can distinguish."""
    found = {name: _plain(value) for name, value in vars(state).items() if name != "_replay"}
    found["ordered groups"] = [group_id for group_id, _ in state.groups.ordered()]
    return found


def _plain(value: Any) -> Any:
    match value:
        case CommittedOffset():
            return type(value.value), value.value, value.record_offset
        case Message():
            return type(value), value
        case TimelineMap():
            return value.slots, [(_plain(key), _plain(one)) for key, one in value.items()]
        case Counter() | dict():
            return [(_plain(key), _plain(one)) for key, one in value.items()]
        case set() | frozenset():
            return sorted(value)
        case list() | tuple():
            return [_plain(one) for one in value]
        case None | bool() | int() | str() | bytes():
            return value
    names = [name for cls in type(value).__mro__ for name in getattr(cls, "__slots__", ())]
    names += list(getattr(value, "__dict__", ()))
    # Indexes are made when they are needed. A heartbeat keeps the timer of a session.
    skipped = (
        {"index", "on_last", "_unreconciled", "session", "target_index"}
        if not isinstance(value, TopicIndex)
        else {"on_last"}
    )
    return type(value), {name: _plain(getattr(value, name)) for name in names if name not in skipped}
