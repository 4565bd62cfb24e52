"""Damaged data directories (issue 14): a start restores all data, or fails and reports the loss.

`bench/storage_damage.py` plays a thousand of them.
"""

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from quorate.cluster import ClusterError
from quorate.cluster.core import ClusterCore
from quorate.cluster.storage.checksums import CHECKSUMS
from quorate.codecs import CONSUMER_OFFSETS
from quorate.codecs.batches import Batch, read_batches
from tests.cluster.helpers.damage import Finding, Maker, begin, core_of, crash, facts, play, tree
from tests.cluster.test_log import batch
from tests.extent import portion

SEEDS = (3, 7, 11)[: portion(3, usual=2)]


@pytest.mark.parametrize("seed", SEEDS)
def test_a_directory_damaged_at_random_is_restored_or_refused_and_never_changed_silently(
    seed: int, tmp_path: Path
) -> None:
    outcomes = list(play(seed, tmp_path / "case", each=8))
    assert not [str(outcome) for outcome in outcomes if isinstance(outcome, Finding)]
    assert {outcome.result for outcome in outcomes if not isinstance(outcome, Finding)} <= {
        "restored",
        "refused",
        "cut",
    }


def log_path(data: Path, partition: str = "__cluster_metadata-0") -> Path:
    """Return the oldest segment of a partition."""
    return min(data.glob(f"*/{partition}/*.log"))


def flip(path: Path, position: int, bit: int = 0) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        (byte,) = file.read(1)
        file.seek(position)
        file.write(bytes([byte ^ 1 << bit]))


def positions(path: Path) -> list[int]:
    """Return the positions of batches, and the end."""
    found = [one.header for one in read_batches(path.read_bytes()) if isinstance(one, Batch)]
    return [*(one.position for one in found), path.stat().st_size]


def made(data: Path, *, stop: bool = True) -> ClusterCore:
    """Create a stopped cluster with four batches in a topic."""
    core = core_of(data)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    core.internal_topic(CONSUMER_OFFSETS)
    for _ in range(4):
        put(core, 3)
    core.close() if stop else crash(core)
    return core


def put(core: ClusterCore, count: int) -> int:
    one = core.topics["t"].partitions[0]
    return one.log.append(batch(count), leader_epoch=one.leader_epoch, now_ms=0).base_offset


def refused(data: Path) -> str:
    """Return why a start is refused; check that it changes nothing."""
    before = tree(data)
    with pytest.raises(ClusterError) as caught:
        core_of(data)
    assert tree(data) == before
    return str(caught.value)


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
def test_a_flipped_bit_before_other_batches_of_the_metadata_log_prevents_the_start(tmp_path: Path, stop: bool) -> None:
    made(tmp_path, stop=stop)
    path = log_path(tmp_path)
    second = positions(path)[1]
    flip(path, second + 70)
    said = refused(tmp_path)
    assert said.startswith(f"{path}, position {second:,}: the batch has CRC ")
    assert "would be lost" in said
    assert "--accept-data-loss" in said


@pytest.mark.parametrize("how", ["emptied", "removed", "cut at a batch", "folder removed", "controller removed"])
@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
def test_missing_metadata_is_not_taken_for_an_empty_cluster(tmp_path: Path, how: str, stop: bool) -> None:
    made(tmp_path, stop=stop)
    path = log_path(tmp_path)
    match how:
        case "emptied":
            path.write_bytes(b"")
        case "removed":
            path.unlink()
        case "cut at a batch":
            with path.open("r+b") as file:
                file.truncate(positions(path)[-2])
        case _:
            folder = path.parent if how == "folder removed" else path.parents[1]
            folder.rename(tmp_path.parent / f"{tmp_path.name}-gone")
    said = refused(tmp_path)
    assert str(tmp_path / "controller" / "__cluster_metadata-0") in said
    if how != "cut at a batch":
        assert "all topics (__consumer_offsets, t) would be lost" in said
    assert not list(tmp_path.glob("broker-*/*-stray"))


