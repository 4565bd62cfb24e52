"""A crash at any byte of `__share_group_state`, a restart, and a move of its leader (KIP-932).

No record is delivered again after its acknowledgement got a response, and none is lost.
"""

import shutil
from pathlib import Path
from random import Random

import pytest

from quorate.cluster import ManualClock
from quorate.cluster.core import ClusterCore
from quorate.cluster.share.acknowledge import ACCEPT, REJECT, RELEASE
from quorate.codecs import SHARE_GROUP_STATE
from quorate.coordinator.results import Pending
from tests.cluster.share.members import Member, initialize, offsets, produce
from tests.extent import portion

BATCHES, IN_BATCH = 8, 3
ENDS = (ACCEPT, ACCEPT, REJECT, RELEASE)
PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": 1,
    "share.coordinator.snapshot.update.records.per.snapshot": 4,
    "offsets.topic.num.partitions": 1,
}
Finished = list[tuple[int, int]]
"""Size of the log of share state when a response came → offset that was finished."""


def opened(data: Path) -> ClusterCore:
    """Return a cluster on the directory, also if records were lost after they were flushed."""
    core = ClusterCore(
        {1: "a", 2: "b"}, data=data, clock=ManualClock(), seed=1, properties=PROPERTIES, accept_data_loss=True
    )
    for broker in core.brokers.values():
        broker.serving = True
    core.started()
    core.state.group_configs["g"] = {"share.auto.offset.reset": "earliest"}
    core.group_configs.changed("g")
    core.share_configs.changed()
    return core


def acknowledge_some(data: Path, random: Random) -> Finished:
    """Acknowledge records in random order; return which were finished when."""
    core = opened(data)
    core.create_topic("t", assignment=[[1, 2]])
    assert initialize(core, "g").done
    for _ in range(BATCHES):
        produce(core, IN_BATCH)
    finished: Finished = []
    member = Member(core)
    member.fetch(0, max_bytes=1 << 20)
    left = list(range(BATCHES * IN_BATCH))
    random.shuffle(left)
    for offset in left:
        kind = random.choice(ENDS)
        response = member.acknowledge({0: [(offset, offset, (kind,))]})
        assert response.responses[0].partitions[0].error_code == 0
        if kind != RELEASE:
            finished.append((core.topics[SHARE_GROUP_STATE].partitions[0].log.size_bytes, offset))
    core.close()
    return finished


def delivered(core: ClusterCore) -> set[int]:
    """Return the offsets that a new member receives from the leader."""
    member = Member(core, "another", broker=core.topics["t"].partitions[0].leader)
    found = set[int]()
    for _ in range(BATCHES * IN_BATCH + 1):
        response = member.fetch(0)
        if isinstance(response, Pending):  # it waits: there are no more
            break
        found |= {offset for first, last, _ in offsets(response) for offset in range(first, last + 1)}
    return found


@pytest.mark.parametrize("seed", range(1, 1 + portion(3)))
def test_crash_at_any_byte_keeps_acknowledgements_with_a_response(tmp_path: Path, seed: int) -> None:
    random = Random(seed)
    finished = acknowledge_some(tmp_path / "data", random)
    size = finished[-1][0]
    everything = set(range(BATCHES * IN_BATCH))
    cuts = {size, *(at for at, _ in finished), *(random.randrange(finished[0][0], size) for _ in range(portion(25)))}
    for cut in sorted(cuts):
        crashed = tmp_path / f"at-{cut}"
        shutil.copytree(tmp_path / "data", crashed)
        for marker in crashed.rglob(".kafka_cleanshutdown"):
            marker.unlink()
        for log in crashed.rglob(f"{SHARE_GROUP_STATE}-0/*.log"):
            log.write_bytes(log.read_bytes()[:cut])
        core = opened(crashed)
        kept = {offset for at, offset in finished if at <= cut}
        assert delivered(core) == everything - kept, f"seed {seed}, cut at byte {cut} of {size}"
        core.close()
        shutil.rmtree(crashed)


@pytest.mark.parametrize("stopped", [1, 2])
def test_move_of_a_leader_keeps_acknowledgements_with_a_response(tmp_path: Path, stopped: int) -> None:
    """Broker 1 leads the records, broker 2 the state."""
    finished = acknowledge_some(tmp_path, Random(5))
    core = opened(tmp_path)
    partitions = [core.topics[topic].partitions[0] for topic in ("t", SHARE_GROUP_STATE)]
    assert [one.leader for one in partitions] == [1, 2]
    core.stop_broker(stopped)
    assert [one.leader for one in partitions] == [3 - stopped] * 2
    assert delivered(core) == set(range(BATCHES * IN_BATCH)) - {offset for _, offset in finished}
    core.close()
