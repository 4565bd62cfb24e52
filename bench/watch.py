"""Measure how fast an observer reads logs, how soon it starts, and what a day of history takes.

Logs are generated. Each measurement is a process of its own, whose peak memory is reported. The day
has 1,000 groups of four members and four partitions; each group commits once a minute and is
restarted member by member twice; lags are sampled every ten seconds. `--quick` replays an hour. An
embedded broker is followed while 50,000 commits a second are written to it. No peer keeps such a
history, so that figures are compared with goals.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from random import Random

sys.path.append(str(Path(__file__).parent))  # last: `codecs` stays the standard library's

from _data import START_MS
from _report import Report
from _servers import embedded
from _wire import Wire, find_coordinator, make_topic
from coordinator_load import pairs, write_log

from quorate.codecs import CoordinatorRecord, Uuid, encode_record
from quorate.codecs.api import decode_api
from quorate.codecs.api.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
)
from quorate.codecs.batches import BatchRecord, encode_batch
from quorate.codecs.consumer_protocol import encode_protocol
from quorate.codecs.messages import GroupMetadataKey, GroupMetadataValue, MemberMetadata
from quorate.codecs.messages.offsets import OffsetCommitKey, OffsetCommitValue
from quorate.codecs.messages.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    ProtocolTopicPartition,
)
from quorate.integration.verify.wire import framed
from quorate.watch import Observer
from quorate.watch.store import WatchStore

GROUPS = 1_000
PARTITIONS = 4
"""Of a group's topic, with a member each."""

LOGS = 8
"""Partitions of `__consumer_offsets`."""

SAMPLE_S = 10

COMMITTED = 1_000
"""Partitions in a commit of the writer of `follow`, 50 a second."""

RATE = 50_000
MINUTE_MS = 60_000


def commit(group: int, number: int, minute: int) -> tuple[bytes, bytes]:
    key = OffsetCommitKey(group=f"group-{group}", topic=f"topic-{group}", partition=number)
    value = OffsetCommitValue(
        offset=minute * 6_000 + number,
        leader_epoch=3,
        metadata="",
        commit_timestamp=START_MS + minute * MINUTE_MS,
        topic_id=Uuid(group.to_bytes(16, "big")),
    )
    return encode_record(CoordinatorRecord(key=key, value=value, version=4))  # type: ignore[return-value]


def generation(group: int, number: int, members: int, at_ms: int) -> tuple[bytes, bytes]:
    """Return a generation of a classic group."""
    topic = f"topic-{group}"
    subscription = encode_protocol(
        ConsumerProtocolSubscription(topics=(topic,), user_data=None, owned_partitions=()), 3
    )
    of = [range(place, PARTITIONS, members) for place in range(members)]
    value = GroupMetadataValue(
        protocol_type="consumer",
        generation=number,
        protocol="range",
        leader="member-0",
        current_state_timestamp=at_ms,
        members=tuple(
            MemberMetadata(
                member_id=f"member-{place}-{number if place == members - 1 else 0}",
                group_instance_id=None,
                client_id=f"client-{place}",
                client_host="/10.0.0.1",
                rebalance_timeout=300_000,
                session_timeout=45_000,
                subscription=subscription,
                assignment=encode_protocol(
                    ConsumerProtocolAssignment(
                        assigned_partitions=(ProtocolTopicPartition(topic=topic, partitions=tuple(numbers)),),
                        user_data=None,
                    ),
                    3,
                ),
            )
            for place, numbers in enumerate(of)
        ),
    )
    key = GroupMetadataKey(group=f"group-{group}")
    return encode_record(CoordinatorRecord(key=key, value=value, version=3))  # type: ignore[return-value]


def write_day(folder: Path, groups: int, minutes: int) -> int:
    """Write the logs of a day, and return the number of records."""
    random = Random(5)
    restarts = {group: [random.randrange(minutes) for _ in range(2)] for group in range(groups)}
    total = 0
    for log in range(LOGS):
        path = folder / f"__consumer_offsets-{log}"
        path.mkdir(parents=True)
        offset = 0
        generations = dict.fromkeys(range(log, groups, LOGS), 0)
        with (path / f"{0:020}.log").open("wb") as file:
            for minute in range(minutes):
                some: list[tuple[bytes, bytes]] = []
                at_ms = START_MS + minute * MINUTE_MS
                for group in generations:
                    if not minute or minute in restarts[group]:
                        for members in (PARTITIONS - 1, PARTITIONS) * (PARTITIONS if minute else 1):
                            generations[group] += 1
                            at_ms += 1
                            one = generation(group, generations[group], members, at_ms)
                            file.write(batch([one], offset, at_ms))
                            offset += 1
                    some += [commit(group, number, minute) for number in range(PARTITIONS)]
                file.write(batch(some, offset, START_MS + minute * MINUTE_MS + 30_000))
                offset += len(some)
        total += offset
    return total