@pytest.mark.parametrize("partition", ["t-0", "__consumer_offsets-0"])
@pytest.mark.parametrize("how", ["emptied", "removed"])
@pytest.mark.parametrize("place", [0, 1], ids=["first", "middle"])
@pytest.mark.parametrize("with_checksums", [True, False], ids=["now", "of an older quorate"])
def test_a_missing_segment_is_reported(
    tmp_path: Path, partition: str, how: str, place: int, with_checksums: bool
) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    core.internal_topic(CONSUMER_OFFSETS)
    found = core.state.partition(partition[:-2], 0)
    assert found is not None
    for _ in range(4):
        found.log.append(batch(3), leader_epoch=found.leader_epoch, now_ms=0)
        found.log.roll(0)
    core.close()
    victim = sorted(tmp_path.glob(f"*/{partition}/*.log"))[place]
    if not with_checksums:
        for path in tmp_path.rglob(CHECKSUMS):
            path.unlink()
    for twin in tmp_path.glob(f"*/{partition}/{victim.name}"):
        twin.unlink() if how == "removed" else twin.write_bytes(b"")
    said = refused(tmp_path)
    assert f"/{partition}/{victim.name}" in said
    assert f"offsets {3 * place} to {3 * place + 2} would be lost" in said or f"from offset {3 * place} on" in said


def test_a_flipped_bit_of_a_base_offset_is_reported_with_the_file(tmp_path: Path) -> None:
    made(tmp_path)
    path = log_path(tmp_path, "t-0")
    flip(path, positions(path)[1] + 2)
    assert refused(tmp_path).startswith(f"{path}, position {positions(path)[1]:,}: the batch starts at offset ")


def test_a_flipped_bit_of_a_base_offset_is_not_taken_for_an_unfinished_write(tmp_path: Path) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1, config={"cleanup.policy": "compact"})
    for _ in range(4):
        put(core, 3)
    crash(core)
    path = log_path(tmp_path, "t-0")
    flip(path, positions(path)[1] + 2)
    (tmp_path / ".lock").write_text("the machine has started again since")
    said = refused(tmp_path)
    assert said.startswith(f"{path}, position {positions(path)[1]:,}: the batch has ")
    assert "the records at offsets 3 to 5 would be lost" in said


def test_a_flipped_bit_of_a_leader_epoch_is_reported(tmp_path: Path) -> None:
    made(tmp_path)
    path = log_path(tmp_path, "t-0")
    flip(path, positions(path)[2] + 15, bit=3)
    said = refused(tmp_path)
    assert said.startswith(
        f"{path}, position {positions(path)[2]:,}: the batch has leader epoch 8; it was written with 0"
    )


@pytest.mark.parametrize("content", [b"", b"0\n1\nt 0 7", b"0\n1\nt 0 1\n", None], ids=["empty", "cut", "less", "none"])
def test_deleted_records_stay_deleted_if_the_checkpoint_is_damaged(tmp_path: Path, content: bytes | None) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    put(core, 5)
    core.topics["t"].partitions[0].log.delete_before(3)
    core.close()
    (path,) = [one for one in tmp_path.glob("broker-*/log-start-offset-checkpoint") if b"t 0 3" in one.read_bytes()]
    path.unlink() if content is None else path.write_bytes(content)
    again = core_of(tmp_path)
    assert again.topics["t"].partitions[0].log.start_offset == 3
    again.close()
    assert b"t 0 3" in path.read_bytes()


@pytest.mark.parametrize("where", ["controller", "broker-1", "broker-3"])
@pytest.mark.parametrize("how", ["emptied", "removed", "bit"])
def test_meta_properties_are_restored_from_other_files(tmp_path: Path, where: str, how: str) -> None:
    had = made(tmp_path)
    path = tmp_path / where / "meta.properties"
    content = path.read_bytes()
    match how:
        case "emptied":
            path.write_bytes(b"")
        case "removed":
            path.unlink()
        case _:
            flip(path, content.index(b"directory.id") + 4)
    again = core_of(tmp_path)
    assert again.cluster_id == had.cluster_id
    assert any(f"{path} is damaged or missing" in text for text in again.start_notes)
    if where != "controller":
        assert path.read_bytes() == content
    again.close()


def test_contradicting_cluster_ids_are_reported_and_not_overwritten(tmp_path: Path) -> None:
    made(tmp_path)
    path = tmp_path / "controller" / "meta.properties"
    flip(path, path.read_bytes().index(b"cluster.id=") + 15, bit=1)
    said = refused(tmp_path)
    assert str(path) in said
    assert str(tmp_path / "broker-1" / "meta.properties") in said


@pytest.mark.parametrize("stop", [True, False], ids=["stopped", "killed"])
def test_after_a_kill_only_the_unfinished_batch_is_cut_off(tmp_path: Path, stop: bool) -> None:
    made(tmp_path, stop=stop)
    path = log_path(tmp_path, "t-0")
    size = path.stat().st_size
    with path.open("ab") as file:
        file.write(batch(2)[:-5])
    again = core_of(tmp_path)
    assert again.topics["t"].partitions[0].log.next_offset == 12
    (note,) = again.start_notes
    assert note.startswith(f"{path}, position {size:,}: ")
    assert note.endswith(" bytes of an unfinished write were cut off")


