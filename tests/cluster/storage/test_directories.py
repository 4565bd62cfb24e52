"""Data directories: their owner, contents, and the errors for unusable ones."""

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from quorate.cluster import ClusterError, EmbeddedCluster, ManualClock
from quorate.cluster.core import ClusterCore
from tests.cluster.storage.test_restart import quiet_core


def core_of(data: Path, version: str = "4.3.1") -> ClusterCore:
    core = ClusterCore({1: None}, data=data, clock=ManualClock(), properties={"kafka.version": version})
    core.started()
    return core


def test_a_directory_is_used_by_one_cluster_at_a_time_with_as_many_brokers(tmp_path: Path) -> None:
    core = quiet_core(tmp_path, ManualClock())
    with pytest.raises(ClusterError, match="in use by another cluster"):
        quiet_core(tmp_path, ManualClock())
    core.close()
    with pytest.raises(
        ClusterError, match="belongs to a cluster with brokers 1, 2, but broker 2 is missing; use 2 brokers"
    ):
        ClusterCore({1: None}, data=tmp_path)
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(ClusterError, match="choose another directory"):
        ClusterCore({1: None}, data=file)
    more = ClusterCore({1: None, 2: None, 3: None}, data=tmp_path)
    assert [broker.rack for broker in more.brokers.values()] == ["a", "b", None]


def test_new_racks_replace_stored_ones(tmp_path: Path) -> None:
    quiet_core(tmp_path, ManualClock()).close()
    moved = ClusterCore({1: "x", 2: None}, data=tmp_path)
    assert [broker.rack for broker in moved.brokers.values()] == ["x", "b"]


@pytest.mark.parametrize("there", [False, True], ids=["new", "with a cluster"])
def test_a_read_only_directory_is_reported_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, there: bool
) -> None:
    data = tmp_path / "data"
    if there:
        core_of(data).close()

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(os, "open" if there else "mkdir", refused)
    with pytest.raises(ClusterError) as caught:
        core_of(data)
    assert str(caught.value) == f"{data}: Read-only file system; choose another directory for the cluster's data"


@pytest.mark.parametrize("meta", ["version=1\nnode.id=7\ncluster.id=abc\n", None], ids=["all of it", "a copy of logs"])
def test_the_log_directory_of_a_real_broker_is_refused(tmp_path: Path, meta: str | None) -> None:
    (tmp_path / "orders-0").mkdir()
    (tmp_path / "orders-0" / "00000000000000000000.log").touch()
    if meta:
        (tmp_path / "meta.properties").write_text(meta)
    whose = "broker 7 of Kafka" if meta else "a broker of Kafka"
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(ClusterError, match=f"is the log directory of {whose}, .* choose another directory"):
        core_of(tmp_path)
    assert sorted(tmp_path.rglob("*")) == before


def test_the_error_for_one_brokers_directory_names_that_of_the_cluster(tmp_path: Path) -> None:
    core_of(tmp_path).close()
    with pytest.raises(ClusterError, match=f"use that of the whole cluster, {tmp_path}$"):
        core_of(tmp_path / "broker-1")


def test_other_files_in_a_directory_remain(tmp_path: Path) -> None:
    (tmp_path / "README").write_text("mine")
    core_of(tmp_path).close()
    assert (tmp_path / "README").read_text() == "mine"


def test_feature_levels_are_those_of_the_first_start(tmp_path: Path) -> None:
    core_of(tmp_path, "3.9.2").close()
    later = core_of(tmp_path, "4.3.1")
    assert later.features == {"metadata.version": 21}
    later.close()
    core_of(tmp_path, "3.9.2").close()


def test_a_release_that_does_not_support_the_feature_levels_is_rejected(tmp_path: Path) -> None:
    core_of(tmp_path, "4.2.0").close()
    said = (
        "the cluster has .*, Kafka 4.0.2 supports .*; "
        "use 4.2 or later, or create a new cluster with 4.0.2, in another directory"
    )
    with pytest.raises(ClusterError, match=said):
        core_of(tmp_path, "4.0.2")
    core_of(tmp_path, "4.2.0").close()  # nothing was changed


def test_a_running_cluster_cannot_be_downgraded_below_its_feature_levels() -> None:
    with EmbeddedCluster(version="4.3.1") as cluster:
        with pytest.raises(ClusterError, match=r"use 4\.3 or later"):
            cluster.upgrade("4.0.2")
        assert cluster.version == "4.3.1"
