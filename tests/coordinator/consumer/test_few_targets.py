"""`few_targets` returns the same in C and in Python, and as the assignor on a `GroupSpec`.

Both are compared with Kafka's coordinator by the histories of `tests/coordinator/versions`.
"""

import os
import subprocess
import sys
from random import Random
from uuid import UUID

import pytest

from quorate.codecs import Uuid, extension
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.consumer import next_target
from quorate.coordinator.consumer.few_targets import few_targets
from quorate.coordinator.consumer.run_assignor import run_assignor
from quorate.coordinator.consumer.target import NewTargets, TargetRequest
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import RequestContext
from quorate.coordinator.shard import CoordinatorShard
from tests.conftest import CI
from tests.coordinator.consumer.test_consumer_properties import Watched
from tests.coordinator.consumer_scripts import History
from tests.differential.shard_side import ShardSide
from tests.extent import portion

START = 0 if CI else int.from_bytes(os.urandom(4), "big")


class Compared:
    """Computes targets in all ways. `few`, `others`: how often each was chosen."""

    def __init__(self) -> None:
        self.few = self.others = 0

    def __call__(self, shard: CoordinatorShard, request: TargetRequest) -> NewTargets | None:
        found = few_targets(shard, request)
        if found is None:
            self.others += 1
            return None
        self.few += 1
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(extension, "_extension", None)
            assert _listed(few_targets(shard, request)) == _listed(found)
            whole = run_assignor(shard, request, "uniform")
        assert list(found.order) == list(whole.order)
        assert _listed(found) == _listed(whole)
        return found


def _listed(targets: NewTargets | None) -> list[tuple[str, list[tuple[bytes, list[int]]]]]:
    assert targets is not None
    return [
        (member_id, [(topic_id, list(partitions)) for topic_id, partitions in target.items()])
        for member_id, target in targets.changed.items()
    ]


@pytest.mark.parametrize("version", [None, "4.2.0", "4.0.0"])
def test_targets_of_small_groups_equal_those_of_the_assignor(
    version: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = Compared()
    monkeypatch.setattr(next_target, "few_targets", compared)
    count = portion(30, usual=20)
    for seed in range(START, START + count):
        watched = Watched()
        watched.side = ShardSide(version)
        try:
            History(Random(seed), watched, regexes=0.05, statics=0.2).run(60)
        except AssertionError as error:
            raise AssertionError(f"seed {seed}") from error
    assert min(compared.few, compared.others) > count


def test_targets_of_hundreds_of_members_equal_those_of_the_assignor(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = Compared()
    monkeypatch.setattr(next_target, "few_targets", compared)
    rng = Random(START)
    image = MetadataImage.EMPTY.with_topics(
        [TopicImage(name=name, id=Uuid(rng.randbytes(16)), replicas=((0,),) * 150) for name in ("t", "u")]
    )
    config = CoordinatorConfig(group_consumer_assignment_interval_ms=0)
    shard = GroupCoordinatorShard(config, image=image, new_id=UUID)
    runtime = PartitionRuntime(shard, MemoryLog(), now_ms=0)
    members: list[str] = []
    joins = 0
    for _ in range(portion(1000, usual=300)):
        leaves = rng.random() < 0.1 and len(members) > 1
        member = members.pop(rng.randrange(len(members))) if leaves else str(UUID(bytes=rng.randbytes(16)))
        joins += not leaves
        members += [] if leaves else [member]
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            member_epoch=-1 if leaves else 0,
            rebalance_timeout_ms=1,
            subscribed_topic_names=("t", "u"),
            topic_partitions=(),
        )
        response = runtime.request(request, RequestContext(api_version=1, now_ms=0)).response
        assert not response.error_code, f"seed {START}: {response}"
    assert (compared.few, compared.others) == (joins, 0)


JOINS = """
import sys
from uuid import UUID
from quorate.codecs import Uuid
from quorate.codecs.api import ConsumerGroupHeartbeatRequest
from quorate.coordinator.config import CoordinatorConfig
from quorate.coordinator.group_shard import GroupCoordinatorShard
from quorate.coordinator.image import MetadataImage, TopicImage
from quorate.coordinator.log import MemoryLog
from quorate.coordinator.partition_runtime import PartitionRuntime
from quorate.coordinator.results import RequestContext

image = MetadataImage.EMPTY.with_topics([TopicImage(name="t", id=Uuid(bytes(15) + b"t"), replicas=((0,),) * 4)])
shard = GroupCoordinatorShard(CoordinatorConfig(), image=image, new_id=UUID)
runtime = PartitionRuntime(shard, MemoryLog(), now_ms=0)
for member in "ab":
    join = ConsumerGroupHeartbeatRequest(
        group_id="g", member_id=member, rebalance_timeout_ms=1, subscribed_topic_names=("t",), topic_partitions=()
    )
    response = runtime.request(join, RequestContext(api_version=1, now_ms=0)).response
    assert not response.error_code, response
assert runtime.shard.state.groups["g"].targets["a"]
sys.exit("numpy" in sys.modules)
"""


def test_small_groups_need_no_numpy() -> None:
    subprocess.run([sys.executable, "-P", "-c", JOINS], check=True, timeout=60)