def batch(some: list[tuple[bytes, bytes]], offset: int, at_ms: int) -> bytes:
    return encode_batch(
        [
            BatchRecord(offset=offset + place, timestamp_ms=at_ms, key=key, value=value)
            for place, (key, value) in enumerate(some)
        ]
    )


# ---- measured in a process of its own


def most_bytes() -> int:
    """Return the largest size of this process's memory, without that before exec (`ru_maxrss`)."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) * 1024


def read(logs: Path, state: Path) -> dict[str, float]:
    """Read logs into a state folder."""
    begin, cpu = time.perf_counter(), time.process_time()
    with Observer.of_files(logs, state=state) as observer:
        observer.wait_until_caught_up(3_600)
        took, used = time.perf_counter() - begin, time.process_time() - cpu
        status = observer.status()
        assert not status.errors, status.errors
        groups = observer.groups()
        group = groups[len(groups) // 2].group_id
        newest = observer.events(limit=1)
        last = newest[0].at_ms if newest else START_MS
        events = max((one.id for one in observer.events(after_id=0, limit=1)), default=0)
        begin = time.perf_counter()
        for step in range(20):
            observer.group(group, at_ms=START_MS + (last - START_MS) * step // 20)
        one_step = (time.perf_counter() - begin) / 20
        begin = time.perf_counter()
        observer.groups(at_ms=(START_MS + last) // 2)
        list_step = time.perf_counter() - begin
    return {
        "seconds": took,
        "cpu": used,
        "records": status.records,
        "events": events,
        "groups": len(groups),
        "slider": one_step,
        "list": list_step,
    }


def day(logs: Path, state: Path, minutes: int) -> dict[str, float]:
    """Read the logs of a day, and add the samples of lags."""
    found = read(logs, state) | {"rss": most_bytes()}  # the second observer below is not part of it
    store = WatchStore(state, str(logs))
    random = Random(9)
    begin = time.perf_counter()
    names = [f"group-{group}" for group in range(int(found["groups"]))]
    lags = [random.randrange(10_000) for _ in names]
    for second in range(0, minutes * 60, SAMPLE_S):
        lags = [max(0, lag + random.randrange(-500, 500)) for lag in lags]
        with store.transaction():
            store.put_lags(
                START_MS + second * 1000, [(name, lag, lag * 7) for name, lag in zip(names, lags, strict=True)]
            )
    samples = time.perf_counter() - begin
    store.close()
    with Observer.of_files(logs, state=state) as observer:
        observer.wait_until_caught_up(600)
        begin = time.perf_counter()
        points = observer.lag(names[0], from_ms=START_MS, to_ms=START_MS + minutes * MINUTE_MS)
        assert points
        found["lag"] = time.perf_counter() - begin
    size = sum(path.stat().st_size for path in state.iterdir())
    return found | {"samples": samples, "bytes": size}


def follow(address: str, seconds: float) -> dict[str, float]:
    """Read what a cluster has, and follow it for some seconds."""
    cpu = time.process_time()
    with Observer(address, interval_s=3_600) as observer:
        observer.wait_until_caught_up(60)
        caught_up = {"old": observer.status().records, "old_cpu": time.process_time() - cpu}
        begin, cpu, before = time.perf_counter(), time.process_time(), observer.status().records
        late = 0
        while time.perf_counter() - begin < seconds:
            time.sleep(0.1)
            late = max(late, observer.status().late_ms)
        took, used = time.perf_counter() - begin, time.process_time() - cpu
        records = observer.status().records - before
        return {"seconds": took, "cpu": used, "records": records, "late": late / 1000} | caught_up


def write_commits(address: str, stop: threading.Event) -> None:
    """Commit 1,000 partitions of a group 50 times a second."""
    make_topic(address, "busy", COMMITTED)
    wire = Wire(address)
    find_coordinator(wire, "busy")
    parts = tuple(
        OffsetCommitRequestPartition(partition_index=index, committed_offset=index) for index in range(COMMITTED)
    )
    topics = (OffsetCommitRequestTopic(name="busy", partitions=parts),)
    frame = framed(OffsetCommitRequest(group_id="busy", topics=topics), 9)
    begin, number = time.perf_counter(), 0
    while not stop.is_set():
        number += 1
        wire.socket.sendall(frame)
        response = wire.frame()
        time.sleep(max(0.0, begin + number * COMMITTED / RATE - time.perf_counter()))
    assert not decode_api(OffsetCommitResponse, response, 9, position=5).topics[0].partitions[0].error_code


def followed(measured: Callable[..., dict[str, float]], seconds: float) -> dict[str, float]:
    """Measure `follow` while commits are written."""
    stop = threading.Event()
    with embedded() as server:
        writer = threading.Thread(target=write_commits, args=(server.address, stop))
        writer.start()
        try:
            time.sleep(seconds)
            return measured("follow", server.address, seconds)
        finally:
            stop.set()
            writer.join()


def here(name: str, *arguments: object) -> dict[str, float]:
    """Run a measurement."""
    if name == "follow":
        address, seconds = arguments
        found = follow(str(address), float(str(seconds)))
    else:
        logs, state, *more = map(str, arguments)
        found = {"read": read, "day": day}[name](Path(logs), Path(state), *map(int, more))  # type: ignore[operator]
    return {"rss": most_bytes()} | found


def alone(name: str, *arguments: object) -> dict[str, float]:
    """Run a measurement in a new process."""
    command = [sys.executable, "-P", __file__, "--alone", name, *map(str, arguments)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    if sys.argv[1:2] == ["--alone"]:
        print(json.dumps(here(*sys.argv[2:])))
        return
    report = Report("An observer of groups", __doc__ or "", argparse.ArgumentParser())
    # A smoke run starts one process, because imports take most of its time.
    measured = here if report.smoke else alone
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        count = report.pick(4_000_000, quick=1_000_000, smoke=2_000)
        part = min(count, 200_000)
        for first in range(0, count, part):
            logs = write_log(folder / "few", pairs(part, 5_000, first=first), 1, 100, first=first).parent
        found = measured("read", logs, folder / "state-1")
        report.rate(
            "read a log of 5,000 keys into the store",
            found["records"] / found["seconds"],
            None,
            "",
            goal="≥ 200,000/s",
            per_core=found["records"] / found["cpu"],
        )
        count = report.pick(1_000_000, quick=1_000_000, smoke=2_000)
        logs = write_log(folder / "distinct", pairs(count, count), 1, 100).parent
        found = measured("read", logs, folder / "state-2")
        report.cost(f"start from {count:,} commits of other keys", found["seconds"], None, "", "s", goal="< 10 s")
        found = measured("read", logs, folder / "state-2")
        report.cost("resume from the store, with as many commits", found["seconds"], None, "", "s", goal="< 10 s")
        seconds = report.pick(10.0, quick=4.0, smoke=0.3)
        found = followed(measured, seconds)
        report.rate("catch up with a live broker, by CPU", found["old"] / found["old_cpu"], None, "", goal="≥ 50,000/s")
        report.rate(
            "follow a broker, as fast as it writes, up to 50,000/s",
            found["records"] / found["seconds"],
            None,
            "",
            per_core=found["records"] / found["cpu"],
        )
        report.cost("the same: most late", found["late"], None, "", "s", goal="< 5 s")
        minutes = report.pick(24 * 60, quick=60, smoke=3)
        groups = report.pick(GROUPS, quick=GROUPS, smoke=LOGS)
        logs = folder / "day"
        written = write_day(logs, groups, minutes)
        found = alone("day", logs, folder / "state-3", minutes)
        assert found["records"] == written
        hours = f"{minutes / 60:g} h of {groups:,} groups"
        report.cost(f"{hours}: disk", found["bytes"] / 1e6, None, "", "MB", goal="< 500 MB for 24 h")
        report.cost(f"{hours}: memory", found["rss"] / 1e6, None, "", "MB", goal="< 300 MB")
        report.cost(f"{hours}: one step of the slider", found["slider"] * 1000, None, "", "ms", goal="< 100 ms")
        report.cost(f"{hours}: all groups at a moment", found["list"] * 1000, None, "", "ms", goal="< 100 ms")
        report.cost(f"{hours}: a group's lags", found["lag"] * 1000, None, "", "ms", goal="< 100 ms")
        report.rate(f"{hours}: events", found["events"], None, "", "events")
    report.finish()


if __name__ == "__main__":
    main()
