"""Group descriptions in YAML or JSON: reads and writes them.

docs/reference/cli.md describes the fields. This module checks what a description contains; `nodes`
checks single values.
"""

import contextlib
import json
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from quorate.assignors import Member, Topic, TopicPartition, Topology
from quorate.assignors.topology import grouped
from quorate.assignors.what_if.nodes import ParsedValue
from quorate.assignors.what_if.situation import GroupSituation
from quorate.codecs import Uuid
from quorate.codecs.errors import InputError

MOST_BYTES = 64 << 20
"""Maximum size of a file."""

MOST_PARTITIONS = 10_000_000
"""Maximum number of partitions of a topic; protects memory against typing errors."""

MOST_LAG = 2**63 - 1
"""Offsets are 64 bits."""

MOST_NUMBER = 2**31 - 1
"""Partition numbers are 32 bits."""

_FIELDS = ("group", "protocol", "assignor", "brokers", "topics", "members")
_TOPIC_FIELDS = ("partitions", "racks", "replicas", "id", "lag", "numbers")
_MEMBER_FIELDS = ("topics", "rack", "instance_id", "owned", "generation")


def read_description(path: str, name: str | None = None) -> GroupSituation:
    """Read the situation that a file describes; `-` is standard input.

    `name`: the file name in messages. Raises `InputError` with the place in the file.
    """
    root = _parsed(path, name)
    fields = root.fields(_FIELDS)
    topology, lags = _topology(root, fields)
    if "members" not in fields:
        root.fail("has no members", "list them: members: {worker-1: {rack: a}, worker-2: {rack: b}}")
    members = {
        member_id: _member(node, topology) for member_id, node in fields["members"].entries("member id to member")
    }
    _check_static(fields["members"], members)
    protocol = fields["protocol"].one_of(("classic", "consumer")) if "protocol" in fields else None
    return GroupSituation(
        source=root.file,
        group_id=fields["group"].text() if "group" in fields else None,
        protocol=protocol,  # type: ignore[arg-type]  # one_of gives one of the two
        assignor=fields["assignor"].text() if "assignor" in fields else None,
        members=members,
        topology=topology,
        current={member_id: member.owned for member_id, member in members.items()},
        lags=lags,
    )


def read_topology(path: str) -> tuple[Topology, Mapping[TopicPartition, int] | None]:
    """Read the topics of a description, and its lags if it has any; members are optional.

    Raises `InputError` with the place in the file.
    """
    root = _parsed(path)
    return _topology(root, root.fields(_FIELDS))


def described(situation: GroupSituation) -> dict[str, Any]:
    """Return a situation's description as plain values; reading it gives an equal situation."""
    lags = situation.lags
    found: dict[str, Any] = {
        name: value
        for name, value in (
            ("group", situation.group_id),
            ("protocol", situation.protocol),
            ("assignor", situation.assignor),
        )
        if value is not None
    }
    found["topics"] = {topic.name: _topic_described(topic, lags) for topic in situation.topology.topics}
    found["members"] = {
        member_id: _member_described(
            member, [at for at in situation.current.get(member_id, ()) if situation.topology.number(*at) >= 0]
        )
        for member_id, member in situation.members.items()
    }
    return found


def _topic_described(topic: Topic, lags: Mapping[TopicPartition, int] | None) -> dict[str, Any]:
    numbers = topic.numbers or range(topic.partitions)
    found: dict[str, Any] = {"partitions": topic.partitions}
    if any(any(racks) for racks in topic.racks):
        found["racks"] = [list(racks) for racks in topic.racks]
    if topic.id is not None:
        found["id"] = str(topic.id)
    if topic.numbers is not None:
        found["numbers"] = list(topic.numbers)
    if lags is not None:
        found["lag"] = [lags.get(TopicPartition(topic.name, number)) for number in numbers]
    return found


def _member_described(member: Member, owned: Iterable[tuple[str, int]]) -> dict[str, Any]:
    found: dict[str, Any] = {"topics": list(member.topics)}
    if member.rack:
        found["rack"] = member.rack
    if member.instance_id is not None:
        found["instance_id"] = member.instance_id
    if by_topic := grouped(owned):
        found["owned"] = by_topic
        found["generation"] = member.generation
    return found


# ---- reading


def _topology(
    root: ParsedValue, fields: Mapping[str, ParsedValue]
) -> tuple[Topology, Mapping[TopicPartition, int] | None]:
    racks: dict[int, str | None] = {}
    if "brokers" in fields:
        for broker, node in fields["brokers"].entries("broker id to rack"):
            if not _is_number(broker):
                node.fail("broker ids are numbers", "brokers: {1: rack-a, 2: rack-b}")
            racks[int(broker)] = None if node.value is None else node.text() or None
    if "topics" not in fields:
        root.fail("has no topics", "list them: topics: {orders: 12, payments: {partitions: 6}}")
    topics: list[Topic] = []
    lags: dict[TopicPartition, int] = {}
    lags_given = False
    for name, node in fields["topics"].entries("topic to its partitions"):
        topic, of_topic = _topic(name, node, racks)
        topics.append(topic)
        if of_topic is not None:
            lags_given = True
            lags |= of_topic
    return Topology(topics), lags if lags_given else None


