"""An observer that is killed while it writes continues without a lost or repeated event."""

import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from quorate.codecs import CoordinatorRecord, encode_record
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.messages import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from quorate.watch import WatchEvent
from quorate.watch.store import WatchStore
from quorate.watch.store_reader import FILE
from tests.coordinator.bulk_logs import NOW, commit

READ = """
import sys
from functools import partial
from quorate.watch import Observer, files
files.FLUSH_RECORDS = 1
files.read_raw = partial(files.read_raw, block_bytes=4_096)
with Observer.of_files(sys.argv[1], state=sys.argv[2]) as observer:
    observer.wait_until_caught_up(300)
    assert not observer.problems()
"""

GENERATIONS = 140


def generation(number: int) -> CoordinatorRecord:
    members = tuple(
        MemberMetadata(
            member_id=f"member-{place}",
            group_instance_id=None,
            client_id=f"client-{place}",
            client_host="/h",
            rebalance_timeout=1,
            session_timeout=1,
            subscription=b"",
            assignment=b"",
        )
        for place in range(1 + number % 3)
    )
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number // 7 + 1,
        protocol="range",
        leader="member-0",
        current_state_timestamp=NOW + number,
        members=members,
    )
    return CoordinatorRecord(key=GroupMetadataKey(group=f"group-{number % 7}"), value=value, version=3)


def write_log(folder: Path) -> None:
    folder.mkdir(parents=True)
    data, offset = b"", 0
    for number in range(GENERATIONS):
        for record in (generation(number), *(commit(0, 0, place, number) for place in range(3))):
            key, value = encode_record(record)
            data += encode_batch([BatchRecord(offset=offset, timestamp_ms=NOW + number, key=key, value=value)])
            offset += 1
    (folder / f"{0:020}.log").write_bytes(data)


def count(state: Path) -> int:
    try:
        with closing(sqlite3.connect(f"file:{state / FILE}?mode=ro", uri=True)) as db:
            return int(db.execute("SELECT count(*) FROM events").fetchone()[0])
    except sqlite3.OperationalError:  # it does not exist yet
        return 0


def events(state: Path, source: Path) -> list[WatchEvent]:
    store = WatchStore(state, str(source))
    found = [replace(one, seen_ms=0) for one in store.events(after_id=0, newest_first=False, limit=100_000)]
    store.close()
    return found


def test_a_killed_observer_loses_and_repeats_no_event(tmp_path):
    log, steady, killed = tmp_path / "__consumer_offsets-0", tmp_path / "steady", tmp_path / "killed"
    write_log(log)

    def command(state: Path) -> list[str]:
        return [sys.executable, "-P", "-c", READ, str(log), str(state)]

    kills = 0
    for share in (0.1, 0.6):
        with subprocess.Popen(command(killed)) as process:
            while count(killed) < 2 * GENERATIONS * share and process.poll() is None:
                time.sleep(0.01)
            process.kill()
        kills += process.returncode != 0
        assert count(killed) > 0
    assert kills, "the observer was never killed while it read"
    for state in (killed, steady):
        subprocess.run(command(state), check=True, timeout=300)
    found = events(killed, log)
    assert len({one.epoch for one in found}) > GENERATIONS // 7
    assert found == events(steady, log)