# ---- accepting data loss


def damage_metadata(data: Path) -> Path:
    flip(log_path(data), positions(log_path(data))[1] + 70)
    return log_path(data)


def damage_batch(data: Path) -> Path:
    path = log_path(data, "t-0")
    flip(path, positions(path)[1] + 70)
    return path


def cut_log(data: Path) -> Path:
    path = log_path(data, "t-0")
    path.write_bytes(path.read_bytes()[:-3])
    return path


@pytest.mark.parametrize("damage", [damage_metadata, damage_batch, cut_log])
def test_an_accepted_loss_is_reported_once_and_keeps_the_damaged_file(
    tmp_path: Path, damage: Callable[[Path], Path]
) -> None:
    made(tmp_path)
    path = damage(tmp_path)
    content = path.read_bytes()
    again = core_of(tmp_path, accept_data_loss=True)
    (kept,) = tmp_path.glob(f"damaged-*/{path.relative_to(tmp_path)}")
    assert kept.read_bytes() == content
    assert any(str(path) in text and "are lost" in text for text in again.start_notes)
    begin(again)
    again.close()
    later = core_of(tmp_path)
    assert later.start_notes == ()
    later.close()


def test_batches_after_an_accepted_loss_remain_and_offsets_are_not_reused(
    tmp_path: Path,
) -> None:
    made(tmp_path)
    damage_batch(tmp_path)
    again = core_of(tmp_path, accept_data_loss=True)
    assert [one.base_offset for one in again.topics["t"].partitions[0].log] == [0, 6, 9]
    again.close()
    cut_log(tmp_path)
    again = core_of(tmp_path, accept_data_loss=True)
    assert [one.base_offset for one in again.topics["t"].partitions[0].log] == [0, 6]
    begin(again)
    assert put(again, 1) == 12
    again.close()


def test_a_lost_metadata_log_can_be_recreated_and_records_stay_in_stray_folders(tmp_path: Path) -> None:
    made(tmp_path)
    path = log_path(tmp_path, "t-0")
    content = path.read_bytes()
    log_path(tmp_path).unlink()
    again = core_of(tmp_path, accept_data_loss=True)
    assert again.topics == {}
    (stray,) = tmp_path.glob("broker-*/t-0.*-stray")
    assert (stray / path.name).read_bytes() == content
    again.close()


# ---- stray folders


def test_folders_of_deleted_topics_are_renamed_and_those_of_unknown_topics_remain(tmp_path: Path) -> None:
    core = core_of(tmp_path)
    begin(core)
    core.create_topic("t", partitions=1, replicas=1)
    put(core, 3)
    folder = log_path(tmp_path, "t-0").parent
    copy = folder.with_name("copy-0")
    copy.mkdir()
    for path in folder.iterdir():
        (copy / path.name).write_bytes(path.read_bytes())
    core.delete_topic("t")
    core.close()
    (copy / "partition.metadata").write_bytes(b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAg")
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    again = core_of(tmp_path)
    assert again.start_notes == (f"{copy} belongs to no partition of this cluster; it is ignored",)
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before
    again.close()
    copy.rename(folder)
    (folder / "partition.metadata").write_bytes(f"version: 0\ntopic_id: {_removed(tmp_path)}".encode())
    again = core_of(tmp_path)
    (note,) = again.start_notes
    assert re.fullmatch(
        rf"{folder} belongs to no partition of this cluster; it was renamed to t-0\..*-stray and can be deleted", note
    )
    again.close()


def _removed(data: Path) -> str:
    core = core_of(data)
    assert core.data is not None
    (removed,) = core.data.metadata.removed
    crash(core)
    return str(removed)


def test_topic_ids_are_unique_with_the_same_seed(tmp_path: Path) -> None:
    for name in ("a", "b"):
        core = core_of(tmp_path)
        begin(core)
        core.create_topic(name, partitions=1)
        core.close()
    assert len(facts(core_of(tmp_path))["topics"]) == 2


def test_an_undamaged_directory_is_restored_completely(tmp_path: Path) -> None:
    from random import Random

    maker = Maker(tmp_path, Random(5))
    maker.play(120)
    maker.core.close()
    first = core_of(tmp_path)
    had = facts(first)
    assert first.start_notes == ()
    crash(first)
    again = core_of(tmp_path)
    assert facts(again) == had
    crash(again)