def _topic(
    name: str, node: ParsedValue, broker_racks: Mapping[int, str | None]
) -> tuple[Topic, dict[TopicPartition, int] | None]:
    if not isinstance(node.value, dict):
        return Topic(name=name, partitions=node.number(most=MOST_PARTITIONS)), None
    fields = node.fields(_TOPIC_FIELDS)
    if "racks" in fields and "replicas" in fields:
        fields["replicas"].fail("racks are given, too", "give either racks or replicas")
    racks: list[tuple[str | None, ...]] = []
    if "racks" in fields:
        racks = [
            tuple(None if rack.value is None else rack.text() or None for rack in partition.items("racks"))
            for partition in fields["racks"].items("lists of racks, one per partition")
        ]
    elif "replicas" in fields:
        racks = [
            tuple(_rack_of(broker, broker_racks) for broker in partition.items("broker ids"))
            for partition in fields["replicas"].items("lists of broker ids, one per partition")
        ]
    if "partitions" in fields:
        partitions = fields["partitions"].number(most=MOST_PARTITIONS)
        if len(racks) > partitions:
            given = fields.get("racks") or fields["replicas"]
            given.fail(
                f"has {len(racks):,} entries for {partitions:,} partitions", "give at most one entry per partition"
            )
        if racks:  # a shorter list is a pattern
            racks = [racks[number % len(racks)] for number in range(partitions)]
    elif racks:
        partitions = len(racks)
    else:
        node.fail("has no number of partitions", "give partitions, racks or replicas")
    numbers: list[int] | None = None
    if "numbers" in fields:
        numbers = [one.number(most=MOST_NUMBER) for one in fields["numbers"].items("partition numbers")]
        if numbers != sorted(set(numbers)) or len(numbers) != partitions:
            fields["numbers"].fail(f"must be {partitions:,} different numbers, ascending")
    topic = Topic(
        name=name,
        partitions=partitions,
        racks=tuple(racks),
        id=fields["id"].read(Uuid.parse) if "id" in fields else None,
        numbers=numbers,
    )
    return topic, _lag(fields["lag"], topic) if "lag" in fields else None


def _rack_of(node: ParsedValue, broker_racks: Mapping[int, str | None]) -> str | None:
    broker = node.number()
    if broker not in broker_racks:
        node.fail(
            f"broker {broker} is not among the brokers",
            "add it with its rack, as in brokers: {1: rack-a}; null means no rack",
        )
    return broker_racks[broker]


def _lag(node: ParsedValue, topic: Topic) -> dict[TopicPartition, int]:
    """Read lags: one number for all partitions, a list, or a mapping of partition to lag."""
    numbers = topic.numbers or range(topic.partitions)
    if isinstance(node.value, list):
        items = node.items("lags, one per partition")
        if len(items) != topic.partitions:
            node.fail(
                f"has {len(items):,} entries for {topic.partitions:,} partitions",
                "null means an unknown lag",
            )
        pairs = list(zip(numbers, items, strict=True))
    elif isinstance(node.value, dict):
        pairs = [(_partition(name, item, topic), item) for name, item in node.entries("partition to lag")]
    else:
        pairs = [(number, node) for number in numbers]
    return {
        TopicPartition(topic.name, number): item.number(most=MOST_LAG)
        for number, item in pairs
        if item.value is not None
    }


def _partition(text: str, node: ParsedValue, topic: Topic) -> int:
    number = int(text) if _is_number(text) else -1
    numbers = topic.numbers or range(topic.partitions)
    if number not in numbers:
        node.fail(f"{text} is not a partition of {topic.name}", _partitions_of(topic))
    return number


def _is_number(text: str) -> bool:
    """Return whether the text is digits that `int` accepts."""
    return text.isascii() and text.isdigit() and len(text) < 20


def _partitions_of(topic: Topic) -> str:
    if not topic.partitions:
        return f"{topic.name} has no partitions"
    numbers = topic.numbers or range(topic.partitions)
    return f"{topic.name} has partitions {numbers[0]} to {numbers[-1]}"


