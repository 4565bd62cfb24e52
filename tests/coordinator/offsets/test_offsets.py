"""Random scripts of offset requests on Kafka's coordinator and ours."""

import random
from typing import Any

import pytest

from quorate.codecs import decode_record
from tests.coordinator.scripts import Duel
from tests.coordinator.test_loads import FOLDERS, records_of
from tests.extent import portion
from tests.oracle.client import Oracle

pytestmark = pytest.mark.oracle

TOPICS = [(f"t{number}", f"AAAAAAAAAAEAAAAAAAAA{letter}Q") for number, letter in enumerate("ABCD")]
SCRIPTS = 60
STEPS = 40


class Player:
    """Generates offset requests for some groups and members."""

    def __init__(self, duel: Duel, rng: random.Random, members: dict[str, list[tuple[str, str | None, int]]]) -> None:
        self.duel = duel
        self.rng = rng
        self.members = members
        self.groups = [*members, "g1", "g2", "nobody's"]
        self.topics = dict(TOPICS)
        self.open: set[int] = set()

    def step(self) -> None:
        step, *_ = self.rng.choices(*zip(*self.weights(), strict=True))
        step()

    def weights(self) -> list[tuple[Any, int]]:
        return [
            (self.commit, 10),
            (self.commit_in_transaction, 5),
            (self.end, 3),
            (self.fetch, 8),
            (self.delete, 3),
            (self.delete_group, 1),
            (self.clean_up, 2),
            (self.image, 1),
        ]

    def any_member(self, group: str) -> tuple[str, str | None, int]:
        known = self.members.get(group, [])
        if known and self.rng.random() < 0.75:
            member, instance, epoch = self.rng.choice(known)
            return member, instance, epoch + self.rng.choice([0, 0, 0, -1, 1, -2])
        return self.rng.choice(
            [("", None, -1), ("", None, -1), ("nobody", None, -1), ("nobody", None, 3), ("", None, 0)]
        )

    def partitions(self, **of: Any) -> list[dict[str, Any]]:
        return [
            {"partitionIndex": index, **{name: make() for name, make in of.items()}}
            for index in self.rng.sample(range(4), self.rng.randint(1, 3))
        ]

    def offsets(self) -> list[dict[str, Any]]:
        return self.partitions(
            committedOffset=lambda: self.rng.randint(0, 99),
            committedMetadata=lambda: self.rng.choice(["", "", "note", None, "x" * 5000]),
        )

    def commit(self) -> None:
        group = self.rng.choice(self.groups)
        member, instance, epoch = self.any_member(group)
        version = self.rng.choice([2, 4, 5, 7, 8, 9, 9, 10, 10])
        names = self.rng.sample([*self.topics, "unknown"], self.rng.randint(1, 2))
        ids = {name: {"topicId": self.topics.get(name, "AAAAAAAAAAEAAAAAAAAAZQ")} for name in names}
        self.duel.request(
            "OffsetCommit",
            version,
            groupId=group,
            memberId=member,
            generationIdOrMemberEpoch=epoch,
            **({"groupInstanceId": instance} if version >= 7 else {}),
            **({"retentionTimeMs": self.rng.choice([-1, 1000, 10**7])} if version < 5 else {}),
            topics=[
                {**(ids[name] if version >= 10 else {"name": name}), "partitions": self.offsets()} for name in names
            ],
        )

    def commit_in_transaction(self) -> None:
        group = self.rng.choice(self.groups)
        member, instance, epoch = self.any_member(group)
        producer = self.rng.randint(1, 3)
        self.open.add(producer)
        version = min(self.rng.choice([3, 5, 6, 6]), self.duel.last_version("TxnOffsetCommit"))
        name = self.rng.choice([*self.topics, "unknown"])
        topic = {"topicId": self.topics.get(name, "AAAAAAAAAAEAAAAAAAAAZQ")} if version >= 6 else {"name": name}
        self.duel.request(
            "TxnOffsetCommit",
            version,
            transactionalId=f"x{producer}",
            groupId=group,
            producerId=producer,
            producerEpoch=0,
            generationIdOrMemberEpoch=epoch,
            memberId=member,
            groupInstanceId=instance,
            topics=[{**topic, "partitions": self.offsets()}],
        )

    def end(self) -> None:
        if self.open:
            producer = self.rng.choice(sorted(self.open))
            self.open.discard(producer)
            result = self.rng.choice(["COMMIT", "COMMIT", "ABORT"])
            self.duel.op("endTxn", producerId=producer, producerEpoch=0, result=result)

    def fetch(self) -> None:
        version = self.rng.choice([1, 2, 5, 7, 8, 9, 10])
        group = self.rng.choice(self.groups)
        names = self.rng.sample([*self.topics, "unknown"], 2)
        topics: list[dict[str, Any]] | None = None
        if self.rng.random() < 0.6 or version < 2:
            topics = [
                {
                    **(
                        {"topicId": self.topics.get(name, "AAAAAAAAAAEAAAAAAAAAZQ")}
                        if version >= 10
                        else {"name": name}
                    ),
                    "partitionIndexes": [0, 1, 3],
                }
                for name in names
            ]
        stable = {"requireStable": self.rng.random() < 0.5} if version >= 7 else {}
        if version < 8:
            self.duel.request("OffsetFetch", version, groupId=group, topics=topics, **stable)
            return
        operation: dict[str, Any] = {"groupId": group, "topics": topics}
        if version >= 9 and self.rng.random() < 0.7:
            member, _, epoch = self.any_member(group)
            operation |= {"memberId": member, "memberEpoch": epoch}
        self.duel.request("OffsetFetch", version, groups=[operation], **stable)

    def delete(self) -> None:
        names = self.rng.sample([*self.topics, "unknown"], 2)
        self.duel.request(
            "OffsetDelete",
            0,
            groupId=self.rng.choice(self.groups),
            topics=[{"name": name, "partitions": self.partitions()} for name in names],
        )

    def delete_group(self) -> None:
        self.duel.request("DeleteGroups", 2, groupsNames=self.rng.choices(self.groups, k=2))

    def fail(self) -> None:
        """Let a write fail. This is the last step: Kafka's maps keep the size that they reached."""
        error = self.rng.choice(["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT"])
        self.duel.op("failNextAppend", error=error)
        self.duel.request(
            "OffsetCommit",
            9,
            groupId="g1",
            memberId="",
            generationIdOrMemberEpoch=-1,
            topics=[
                {"name": "t0", "partitions": [{"partitionIndex": 0, "committedOffset": 1, "committedMetadata": ""}]}
            ],
        )

    def clean_up(self) -> None:
        self.duel.op("cleanup")

    def image(self) -> None:
        kept = self.rng.sample(TOPICS, self.rng.randint(2, 4))
        self.topics = dict(kept)
        self.duel.op("image", topics=[{"name": name, "id": topic_id, "partitions": 4} for name, topic_id in kept])


