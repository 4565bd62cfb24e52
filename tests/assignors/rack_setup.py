"""The cluster of Kafka's own rack tests (KIP-881), and their notation of assignments."""

from collections.abc import Mapping, Sequence

from quorate.assignors import Assignment, Member, Topology


def group(
    topics: Mapping[str, int], factor: int, broker_racks: int, subscriptions: Sequence[tuple[str, str | None]]
) -> tuple[dict[str, Member], Topology]:
    """Create a group in the way of Kafka's tests.

    Broker i is in rack i. Replica k of partition p is on broker (k + p + partitions of the previous
    topics) mod brokers. Member i is consumer{i} with (topics, rack). Without broker racks, no racks
    are known.
    """
    racks: dict[str, list[list[str]]] = {}
    before = 0
    for topic in sorted(topics):
        racks[topic] = [
            ["abc"[(k + partition + before) % broker_racks] for k in range(min(factor, broker_racks))]
            if broker_racks
            else []
            for partition in range(topics[topic])
        ]
        before += topics[topic]
    members = {
        f"consumer{number}": Member(topics=names.split(), rack=rack)
        for number, (names, rack) in enumerate(subscriptions)
    }
    return members, Topology.of(racks)


def read(text: str) -> list[set[str]]:
    """Read "t1-0,1 t2-0..3 ; t1-2" as each member's set of partitions."""
    return [
        {
            f"{topic}-{number}"
            for word in part.split()
            for topic, _, numbers in [word.partition("-")]
            for one in numbers.split(",")
            for first, _, last in [one.partition("..")]
            for number in range(int(first), int(last or first) + 1)
        }
        for part in text.split(";")
    ]


def assigned(assignment: Assignment) -> list[set[str]]:
    """Return the same for an assignment."""
    found = [[f"{topic}-{partition}" for topic, partition in given] for given in assignment.values()]
    assert all(len(one) == len(set(one)) for one in found)
    return [set(one) for one in found]


def mismatches(assignment: Assignment, members: Mapping[str, Member]) -> int:
    """Count partitions that are not in their member's rack."""
    topology = assignment.topology
    return sum(
        members[member].rack not in topology.rack_sets[topology.replica_racks_of[number]]
        for member in assignment
        for number in assignment.numbers(member).tolist()
    )