def _member(node: ParsedValue, topology: Topology) -> Member:
    everything = [topic.name for topic in topology.topics]
    if node.value is None:
        return Member(topics=everything)
    fields = node.fields(_MEMBER_FIELDS)
    owned = _owned(fields["owned"], topology) if "owned" in fields else ()
    generation = (
        fields["generation"].number(least=-1, most=2**31 - 1) if "generation" in fields else (1 if owned else -1)
    )
    return Member(
        topics=[one.text() for one in fields["topics"].items("topic names")] if "topics" in fields else everything,
        rack=fields["rack"].text() or None if "rack" in fields else None,
        instance_id=fields["instance_id"].text() if "instance_id" in fields else None,
        owned=owned,
        generation=generation,
    )


def _owned(node: ParsedValue, topology: Topology) -> tuple[tuple[str, int], ...]:
    found: dict[tuple[str, int], None] = {}
    for name, partitions in node.entries("topic to a list of partitions"):
        index = topology.index.get(name)
        if index is None:
            partitions.fail("is not among the topics", "add it under topics, or leave it out")
        topic = topology.topics[index]
        for item in partitions.items("partitions"):
            number = item.number()
            if topology.number(name, number) < 0:
                item.fail(f"{number:,} is not a partition of {name}", _partitions_of(topic))
            if (name, number) in found:
                item.fail(f"{number:,} is listed twice")
            found[name, number] = None
    return tuple(found)


def _check_static(node: ParsedValue, members: Mapping[str, Member]) -> None:
    seen: dict[str, str] = {}
    for member_id, member in members.items():
        if member.instance_id is not None:
            other = seen.setdefault(member.instance_id, member_id)
            if other != member_id:
                place = ParsedValue(None, node.file, f"{node.path}.{member_id}.instance_id")
                place.fail(f"{member.instance_id!r} is also that of {other}", "give each member its own instance id")


# ---- parsing


def _parsed(path: str, name: str | None = None) -> ParsedValue:
    name = name or ("standard input" if path == "-" else path)
    try:
        with contextlib.nullcontext(sys.stdin.buffer) if path == "-" else Path(path).open("rb") as file:
            raw = file.read(MOST_BYTES + 1)
    except IsADirectoryError:
        raise InputError(
            f"{name}: is a directory, not a description", "give a log with --log of `quorate assign`"
        ) from None
    except OSError as error:
        raise InputError(f"{name}: cannot be read: {error.strerror or error}") from None
    if len(raw) > MOST_BYTES:
        raise InputError(f"{name}: exceeds {MOST_BYTES >> 20} MiB", "a description has one group: topics and members")
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise InputError(f"{name}: is not text (UTF-8)", "give a log with --log of `quorate assign`") from None
    suffix = Path(path).suffix.lower()
    is_json = suffix == ".json" or (suffix not in (".yaml", ".yml") and text.lstrip().startswith("{"))
    parse: Callable[[str, str], Any] = _json if is_json else _yaml
    try:
        value = parse(text, name)
    except RecursionError:
        raise InputError(f"{name}: is nested too deeply") from None
    if value is None:
        raise InputError(f"{name}: is empty", "a description has one group: topics and members")
    return ParsedValue(value, name)


def _json(text: str, name: str) -> Any:
    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        value = dict(found)
        if len(value) != len(found):
            keys = [key for key, _ in found]
            twice = next(key for key in keys if keys.count(key) > 1)
            raise InputError(f"{name}: duplicate name {twice!r} in an object")
        return value

    try:
        return json.loads(text, object_pairs_hook=pairs)
    except json.JSONDecodeError as error:
        raise InputError(f"{name}, line {error.lineno}, column {error.colno}: is not JSON: {error.msg}") from None
    except ValueError as error:  # a number with more digits than Python accepts
        raise InputError(f"{name}: is not JSON: {error}") from None


_DEEPEST = 100
"""Maximum nesting; a description needs five levels."""


def _check_depth(text: str, loader: Any) -> None:
    """Raise `RecursionError` for deep nesting: libyaml recurses in C and can crash the process."""
    import yaml

    depth = 0
    for event in yaml.parse(text, loader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > _DEEPEST:
                raise RecursionError
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _yaml(text: str, name: str) -> Any:
    import yaml

    class Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]  # the class depends on libyaml
        """Rejects duplicate names in mappings."""

        def construct_mapping(self, node: Any, deep: bool = False) -> Any:
            names: set[str] = set()
            for key, _ in node.value:
                if not isinstance(key.value, str) or key.tag == "tag:yaml.org,2002:merge":
                    continue
                if key.value in names:
                    line = key.start_mark.line + 1
                    raise InputError(f"{name}, line {line}: duplicate name {key.value!r} in a mapping")
                names.add(key.value)
            return super().construct_mapping(node, deep=deep)

    try:
        _check_depth(text, Loader)
        return yaml.load(text, Loader)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        place = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise InputError(f"{name}{place}: is not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise InputError(f"{name}: is not YAML: {' '.join(str(error).split())}") from None