def simple_history(duel: Duel, seed: int, steps: int = STEPS) -> None:
    """Run commits, fetches, deletions and time for groups without members.

    `bench/coordinator_differential.py` runs more of these.
    """
    rng = random.Random(seed)
    duel.op("config", **{"offsets.retention.minutes": 30})
    player = Player(duel, rng, {})
    player.image()
    for _ in range(steps):
        player.step()
        if rng.random() < 0.2:
            duel.op("advance", ms=rng.choice([1000, 600_000, 3_000_000]))
        if rng.random() < 0.05:
            duel.op("reload")
            player.open.clear()
    player.fail()
    duel.op("reload")
    duel.request("OffsetFetch", 8, groups=[{"groupId": group, "topics": None} for group in player.groups])


@pytest.mark.parametrize("seed", range(portion(SCRIPTS, usual=10)))
def test_random_offset_requests_to_groups_without_members(oracle: Oracle, seed: int) -> None:
    simple_history(Duel(oracle, note=f"seed {seed}"), seed)


@pytest.mark.parametrize("name", sorted(FOLDERS))
def test_random_offset_requests_to_groups_with_members(oracle: Oracle, name: str) -> None:
    rng = random.Random(name)
    duel = Duel(oracle, note=name)
    duel.op("load", records=records_of(name))
    listed = duel.request("ListGroups")["response"]["groups"]
    members: dict[str, list[tuple[str, str | None, int]]] = {}
    for group in listed:
        if group["groupType"] == "consumer":
            reported = duel.request("ConsumerGroupDescribe", groupIds=[group["groupId"]])["response"]["groups"][0]
            members[group["groupId"]] = [
                (member["memberId"], member["instanceId"], member["memberEpoch"]) for member in reported["members"]
            ]
        elif group["groupType"] == "classic":
            reported = duel.request("DescribeGroups", 6, groups=[group["groupId"]])["response"]["groups"][0]
            members[group["groupId"]] = [
                (member["memberId"], member["groupInstanceId"], rng.randint(0, 5)) for member in reported["members"]
            ]
    player = Player(duel, rng, members)
    player.image()
    for _ in range(STEPS):
        player.step()


