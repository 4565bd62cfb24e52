"""Server-side assignors that are plug-ins: finds, loads and runs them, and checks their results.

A plug-in is a `ServerAssignor`, or an `Assignor` of quorate's own interface, which works on arrays.
"""

import importlib
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import isasyncgenfunction, isclass, iscoroutinefunction, isgeneratorfunction, signature
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from quorate.assignors.assignor import Assignor
from quorate.assignors.group import GroupSpec
from quorate.assignors.model import Assignment, AssignorError
from quorate.assignors.protocol import ServerAssignor, SubscribedTopicDescriber
from quorate.assignors.topology import Ints
from quorate.codecs import Uuid
from quorate.codecs.printable import brief

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINTS = "quorate.server_assignors"
"""The group of entry points of installed plug-ins."""

_MAX_REASON = 500
"""Characters of an exception in messages."""


_MACHINERY = (__file__, str(Path(importlib.__file__).parent), "<")
"""Files that run a plug-in's code, but are not its code."""


class PlugInAssignor(Assignor):
    """Runs a `ServerAssignor` as an `Assignor`. `origin`: where it was loaded from."""

    def __init__(self, plug_in: ServerAssignor, name: str, origin: str) -> None:
        self.plug_in = plug_in
        self.name = name  # type: ignore[misc]  # a class variable of other assignors
        self.origin = origin

    def assign_group(self, group: GroupSpec) -> Assignment:
        """Run the plug-in on a copy of the group.

        Raises `AssignorError` for a fault, which it names.
        """
        topology = group.topology
        missing = group.subscribed_topics[np.isin(group.subscribed_topics, topology.without_id)]
        if len(missing):
            raise AssignorError(
                f"topic {topology.topics[missing[0]].name} has no id, which server-side assignors require"
            )
        with _faults_of(f"assignor {self.name} ({self.origin})", _Fault):
            assigned = self.plug_in.assign(group.copied(), SubscribedTopicDescriber(topology))
            numbers, owners = _numbers(group, assigned)
            assignment = Assignment.from_owners(topology, group.member_ids, numbers, owners)
            _check(group, assignment)
        return assignment


class _Fault(AssignorError):
    """What a plug-in returned that the group cannot use."""


@contextmanager
def _faults_of(assignor: str, plain: type[AssignorError]) -> Iterator[None]:
    """Raise `AssignorError`, which names the assignor, for each exception.

    `plain`: errors whose text says what the assignor did.
    """
    try:
        yield
    except plain as fault:
        raise AssignorError(f"{assignor} {fault}") from fault.__cause__
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # of the plug-in, even SystemExit: it must not end the broker
        raise AssignorError(f"{assignor} raised {type(error).__name__}{_reason(error)}{_place(error)}") from error


def checked(
    assignor: Assignor, group: GroupSpec, assign: Callable[[GroupSpec], Assignment] | None = None
) -> Assignment:
    """Run an assignor, and check that the group can use the result.

    Each member's partitions are listed by topic, ascending. `assign`: called instead of
    `assign_group`. Raises `AssignorError` for a fault of the assignor, which it names.
    """
    if isinstance(assignor, PlugInAssignor):
        return assignor.assign_group(group)
    with _faults_of(f"assignor {assignor.name}", AssignorError):
        assignment = (assign or assignor.assign_group)(_guarded(assignor, group))
        if assignment.topology is not group.topology or tuple(assignment.member_ids) != tuple(group.member_ids):
            raise _Fault("returned an assignment of another group")
        owners = _check(group, assignment)
        numbers = assignment.partitions[np.lexsort((assignment.partitions, owners))]
    return Assignment(group.topology, group.member_ids, assignment.offsets, numbers)


def _guarded(assignor: Assignor, group: GroupSpec) -> GroupSpec:
    """Return the group for an assignor; for one that is not of quorate, a copy.

    The arrays of the topology, which groups share, become read-only then.
    """
    if type(assignor).__module__.partition(".")[0] == "quorate":
        return group
    for value in vars(group.topology).values():
        if isinstance(value, np.ndarray):
            value.setflags(write=False)
    return group.copied()


