"""A short notation for groups and results of the server-side assignors.

    group("t1:6 t2:2", m1="t1 t2", m2="t2 | t2-0,1")  # topics with partition counts; members
    assignments(target)  # {"m1": "t1-0,1,2", ...}

A member is written as its subscription and, after the bar, its previous target assignment.
"""

from collections.abc import Mapping
from hashlib import sha256

from quorate.assignors import GroupSpec, Member, Topic, Topology
from quorate.assignors.server import TargetAssignment
from quorate.codecs import Uuid
from tests.assignors.server_cases import Case


def topic_id(name: str) -> Uuid:
    """Return the id that `group` gives to a topic."""
    return Uuid(sha256(name.encode()).digest()[:16])


def group(topics: str, *, ids: bool = True, **members: str) -> GroupSpec:
    """Create a group. `ids`: whether topics have ids.

    A topic of a previous target assignment that is not in `topics` is represented by its id. "t1-"
    is a topic without partitions.
    """
    counts = {name: int(count) for name, _, count in (topic.partition(":") for topic in topics.split())}
    topology = Topology(
        Topic(name=name, partitions=count, id=topic_id(name) if ids else None) for name, count in counts.items()
    )
    return GroupSpec({name: _member(text, counts) for name, text in members.items()}, topology)


def _member(text: str, counts: Mapping[str, int]) -> Member:
    names, _, target = text.partition("|")
    owned = []
    for topic_partitions in target.split():
        topic, _, partitions = topic_partitions.partition("-")
        name = topic if topic in counts else str(topic_id(topic))
        owned += [(name, int(number)) for number in (partitions or "-1").split(",")]
    return Member(topics=tuple(names.split()), owned=tuple(owned))


def assignments(target: TargetAssignment) -> dict[str, str]:
    """Return each member's partitions, in order."""
    assignment = target.assignment
    return {member: _text(assignment.by_topic(member)) for member in assignment}


def changed_records(target: TargetAssignment) -> dict[str, str]:
    """Return the assignments in the records of members with a changed target, in write order."""
    names = {topic_id(name): name for name in ("t1", "t2", "t3", "gone")}
    ids = target.group.member_ids
    return {
        ids[member]: _text({names[topic]: list(partitions) for topic, partitions in target.record(member)})
        for member in target.changed.tolist()
    }


def as_case(spec: GroupSpec, assignor: str) -> Case:
    """Return the group as a request of the oracle, `serverAssign` or `shareAssign`."""
    ids = {topic.name: str(topic.id) for topic in spec.topology.topics}
    members: dict[str, Case] = {}
    for name, member in spec.members.items():
        members[name] = {"topics": list(member.topics)}
        for topic, partition in member.owned:
            partitions = members[name].setdefault("target", {}).setdefault(ids.get(topic, topic), [])
            partitions += [partition] if partition >= 0 else []
    topics = [
        {"name": topic.name, "id": ids[topic.name], "partitions": topic.partitions} for topic in spec.topology.topics
    ]
    request = {"op": "shareAssign"} if assignor == "simple" else {"op": "serverAssign", "assignor": assignor}
    return request | {"topics": topics, "members": members}


def _text(by_topic: Mapping[str, list[int]]) -> str:
    return " ".join(f"{topic}-{','.join(map(str, partitions))}" for topic, partitions in by_topic.items())
