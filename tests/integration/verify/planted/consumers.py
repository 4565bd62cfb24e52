"""Consumers with planted faults: `python consumers.py consumer|classic [FAULT…]`."""

import sys
import time
import uuid
from typing import Any

from wire import BACKOFF_S, CALLBACK_S, FAULTS, GROUP, MOVED, RACK, TOPIC, Stop, Wire, codes, once

from quorate.codecs.api import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
)
from quorate.codecs.api.broker import FetchRequest
from quorate.codecs.api.broker.fetch import FetchPartition, FetchTopic
from quorate.codecs.api.consumer_group_heartbeat import TopicPartitions
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.api.join_group import JoinGroupRequestProtocol
from quorate.codecs.api.leave_group import MemberIdentity
from quorate.codecs.api.offset_commit import OffsetCommitRequestPartition, OffsetCommitRequestTopic
from quorate.codecs.api.offset_fetch import OffsetFetchRequestTopic
from quorate.codecs.api.sync_group import SyncGroupRequestAssignment
from quorate.codecs.batches import Batch, read_batches

ABANDONED = (ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.UNKNOWN_MEMBER_ID)
INTERVAL_S = 0.4
COMMIT_S = 0.3
SESSION_MS = 3_000
REBALANCE_MS = 1_500
_TOPIC_OF_V0 = b"\0\0" + (1).to_bytes(4, "big") + len(TOPIC).to_bytes(2, "big") + TOPIC.encode()
"""Version and the one topic, in subscriptions and assignments of Java's consumer protocol."""


class _Gathered:
    """In place of a socket: collects what is sent, so that it leaves at once."""

    def __init__(self) -> None:
        self.data = b""

    def sendall(self, data: bytes) -> None:
        self.data += data


class Consumer:
    """Positions, fetches and commits."""

    commit_version = 9

    def __init__(self) -> None:
        self.wire = Wire()
        self.wire.refresh()
        self.stop = Stop()
        self.began = time.monotonic()
        self.member_id = ""
        self.epoch = 0
        self.owned: set[int] = set()
        self.lingering: set[int] = set()
        self.positions: dict[int, int] = {}
        self.replica: dict[int, int] = {}
        self.quiet_until = 0.0
        self.least: dict[int, int] = {}
        self.commits = True
        self.next_commit = 0.0

    def assigned(self, added: set[int]) -> None:
        """Begin at the committed offsets."""
        if not added:
            return
        topic = OffsetFetchRequestTopic(name=TOPIC, partition_indexes=tuple(sorted(added)))
        found = self.wire.to_coordinator(OffsetFetchRequest(group_id=GROUP, topics=(topic,)), 7)
        while found is None or found.error_code:
            time.sleep(BACKOFF_S)
            found = self.wire.to_coordinator(OffsetFetchRequest(group_id=GROUP, topics=(topic,)), 7)
        for each in found.topics:
            for part in each.partitions:
                self.positions[part.partition_index] = max(0, part.committed_offset)

    def fetch(self) -> None:
        """Fetch from all leaders once."""
        if time.monotonic() < self.quiet_until:
            time.sleep(0.05)
            return
        used = (self.owned | self.lingering) & self.positions.keys()
        by_broker: dict[int, list[int]] = {}
        for partition in used:
            by_broker.setdefault(self.replica.get(partition, self.wire.leaders[partition]), []).append(partition)
        if not used:
            time.sleep(0.05)
        failed = False
        for broker, partitions in by_broker.items():
            failed |= not self.fetch_from(broker, partitions)
        if failed:
            time.sleep(BACKOFF_S)
            if "no-metadata" not in FAULTS:
                self.wire.refresh()
            if once("rests"):
                self.quiet_until = time.monotonic() + 6

    def fetch_from(self, broker: int, partitions: list[int]) -> bool:
        """Fetch from a broker; return whether it worked."""
        ahead = 5 if time.monotonic() > self.began + 1.5 and once("skip") else 0
        wanted = tuple(
            FetchPartition(partition=each, fetch_offset=self.positions[each] + ahead, partition_max_bytes=1 << 20)
            for each in partitions
        )
        request = FetchRequest(
            max_wait_ms=50, min_bytes=1, topics=(FetchTopic(topic=TOPIC, partitions=wanted),), rack_id=RACK
        )
        found = self.wire.ask(broker, request, 11)
        if found is None:
            for each in partitions:
                self.replica.pop(each, None)
            return False
        failed = found.error_code != 0
        for topic in found.responses:
            for part in topic.partitions:
                index = part.partition_index
                if part.error_code:
                    failed = True
                    self.replica.pop(index, None)
                elif part.preferred_read_replica >= 0 and (
                    "ignore-replica" not in FAULTS or time.monotonic() > self.began + 5
                ):
                    self.replica[index] = part.preferred_read_replica
                for batch in read_batches(bytes(part.records or b"")):
                    if isinstance(batch, Batch) and index in self.positions:
                        self.positions[index] = max(self.positions[index], batch.header.last_offset + 1)
        return not failed

    def commit(self, partitions: set[int] | None = None, *, at_close: bool = False) -> Any:
        """Commit the positions."""
        if not self.commits and not (at_close and "give-up" in FAULTS):
            return None
        self.next_commit = time.monotonic() + COMMIT_S
        chosen = (self.owned if partitions is None else partitions) & self.positions.keys()
        if not chosen:
            return None
        offsets = {each: self.positions[each] for each in chosen}
        late = time.monotonic() > self.began + 1.5
        if late and once("commit-beyond"):
            self.least = {each: offset + 50 for each, offset in offsets.items()}
        offsets = {each: max(offset, self.least.get(each, 0)) for each, offset in offsets.items()}
        if late and once("commit-back"):
            offsets = {each: max(0, offset - 20) for each, offset in offsets.items()}
        if late and "stop-commits" in FAULTS:
            self.commits = False
            return None
        epoch = self.epoch - 1 if {"old-epoch", "old-generation"} & FAULTS else self.epoch
        parts = tuple(
            OffsetCommitRequestPartition(partition_index=each, committed_offset=offset)
            for each, offset in sorted(offsets.items())
        )
        request = OffsetCommitRequest(
            group_id=GROUP,
            member_id=self.member_id,
            generation_id_or_member_epoch=max(epoch, 0),
            topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=parts),),
        )
        response = self.wire.to_coordinator(request, self.commit_version)
        if response is not None and codes(response):
            self.next_commit = time.monotonic() + (0 if "hot-loop" in FAULTS else BACKOFF_S)
            if "give-up" in FAULTS and not codes(response) & set(ABANDONED):
                self.commits = False
            if "crash" in FAULTS and ErrorCode.COORDINATOR_LOAD_IN_PROGRESS in codes(response):
                sys.exit("an error that a client should retry")
        return response

    def run(self) -> None:
        """Consume until SIGTERM."""
        self.join()
        if "unsupported-version" in FAULTS:
            self.wire.unsupported()
        while not self.stop:
            self.beat()
            self.fetch()
            if time.monotonic() > self.next_commit:
                self.commit()
            while "hot-loop" in FAULTS and not self.stop and self.next_commit < time.monotonic() < self.began + 60:
                response = self.commit()
                if response is None or not codes(response):
                    break
        self.beat()
        self.commit(at_close=True)
        if "no-leave" not in FAULTS:
            self.leave()
        if "stuck" in FAULTS:
            time.sleep(600)

    def join(self) -> None:
        """Join the group."""

    def beat(self) -> None:
        """Send a heartbeat if it is due."""

    def leave(self) -> None:
        """Leave the group."""


