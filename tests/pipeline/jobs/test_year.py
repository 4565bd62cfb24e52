"""The generated year of the benchmarks is valid: Kafka's tool reads it, and replays are equal."""

import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest

from quorate.codecs import CoordinatorRecord, LogEntry, LogProblem, read_log
from quorate.codecs.batches.model import ControlRecord
from quorate.codecs.messages import OffsetCommitKey
from quorate.coordinator.bulk import load_state
from quorate.pipeline import local
from quorate.pipeline.jobs.state_rows import STATE
from tests.broker.fixtures import need_broker
from tests.cluster.test_file_log_tools import dumped, ours
from tests.pipeline.helpers.engines import Engine
from tests.pipeline.helpers.jobs import comparable

sys.path.append(str(Path(__file__).parents[3] / "bench"))  # last: `codecs` stays the standard library's

from _year import Year, write_year

GROUPS, PARTITIONS, SLOTS = 20, 2, 16


def year_of(folder: Path, records: int, damage: int = 0) -> Year:
    return write_year(
        folder, records, groups=GROUPS, partitions=PARTITIONS, slots=SLOTS, damage=damage, processes=1, seed=3
    )


@pytest.fixture(scope="module")
def year(tmp_path_factory: pytest.TempPathFactory) -> Year:
    """Write 20,000 records without damage."""
    return year_of(tmp_path_factory.mktemp("year"), 20_000)


def folders(year: Year) -> list[Path]:
    return sorted(year.folder.iterdir())


def entries(year: Year) -> Iterator[LogEntry]:
    """Yield all records, read strictly: damage is an error."""
    for entry in read_log(year.folder, isolation_level="read_uncommitted"):
        assert isinstance(entry, LogEntry), entry
        yield entry


def test_every_record_is_decoded_and_offsets_have_no_gaps(year: Year) -> None:
    following: Counter[int | None] = Counter()
    for entry in entries(year):
        assert isinstance(entry.record, CoordinatorRecord | ControlRecord), entry
        assert entry.offset == following[entry.partition]
        following[entry.partition] += 1
    assert following.total() == year.records
    assert 0.9 < year.records / 20_000 < 1.1


def test_groups_of_all_kinds_change_their_protocol_and_are_deleted(year: Year) -> None:
    written: Counter[str] = Counter()
    deleted: Counter[str] = Counter()
    protocols = defaultdict(list)
    for entry in entries(year):
        record = entry.record
        assert record.name is not None
        (written if isinstance(record, ControlRecord) or record.value is not None else deleted)[record.name] += 1
        if isinstance(record, CoordinatorRecord) and record.value is not None:
            if record.name == "GroupMetadata":
                protocols[record.key.group].append("classic")
            elif record.name == "ConsumerGroupMetadata":
                protocols[record.key.group_id].append("consumer")
    assert written["OffsetCommit"] > 0.9 * year.records
    assert min(deleted["OffsetCommit"], deleted["GroupMetadata"], deleted["ConsumerGroupMemberMetadata"]) > 0
    assert min(written["ShareGroupMemberMetadata"], written["COMMIT"], written["ABORT"]) > 0
    changes = {group: "".join(kind[1] for kind in kinds) for group, kinds in protocols.items()}
    assert any("lo" in kinds for kinds in changes.values())  # classic, then consumer
    assert any("ol" in kinds for kinds in changes.values())


def test_repeated_commits_have_increasing_offsets_and_times(year: Year) -> None:
    last: dict[object, tuple[int, int]] = {}
    rising = falling = 0
    for entry in entries(year):
        record = entry.record
        if isinstance(record, CoordinatorRecord) and isinstance(record.key, OffsetCommitKey):
            if record.value is None:
                last.pop(record.key, None)
                continue
            assert entry.timestamp_ms == record.value.commit_timestamp
            before = last.get(record.key, (-1, -1))
            rising += record.value.offset > before[0]
            falling += entry.timestamp_ms < before[1]
            last[record.key] = record.value.offset, entry.timestamp_ms
    assert not falling
    assert rising > 0.9 * year.records


def test_only_the_requested_batches_are_damaged(year: Year, tmp_path: Path) -> None:
    damaged = year_of(tmp_path / "year", 20_000, damage=8)
    assert damaged.damaged == 3 * 2 * PARTITIONS
    found: Counter[str] = Counter()
    for entry in read_log(damaged.folder, isolation_level="read_uncommitted", skip_corrupt=True):
        if isinstance(entry, LogProblem):
            found[str(entry.reason)] += 1
        elif not isinstance(entry.record, CoordinatorRecord | ControlRecord):
            found[type(entry.record).__name__] += 1
    assert found == {"CRC mismatch": 4, "MalformedRecord": 4, "UnknownRecord": 4}
    for whole, with_damage in zip(folders(year), folders(damaged), strict=True):
        groups = [sorted(load_state(folder, skip_corrupt=True).groups) for folder in (whole, with_damage)]
        assert groups[0] == groups[1]


@pytest.mark.long_on_spark  # the generated logs are the point; tests of jobs compare the engines
def test_group_state_equals_a_replay(year: Year, engine: Engine) -> None:
    log = local.read(year.folder, options={"isolation.level": "read_uncommitted"})
    found = engine.state(engine.rows([log.table()]), isolation_level="read_uncommitted")
    rows = found.cast(STATE).to_pylist()
    assert {row["log_partition"] for row in rows} == set(range(PARTITIONS))
    for number, folder in enumerate(folders(year)):
        wanted = comparable(load_state(folder))
        assert comparable(row for row in rows if row["log_partition"] == number) == wanted
        assert sum(len(group["offsets"]) for group in wanted.values()) > 50


@pytest.mark.oracle
def test_dump_log_segments_prints_what_was_generated(tmp_path: Path) -> None:
    need_broker()
    small = year_of(tmp_path / "year", 6_000)
    paths = [path for folder in folders(small) for path in sorted(folder.glob("*.log"))][:1]
    lines = dumped(paths)
    assert lines == ours(paths)
    assert all("isvalid: true" in line for line in lines if line.startswith("base"))
    assert len(lines) > 2_000