def _check(group: GroupSpec, assignment: Assignment) -> Ints:
    """Raise `_Fault` if the group cannot use the assignment. Returns the owners."""
    topology, numbers = group.topology, assignment.partitions
    owners: Ints = np.repeat(np.arange(len(group)), assignment.counts)
    if len(numbers):
        if numbers.min() < 0 or numbers.max() >= topology.first[-1]:
            raise _Fault("returned a partition that does not exist")
        twice = np.flatnonzero(np.bincount(numbers, minlength=1) > 1)
        if len(twice):
            first, second = sorted(group.member_ids[one] for one in owners[numbers == twice[0]][:2].tolist())
            to = f"members {first} and {second}" if first != second else f"member {first} twice"
            raise _Fault(f"assigned {_named(group, twice[0])} to {to}")
        foreign = np.flatnonzero(~group.subscribes[group.subscription_of[owners], topology.topic_of[numbers]])
        if len(foreign):
            number, owner = numbers[foreign[0]], group.member_ids[int(owners[foreign[0]])]
            raise _Fault(f"assigned {_named(group, number)} to member {owner}, which does not subscribe to the topic")
    return owners


def _named(group: GroupSpec, number: Any) -> str:
    (found,) = group.topology.topic_partitions(np.array([number]))
    return f"{found.topic}-{found.partition}"


def _numbers(group: GroupSpec, assigned: Any) -> tuple[Ints, Ints]:
    """Return partition numbers and member numbers of what a plug-in returned. Raises `_Fault`."""
    if not isinstance(assigned, Mapping):
        raise _Fault(f"returned {_kind(assigned)}, not a mapping of member ids to topic ids to partitions")
    topology = group.topology
    number_of = {member_id: number for number, member_id in enumerate(group.member_ids)}
    numbers: list[int] = []
    owners: list[int] = []
    for member_id, topics in assigned.items():
        member = number_of.get(member_id)
        if member is None:
            raise _Fault(f"assigned partitions to {_shown(member_id)}, which is not a member of the group")
        if not isinstance(topics, Mapping):
            raise _Fault(f"returned {_kind(topics)} for member {member_id}, not a mapping of topic ids to partitions")
        for topic_id, partitions in topics.items():
            topic = topology.index_by_id.get(topic_id)
            if topic is None:
                shown = str(topic_id) if isinstance(topic_id, Uuid) else _shown(topic_id)
                raise _Fault(f"assigned topic id {shown} to member {member_id}; no such topic is subscribed")
            name = topology.topics[topic].name
            found: list[int] = []
            for partition in _iterated(partitions, member_id, name):
                number = topology.number(name, _as_index(partition, member_id, name))
                if number < 0:
                    what = f"partition {_shown(partition)} of topic {name}"
                    raise _Fault(f"assigned {what} to member {member_id}; it has none")
                found.append(number)
            numbers += sorted(found)
            owners += [member] * len(found)
    return np.array(numbers, np.int64), np.array(owners, np.int64)


def _iterated(partitions: Any, member_id: str, topic: str) -> Iterable[Any]:
    if not isinstance(partitions, Iterable) or isinstance(partitions, str | bytes):
        raise _Fault(f"returned {_kind(partitions)} for topic {topic} of member {member_id}, not its partitions")
    return partitions


def _as_index(partition: Any, member_id: str, topic: str) -> int:
    try:
        return index(partition)
    except TypeError:
        raise _Fault(f"returned {_shown(partition)} as a partition of topic {topic} for member {member_id}") from None


def _kind(value: Any) -> str:
    return "None" if value is None else f"a value of type {type(value).__name__}"


def _shown(value: Any) -> str:
    try:
        return brief(repr(value), 100)
    except Exception:  # noqa: BLE001  # of a class of the plug-in, or a number of thousands of digits
        return _kind(value)


def _reason(error: BaseException) -> str:
    try:
        text = " ".join(str(error).split())
    except Exception:  # noqa: BLE001  # of an exception class of the plug-in
        text = ""
    return f": {brief(text, _MAX_REASON)}" if text else ""