class ConsumerProtocol(Consumer):
    """A member of the consumer protocol."""

    def __init__(self) -> None:
        super().__init__()
        self.full = True
        self.changed = False
        self.next_beat = 0.0
        self.beats = 0
        self.member_id = "" if once("no-member-id") else str(uuid.uuid4())

    def topics(self, partitions: set[int]) -> tuple[TopicPartitions, ...]:
        if not partitions:
            return ()
        return (TopicPartitions(topic_id=self.wire.topic_id, partitions=tuple(sorted(partitions))),)

    def join(self) -> None:
        while not self.owned and not self.stop:
            self.beat()
            time.sleep(0.02)

    def request(self) -> ConsumerGroupHeartbeatRequest:
        joins = self.epoch == 0
        everything = joins or self.full
        reported = None
        if everything or (self.changed and "no-acknowledge" not in FAULTS):
            reported = self.topics(set() if joins or "no-acknowledge" in FAULTS else self.owned)
        return ConsumerGroupHeartbeatRequest(
            group_id=GROUP,
            member_id=self.member_id,
            member_epoch=self.epoch - 1 if self.beats > 3 and once("wrong-epoch") else self.epoch,
            rebalance_timeout_ms=-1 if not everything or (joins and once("partial-join")) else 60_000,
            subscribed_topic_names=(TOPIC,) if everything else None,
            topic_partitions=reported,
        )

    def beat(self) -> None:
        if time.monotonic() < self.next_beat or ("no-heartbeats" in FAULTS and self.beats > 3 and self.owned):
            return
        self.beats += 1
        request = self.request()
        if self.beats > 3 and once("two-at-a-time"):
            self.two(request)
            return
        response = self.wire.to_coordinator(request, 1)
        self.next_beat = time.monotonic() + BACKOFF_S
        if response is None:
            self.full = "partial-after-loss" not in FAULTS
            return
        if response.error_code in ABANDONED:
            self.fenced()
        elif response.error_code == ErrorCode.INVALID_REQUEST:
            self.member_id = self.member_id or str(uuid.uuid4())
        elif not response.error_code:
            self.next_beat = time.monotonic() + INTERVAL_S
            self.full = self.changed = False
            self.epoch = response.member_epoch
            if response.assignment is not None:
                self.reconcile({n for each in response.assignment.topic_partitions for n in each.partitions})

    def two(self, request: ConsumerGroupHeartbeatRequest) -> None:
        connection = self.wire.connection(self.wire.find(GROUP), "group")
        real, connection.socket = connection.socket, _Gathered()  # type: ignore[assignment]
        connection.send(request, 1)
        connection.send(request, 1)
        gathered, connection.socket = connection.socket, real
        real.sendall(gathered.data)  # type: ignore[attr-defined]
        connection.frame()
        connection.frame()

    def fenced(self) -> None:
        self.owned, self.full, self.next_beat = set(), True, 0.0
        if once("rejoin-with-epoch"):
            return
        if once("new-member-id"):
            self.leave()
            self.member_id = str(uuid.uuid4())
        self.epoch = 0

    def reconcile(self, target: set[int]) -> None:
        removed, added = self.owned - target, target - self.owned
        if removed:
            self.commit(removed)
            if "use-after-acknowledge" in FAULTS:
                self.lingering = removed
            self.owned -= removed
            until = time.monotonic() + CALLBACK_S
            while time.monotonic() < until:
                if "silent-callbacks" not in FAULTS:
                    self.changed = False
                    self.beat()
                time.sleep(0.05)
        self.assigned(added)
        self.lingering -= added
        self.owned |= added
        self.changed, self.next_beat = True, 0.0

    def leave(self) -> None:
        request = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=self.member_id, member_epoch=-1)
        self.wire.to_coordinator(request, 1)
        if self.stop and "after-leaving" in FAULTS:
            self.commit()


