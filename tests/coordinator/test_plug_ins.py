"""Server-side assignors of a coordinator that are not Kafka's: plug-ins, and two of quorate's."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import pytest

from quorate.assignors import (
    GroupAssignment,
    GroupSpec,
    LagAwareAssignor,
    RackAwareUniformAssignor,
    SubscribedTopicDescriber,
)
from quorate.assignors.plug_ins import as_assignor
from quorate.codecs import Uuid
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.messages.offsets import OffsetCommitValue
from quorate.coordinator.config import ConfigError, CoordinatorConfig
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.state.offsets import CommittedOffset
from tests.assignors.fewest_moves import optimum
from tests.coordinator.client_assignors.scene import ORDERS, Member, Scene
from tests.extent import portion

RACKS = {0: "a", 1: "b", 2: "c"}


class First:
    """Assigns everything to the first member; `fault` replaces the result, or is raised."""

    name = "first"

    def __init__(self) -> None:
        self.fault: Any = None
        self.calls = 0

    def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber) -> GroupAssignment:
        self.calls += 1
        if isinstance(self.fault, BaseException):
            raise self.fault
        if self.fault is not None:
            found: GroupAssignment = self.fault
            return found
        first = min(group_spec.member_ids)
        topics = group_spec.member_subscription(first).subscribed_topic_ids
        return {first: {topic_id: range(topic_describer.num_partitions(topic_id)) for topic_id in topics}}


class PlugInScene(Scene):
    """A group whose broker has certain assignors."""

    def __init__(self, *assignors: Any, **config: Any) -> None:
        names, loaded = [], {}
        for one in assignors:
            assignor = one if isinstance(one, str) else as_assignor(one)
            names.append(assignor if isinstance(assignor, str) else assignor.name)
            if not isinstance(assignor, str):
                loaded[assignor.name] = assignor
        super().__init__(
            group_consumer_client_assignors_enable=False,
            group_consumer_assignors=tuple(names),
            server_assignors=loaded,
            **config,
        )

    def enter(self, member_id: str, rack: str | None = None, **more: Any) -> Any:
        self.members[member_id] = Member(member_id, assignors=None, instance_id=more.pop("instance_id", None))
        return self.beat(member_id, rack_id=rack, **more)

    def with_brokers(self, racks: Mapping[int, str | None], replicas: Sequence[Sequence[int]]) -> None:
        topic = TopicImage(name="orders", id=ORDERS, replicas=tuple(map(tuple, replicas)), leadership=self.changes())
        self.runtime.take_image(self.runtime.shard.image.with_brokers(racks).with_changed([topic]))

    def changes(self) -> int:
        return self.runtime.shard.image.version + 1

    def targets(self) -> dict[str, list[int]]:
        return {member_id: self.target(member_id) for member_id in self.members}


@pytest.fixture
def plug_in() -> First:
    return First()


@pytest.fixture
def scene(plug_in: First) -> PlugInScene:
    made = PlugInScene(plug_in, "uniform")
    made.enter("m1")
    made.enter("m2")
    made.settle()
    return made


def test_a_plug_in_computes_the_target_and_is_the_default_if_it_is_first(scene: PlugInScene, plug_in: First) -> None:
    assert plug_in.calls == 2
    assert scene.targets() == {"m1": [0, 1, 2, 3, 4, 5], "m2": []}
    assert scene.owns("m1") == [0, 1, 2, 3, 4, 5]


def test_members_choose_between_a_plug_in_and_kafkas_by_name(scene: PlugInScene) -> None:
    for member_id in scene.members:
        scene.beat(member_id, server_assignor="uniform")
    scene.enter("m3", server_assignor="uniform")
    assert sorted(map(len, scene.targets().values())) == [2, 2, 2]
    reply = scene.beat("m3", server_assignor="second")
    assert ErrorCode(reply.error_code) is ErrorCode.UNSUPPORTED_ASSIGNOR


FAULTS: dict[str, Any] = {
    "raised ZeroDivisionError: division by zero": ZeroDivisionError("division by zero"),
    "raised SystemExit": SystemExit(1),
    "assigned partition 6 of topic orders to member m1; it has none": {"m1": {ORDERS: [6]}},
    "assigned orders-3 to members m1 and m2": {"m1": {ORDERS: [3]}, "m2": {ORDERS: [3]}},
    "no such topic is subscribed": {"m1": {Uuid(bytes(15) + b"\x02"): [0]}},
    "assigned partitions to 'm9', which is not a member": {"m9": {ORDERS: [0]}},
    "not a mapping of member ids": [],
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_of_a_plug_in_fails_heartbeats_and_the_group_keeps_its_target(
    scene: PlugInScene, plug_in: First, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    before, epoch, records = scene.targets(), scene.group.epoch, len(scene.log.stored)
    plug_in.fault = FAULTS[fault]
    reply = scene.enter("m0")
    assert (ErrorCode(reply.error_code), reply.error_message) == (ErrorCode.UNKNOWN_SERVER_ERROR, None)
    del scene.members["m0"]
    assert scene.targets() == before
    assert (scene.group.epoch, len(scene.log.stored)) == (epoch, records)  # nothing was written
    assert [scene.beat(member_id).error_code for member_id in scene.members] == [0, 0]
    (logged,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert logged.startswith(f"group g: no target assignment for epoch {epoch + 1}: assignor first")
    assert fault in logged

    plug_in.fault = None  # the group continues as soon as the plug-in works again
    scene.enter("m0")
    scene.settle()
    assert scene.targets() == {"m0": [0, 1, 2, 3, 4, 5], "m1": [], "m2": []}
    assert scene.owns("m0") == [0, 1, 2, 3, 4, 5]


def test_a_heartbeat_without_a_new_target_does_not_call_the_plug_in(scene: PlugInScene, plug_in: First) -> None:
    plug_in.fault = RuntimeError()
    scene.settle()
    assert plug_in.calls == 2


def test_a_member_of_a_classic_group_is_assigned_by_the_plug_in_as_well(scene: PlugInScene, plug_in: First) -> None:
    calls = plug_in.calls
    member_id = scene.join_classic("").member_id
    assert ErrorCode(scene.join_classic(member_id).error_code) is ErrorCode.NONE
    assert plug_in.calls == calls + 1


def test_a_plug_in_sees_instance_ids_and_racks_of_members() -> None:
    class Sees(First):
        def assign(self, group_spec: GroupSpec, topic_describer: SubscribedTopicDescriber) -> GroupAssignment:
            for member_id in group_spec.member_ids:
                one = group_spec.member_subscription(member_id)
                seen[member_id] = (one.instance_id, one.rack_id)
            return super().assign(group_spec, topic_describer)

    seen: dict[str, tuple[str | None, str | None]] = {}
    scene = PlugInScene(Sees())
    scene.enter("m1", instance_id="i")
    scene.enter("m2", "b")
    assert seen == {"m1": ("i", None), "m2": (None, "b")}


def test_an_assignor_that_is_no_longer_configured_is_named_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    scene = PlugInScene(First(), "uniform")
    scene.enter("m1", server_assignor="first")
    scene.runtime.shard.config = replace(scene.config, group_consumer_assignors=("uniform",), server_assignors={})
    assert ErrorCode(scene.enter("m2").error_code) is ErrorCode.UNKNOWN_SERVER_ERROR
    (logged,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert logged == "group g requests assignor first, which is not configured; heartbeats fail"


# ---- racks


def local(scene: PlugInScene) -> int:
    image = scene.runtime.shard.image
    racks = list(image.topology(["orders"]).topics[0].racks)
    return sum(
        scene.group.members[member_id].metadata.rack_id in racks[partition]
        for member_id, partitions in scene.targets().items()
        for partition in partitions
    )


@pytest.mark.parametrize("seed", range(20))
def test_the_optimum_is_that_of_all_balanced_assignments(seed: int) -> None:
    rng = Random(seed)
    partitions = rng.randint(1, 7)
    racks = [rng.sample(["a", "b", "c"], rng.choice([0, 1, 1, 2])) for _ in range(partitions)]
    now = [rng.randrange(3) for _ in range(partitions)]
    found = []
    for owners in product(range(3), repeat=partitions):
        counts = [owners.count(member) for member in range(3)]
        if max(counts) - min(counts) <= 1:
            is_local = sum("abc"[owner] in racks[partition] for partition, owner in enumerate(owners))
            found.append((is_local, -sum(owner != before for owner, before in zip(owners, now, strict=True))))
    local, moved = max(found)
    assert optimum(racks, "abc", now) == (local, -moved)


@pytest.mark.parametrize("partitions", [6, 7, 8, 12, 25, 60])
@pytest.mark.parametrize("seed", range(portion(5)))
def test_after_a_change_of_racks_one_rebalance_is_optimal_with_the_fewest_moves(partitions: int, seed: int) -> None:
    rng = Random(seed)
    replicas = [rng.sample([0, 1, 2], rng.choice([1, 1, 2])) for _ in range(partitions)]
    scene = PlugInScene("rack-aware-uniform")
    scene.with_brokers(RACKS, replicas)
    for member_id, rack in zip(("m1", "m2", "m3"), "abc", strict=True):
        scene.enter(member_id, rack)
    scene.settle()
    for racks in ({**RACKS, 0: "b"}, RACKS, {0: "b", 1: "c", 2: "a"}, {**RACKS, 1: None}, RACKS):
        owner = {partition: member_id for member_id, owned in scene.targets().items() for partition in owned}
        now = [list(scene.members).index(owner[partition]) for partition in range(partitions)]
        epoch = scene.group.epoch
        scene.with_brokers(racks, replicas)
        scene.settle()
        assert scene.group.epoch <= epoch + 1  # one rebalance
        found = local(scene)
        moved = sum(owner[partition] != one for one, owned in scene.targets().items() for partition in owned)
        assert (found, moved) == optimum([[racks[broker] for broker in one] for one in replicas], "abc", now)
        assert {one: scene.owns(one) for one in scene.members} == scene.targets()


def test_uniform_does_not_follow_racks() -> None:
    replicas = [[number % 3] for number in range(6)]
    found = {}
    for assignor in ("uniform", "rack-aware-uniform"):
        scene = PlugInScene(assignor)
        scene.with_brokers(RACKS, replicas)
        for member_id, rack in zip(("m1", "m2", "m3"), "abc", strict=True):
            scene.enter(member_id, rack)
        scene.settle()
        scene.with_brokers({0: "b", 1: "c", 2: "a"}, replicas)
        scene.settle()
        found[assignor] = local(scene)
    assert found["rack-aware-uniform"] == 6
    assert found["uniform"] < 6


def test_an_instance_with_options_bounds_moves() -> None:
    scene = PlugInScene(RackAwareUniformAssignor(max_moved=2))
    scene.with_brokers(RACKS, [[number % 3] for number in range(6)])
    for member_id, rack in zip(("m1", "m2", "m3"), "abc", strict=True):
        scene.enter(member_id, rack)
    scene.settle()
    assert local(scene) == 6
    before = scene.targets()
    scene.with_brokers({0: "b", 1: "a", 2: "c"}, [[number % 3] for number in range(6)])
    scene.settle()
    assert sum(len(set(before[one]) - set(now)) for one, now in scene.targets().items()) == 2
    assert local(scene) == 4


def test_topics_have_the_racks_of_the_image_without_a_cost_per_partition() -> None:
    image = MetadataImage.EMPTY.with_brokers({0: "a", 1: None}).with_topics(
        [TopicImage(name="t", id=ORDERS, replicas=((0, 1), (1, 0), (9,)))]
    )
    (topic,) = image.topology(["t", "missing"]).topics
    assert list(topic.racks) == [("a", None), (None, "a"), (None,)]
    assert [topic.racks[number] for number in (0, -1)] == [("a", None), (None,)]
    assert list(topic.racks[1:]) == [(None, "a"), (None,)]
    assert len(topic.racks) == 3


# ---- lags


def committed(scene: PlugInScene, offsets: Mapping[int, int]) -> None:
    for partition, offset in offsets.items():
        value = OffsetCommitValue(
            offset=offset, leader_epoch=-1, metadata="", commit_timestamp=0, expire_timestamp=-1, topic_id=ORDERS
        )
        scene.runtime.shard.state.offsets.put("g", "orders", partition, CommittedOffset(value, -1))


def spread(scene: PlugInScene, sizes: Callable[[str, int], tuple[int, int] | None] | None) -> list[list[int]]:
    scene.runtime.shard.log_offsets = sizes
    scene.enter("m2")
    return sorted(scene.targets().values())


def test_lag_aware_uses_committed_offsets_and_the_ends_of_logs() -> None:
    scene = PlugInScene("lag-aware")
    scene.enter("m1")
    committed(scene, {0: 0, 1: 0, 2: 500, 3: 100, 4: 100, 5: 100})
    # Lags 600, 600, 100, 0, 0, and without an offset all 550 - 50 records of partition 5.
    scene.runtime.shard.state.offsets.remove("g", "orders", 5)
    ends = [600, 600, 600, 100, 100, 550]
    found = spread(scene, lambda topic, partition: (50, ends[partition]) if topic == "orders" else None)
    lags = [600, 600, 100, 0, 0, 500]
    expected = LagAwareAssignor(lags={("orders", partition): lag for partition, lag in enumerate(lags)})
    assert sorted(sum(lags[partition] for partition in owned) for owned in found) == [700, 1100]
    with_source = PlugInScene(expected)
    with_source.enter("m1")
    assert spread(with_source, None) == found  # a source of its own is used instead


def test_lag_aware_without_ends_of_logs_balances_counts() -> None:
    scene = PlugInScene("lag-aware")
    scene.enter("m1")
    assert list(map(len, spread(scene, None))) == [3, 3]


# ---- configs


class Nameless(First):
    @property
    def name(self) -> str:  # type: ignore[override]
        raise KeyError("NAME")


class Namesake(First):
    name = "org.apache.kafka.coordinator.group.assignor.UniformAssignor"


def test_names_paths_and_instances_can_be_configured_together() -> None:
    mine = First()
    config = CoordinatorConfig.from_properties(
        {"group.consumer.assignors": ["range", "tests.coordinator.plug_in:PlugIn", mine, "rack-aware-uniform"]}
    )
    assert config.group_consumer_assignors == ("range", "plug-in", "first", "rack-aware-uniform")
    assert list(config.server_assignors) == ["plug-in", "first", "rack-aware-uniform"]
    loaded: Any = config.server_assignors["first"]
    assert loaded.plug_in is mine


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ([First(), First()], "several assignors have the name first; rename one"),
        ([First(), "tests.coordinator.test_plug_ins:First"], "several assignors have the name first"),
        ([object()], "object is no server-side assignor: without name and assign"),
        ([Nameless()], "Nameless is no server-side assignor: KeyError: 'NAME'"),
        ([Namesake()], "UniformAssignor is Kafka's own class; give the assignor another name"),
        ("no.such:Thing", "cannot load no.such:Thing: ModuleNotFoundError"),
        ("tests.coordinator.plug_in:Nothing", "cannot load tests.coordinator.plug_in:Nothing: AttributeError"),
        ("simple", "Class simple cannot be found"),
        ("sticky", "Class sticky cannot be found; valid values for group.consumer.assignors: uniform, range, rack"),
    ],
)
def test_an_assignor_that_is_unknown_or_does_not_load_is_rejected(value: Any, reason: str) -> None:
    with pytest.raises(ConfigError) as raised:
        CoordinatorConfig.from_properties({"group.consumer.assignors": value})
    assert reason in str(raised.value)


class Uniform(First):
    name = "uniform"


@pytest.mark.parametrize("value", [[Uniform()], "tests.coordinator.test_plug_ins:Uniform"])
def test_a_plug_in_may_replace_an_assignor_of_kafka(value: Any) -> None:
    config = CoordinatorConfig.from_properties({"group.consumer.assignors": value})
    scene = PlugInScene(config.server_assignors["uniform"])
    scene.enter("m1", server_assignor="uniform")
    scene.enter("m2", server_assignor="uniform")
    scene.settle()
    assert scene.targets() == {"m1": [0, 1, 2, 3, 4, 5], "m2": []}


@pytest.mark.parametrize("value", [[Uniform(), "uniform"], "uniform,tests.coordinator.test_plug_ins:Uniform"])
def test_a_plug_in_and_an_assignor_of_kafka_cannot_have_one_name(value: Any) -> None:
    with pytest.raises(ConfigError, match="several assignors have the name uniform"):
        CoordinatorConfig.from_properties({"group.consumer.assignors": value})