def _place(error: BaseException) -> str:
    """Return the file and line of a plug-in in which an exception was raised, if it was."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(_MACHINERY)]
    return f" ({frames[-1].filename}, line {frames[-1].lineno})" if frames else ""


# ---- loading


def installed() -> "dict[str, list[EntryPoint]]":
    """Return the entry points of installed plug-ins, by name; usually one of each."""
    from importlib.metadata import entry_points  # takes longer than the rest of this package

    found: dict[str, list[EntryPoint]] = {}
    for one in entry_points(group=ENTRY_POINTS):
        found.setdefault(one.name, []).append(one)
    return found


def is_path(text: str) -> bool:
    """Return whether a text has the form MODULE:CLASS."""
    module, colon, name = text.partition(":")
    parts = [*module.split("."), *name.split(".")]
    return bool(colon) and all(part.isidentifier() for part in parts)


def load(text: str, **options: Any) -> Assignor:
    """Load a plug-in: MODULE:CLASS, or the name of an installed one.

    `options`: passed to its class. Raises `AssignorError` if it is unknown or does not load.
    """
    try:
        found, origin = _found(text)
        if isclass(found):
            found = found(**options)
        elif options:
            raise AssignorError(f"{text} is no class, so it takes no options")
        assignor = as_assignor(found, origin)
    except AssignorError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # importing and creating a plug-in runs its code
        raise AssignorError(f"cannot load {text}: {type(error).__name__}{_reason(error)}{_place(error)}") from error
    if origin != text and assignor.name != text:
        raise AssignorError(
            f"entry point {text} ({origin}) has an assignor with the name {assignor.name!r}; give both the same name"
        )
    return assignor


def class_of(text: str) -> type | None:
    """Return the class of a plug-in, `None` if it is not known by a class.

    Raises `AssignorError` as `load`.
    """
    try:
        found, _ = _found(text)
    except AssignorError:
        raise
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # as in `load`
        raise AssignorError(f"cannot load {text}: {type(error).__name__}{_reason(error)}{_place(error)}") from error
    return found if isclass(found) else None


def _found(text: str) -> tuple[Any, str]:
    """Return what a plug-in's entry point or path refers to, and that path."""
    if is_path(text):
        return _imported(text), text
    known = installed()
    if text not in known:
        raise AssignorError(f"there is no plug-in {text!r}")
    if len(paths := sorted({one.value for one in known[text]})) > 1:
        raise AssignorError(
            f"several installed packages have an assignor {text}: {', '.join(paths)}; give MODULE:CLASS of one"
        )
    return known[text][0].load(), paths[0]


def _imported(text: str) -> Any:
    module, _, name = text.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found


def as_assignor(value: Any, origin: str | None = None) -> Assignor:
    """Return a plug-in as an `Assignor`.

    `origin`: where it was loaded from; by default its class. Raises `AssignorError` if it is none.
    """
    kind = value if isclass(value) else type(value)
    origin = origin or f"{kind.__module__}:{kind.__qualname__}"
    try:
        problem = _problem(value)
        name = None if problem else value.name
    except Exception as error:  # of a property of the plug-in
        problem = f"{type(error).__name__}{_reason(error)}{_place(error)}"
        raise AssignorError(f"{origin} is no server-side assignor: {problem}") from error
    if problem:
        raise AssignorError(f"{origin} is no server-side assignor: {problem}")
    if not isinstance(name, str) or not name.isprintable() or not name or name != name.strip() or set(name) & set(",:"):
        raise AssignorError(
            f"{origin} has the name {_shown(name)}; give it printable text without commas, colons or spaces around it"
        )
    return value if isinstance(value, Assignor) else PlugInAssignor(value, name, origin)


def _problem(value: Any) -> str | None:
    """Return why a value is no assignor; `None` if it may be one."""
    if isclass(value):
        return "a class; give an instance"
    if missing := [name for name in ("name", "assign") if not hasattr(value, name)]:
        return f"without {' and '.join(missing)}"
    if not callable(value.assign):
        return "assign is no method"
    if isinstance(value, Assignor):
        return None
    if iscoroutinefunction(value.assign) or isasyncgenfunction(value.assign):
        return "assign is async; it must return the target assignment"
    if isgeneratorfunction(value.assign):
        return "assign has a yield; it must return the target assignment"
    try:
        found = signature(value.assign)
    except (TypeError, ValueError):  # of some functions in C
        return None
    try:
        found.bind(None, None)
    except TypeError:
        return f"assign{found} does not take the two arguments group_spec and topic_describer"
    return None