class Classic(Consumer):
    """A member of a classic group, whose leader assigns partitions round-robin."""

    commit_version = 8

    def __init__(self) -> None:
        super().__init__()
        self.next_beat = 0.0
        self.beats = 0

    def join_request(self) -> JoinGroupRequest:
        metadata = _TOPIC_OF_V0 + b"\xff\xff\xff\xff"
        return JoinGroupRequest(
            group_id=GROUP,
            session_timeout_ms=SESSION_MS,
            rebalance_timeout_ms=REBALANCE_MS,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=metadata),),
        )

    def join(self) -> None:
        refused = 0
        while not self.stop:
            joined = self.wire.to_coordinator(self.join_request(), 7)
            if joined is None or joined.error_code in MOVED:
                time.sleep(BACKOFF_S)
            elif joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
                refused += 1
                if "no-required-id" not in FAULTS or refused > 3:
                    self.member_id = joined.member_id
            elif joined.error_code == ErrorCode.UNKNOWN_MEMBER_ID:
                self.member_id = ""
            elif joined.error_code:
                time.sleep(BACKOFF_S)
            else:
                self.member_id, self.epoch = joined.member_id, joined.generation_id
                if once("no-sync"):
                    continue
                if self.sync(joined):
                    return

    def sync(self, joined: Any) -> bool:
        members = [each.member_id for each in joined.members]
        shares = {
            member: [part for part in sorted(self.wire.leaders) if part % len(members) == number]
            for number, member in enumerate(members)
        }
        assignments = tuple(
            SyncGroupRequestAssignment(member_id=member, assignment=_assignment(parts))
            for member, parts in shares.items()
        )
        request = SyncGroupRequest(
            group_id=GROUP,
            generation_id=self.epoch,
            member_id=self.member_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=assignments,
        )
        response = self.wire.to_coordinator(request, 5)
        if response is None or response.error_code:
            return False
        self.owned = set(_partitions(bytes(response.assignment)))
        self.assigned(self.owned)
        self.next_beat = 0.0
        return True

    def beat(self) -> None:
        if time.monotonic() < self.next_beat or ("no-heartbeats" in FAULTS and self.beats > 1):
            return
        self.beats += 1
        self.next_beat = time.monotonic() + INTERVAL_S
        request = HeartbeatRequest(group_id=GROUP, generation_id=self.epoch, member_id=self.member_id)
        response = self.wire.to_coordinator(request, 4)
        if response is None or not response.error_code:
            return
        code = response.error_code
        if code == ErrorCode.UNKNOWN_MEMBER_ID and "keep-unknown-id" not in FAULTS:
            self.member_id = ""
            self.join()
        elif code == ErrorCode.ILLEGAL_GENERATION:
            self.join()
        elif code == ErrorCode.REBALANCE_IN_PROGRESS and "no-rejoin" not in FAULTS:
            self.commit()
            self.join()

    def leave(self) -> None:
        member = MemberIdentity(member_id=self.member_id)
        self.wire.to_coordinator(LeaveGroupRequest(group_id=GROUP, members=(member,)), 4)


def _assignment(partitions: list[int]) -> bytes:
    """Return Java's ConsumerProtocolAssignment v0."""
    body = _TOPIC_OF_V0 + len(partitions).to_bytes(4, "big") + b"".join(part.to_bytes(4, "big") for part in partitions)
    return body + b"\xff\xff\xff\xff"


def _partitions(data: bytes) -> list[int]:
    start = 8 + len(TOPIC)
    count = int.from_bytes(data[start : start + 4], "big")
    return [int.from_bytes(data[start + 4 + 4 * n : start + 8 + 4 * n], "big") for n in range(count)]


if __name__ == "__main__":
    {"consumer": ConsumerProtocol, "classic": Classic}[sys.argv[1]]().run()