def commit_of(duel: Duel, producer: int, group: str, topic: str) -> None:
    duel.request(
        "TxnOffsetCommit",
        5,
        transactionalId=f"x{producer}",
        groupId=group,
        producerId=producer,
        topics=[{"name": topic, "partitions": [{"partitionIndex": 0, "committedOffset": 7, "committedMetadata": ""}]}],
    )


def image_of(duel: Duel, *names: str) -> list[str]:
    """Load an image of these topics. Return the topics and groups of the tombstones in order."""
    topics = [{"name": name, "id": topic_id, "partitions": 4} for name, topic_id in TOPICS if name in names]
    records = duel.op("image", topics=topics)["records"]
    keys = [decode_record(bytes.fromhex(record["key"]), None).key for record in records]
    return [f"{key.group} {key.topic}" for key in keys]


@pytest.mark.parametrize("way", ["DeleteGroups", "OffsetDelete", "image"])
def test_producer_without_pending_offsets_keeps_its_position_in_the_map(oracle: Oracle, way: str) -> None:
    """The producers share a slot. The first one is not the newest after it commits again.

    Found by `coordinator_differential.py`, offsets, seed 20263218.
    """
    duel = Duel(oracle, note=way)
    image_of(duel, "t0", "t1")
    duel.request(
        "OffsetCommit",
        9,
        groupId="g1",
        memberId="",
        generationIdOrMemberEpoch=-1,
        topics=[{"name": "t1", "partitions": [{"partitionIndex": 3, "committedOffset": 7, "committedMetadata": ""}]}],
    )
    commit_of(duel, 1, "g1", "t0")
    match way:
        case "DeleteGroups":
            duel.request("DeleteGroups", 2, groupsNames=["g1"])
        case "OffsetDelete":
            gone = [{"name": "t0", "partitions": [{"partitionIndex": 0}]}]
            duel.request("OffsetDelete", 0, groupId="g1", topics=gone)
        case "image":
            assert image_of(duel, "t1") == ["g1 t0"]
            image_of(duel, "t0", "t1")
    commit_of(duel, 3, "third", "t0")
    commit_of(duel, 1, "first", "t0")
    assert image_of(duel, "t1") == ["third t0", "first t0"]
    image_of(duel, "t0", "t1")
    duel.op("endTxn", producerId=1, producerEpoch=0, result="COMMIT")
    commit_of(duel, 3, "third", "t0")
    commit_of(duel, 1, "first", "t0")
    assert image_of(duel, "t1") == ["first t0", "third t0"]


@pytest.mark.parametrize("emptied", [0, 2, 3])
def test_producer_without_pending_offsets_still_counts_in_the_map_size(oracle: Oracle, emptied: int) -> None:
    """Producers 3 and 8 share one of four slots, newest first. A map of six entries has eight."""
    duel = Duel(oracle, note=f"{emptied} emptied")
    image_of(duel, "t0")
    for producer in range(11, 11 + emptied):
        commit_of(duel, producer, "g", "t0")
    image_of(duel)
    image_of(duel, "t0")
    for producer in (3, 8, 5):
        commit_of(duel, producer, str(producer), "t0")
    found = [name for name in image_of(duel) if name != "5 t0"]
    assert found == (["3 t0", "8 t0"] if emptied == 3 else ["8 t0", "3 t0"])
