"""Send hostile requests of every API to the embedded cluster.

None may delay another connection by more than 250 ms. There are three processes: the server, whose
event loop measures the CPU time of its longest turn; a client that sends heartbeats and measures
their delay; and this one, which sends the hostile requests, and reads the measurements of both. A
late heartbeat counts only for the CPU time that the server used meanwhile, so a busy machine causes
no findings.

Every second round has an authorizer: the measured client is a super user, and the hostile client
has no permissions.

Prints the seed, and the longest delay for each API. Requests that took too long are saved to files,
which `--replay` sends again. The exit status is 1 if there are any, if the server failed, or if a
request had no response. Each round has its own server and seed: `--seed N --rounds 1` repeats one.
Runs on Linux, on the loopback interface only.
"""

import argparse
import json
import math
import os
import socket
import subprocess
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import IO, Any

# Last: `codecs` stays the standard library's.
sys.path.append(str(Path(__file__).parents[1]))

from _hostile import GROUP, PARTITIONS, TOPICS, TRANSACTION, Attack, attacks
from _measure import cpu_s, resident_mib

from quorate.codecs.api.broker import ApiVersionsRequest
from quorate.integration.verify.wire import framed

LIMIT_MS = 250
NO_RESPONSE_S = 30
LAST = 0x7E57
"""The correlation id of the request after an attack."""
STEPS = 120
"""The number of requests of a round."""
SMOKE_SEED = 7
"""Most of the first requests of this round and the next one are small."""
TICK_S = 0.002
ADMIN, HOSTILE = "admin", "hostile"
"""Users in rounds with an authorizer. Their passwords are their names."""


# ---- the server's process


def serve(*, authorizer: bool) -> None:
    """Run a cluster; for each line of stdin, print the longest turn since the last one as JSON."""
    import asyncio
    import gc

    from quorate.cluster import EmbeddedCluster, Security
    from quorate.cluster.turns import collect_rarely
    from quorate.codecs.message import CONSUMER_OFFSETS, TRANSACTION_STATE

    longest = [0.0, "", 0.0]
    collecting = [0.0, 0.0]  # start of the garbage collection, and its time in this turn

    def collected(phase: str, _: object) -> None:
        if phase == "start":
            collecting[0] = time.thread_time()
        else:
            collecting[1] += time.thread_time() - collecting[0]

    unwatched = asyncio.Handle._run

    def watched(handle: asyncio.Handle) -> None:
        began = time.thread_time()
        collecting[1] = 0.0
        unwatched(handle)
        took = time.thread_time() - began
        if took > longest[0]:  # type: ignore[operator]
            longest[:] = took, repr(handle)[:200], collecting[1]

    asyncio.Handle._run = watched  # type: ignore[method-assign]
    gc.callbacks.append(collected)
    properties = {
        "group.initial.rebalance.delay.ms": 0,
        "offsets.topic.num.partitions": 4,
        "transaction.state.log.num.partitions": 2,
        "auto.create.topics.enable": True,
    }
    security: Any = "PLAINTEXT"
    if authorizer:
        properties["authorizer.class.name"] = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"
        properties["super.users"] = f"User:{ADMIN}"
        security = Security(users={ADMIN: ADMIN, HOSTILE: HOSTILE})
    with EmbeddedCluster(brokers=2, racks=["a", "b"], properties=properties, security=security, seed=1) as made:
        core = made.core
        for name, config in TOPICS.items():
            made.call(lambda name=name, config=config: core.create_topic(name, partitions=PARTITIONS, config=config))
        for name in (CONSUMER_OFFSETS, TRANSACTION_STATE):
            # The broker that gets the requests is the coordinator of all groups and transactions.
            for partition in made.call(lambda name=name: core.internal_topic(name)).partitions:
                made.call(lambda partition=partition: core.reassign(partition, [1]))
        made.call(lambda: core.transactions.init_producer_id(TRANSACTION, 60_000, -1, -1))
        print(json.dumps({"ports": [broker.port for broker in core.brokers.values()]}), flush=True)
        collect_rarely()  # as `quorate serve` does
        for _ in sys.stdin:
            took, what, collector = longest
            longest[:] = 0.0, "", 0.0
            print(
                json.dumps(
                    {
                        "turn_ms": took * 1000,
                        "what": f"{what}, {collector * 1000:.0f} ms of them the garbage collector's",
                        "failures": core.failures[:1],
                    }
                ),
                flush=True,
            )


# ---- the measured client's process


def probe(port: int, pid: int, user: str | None) -> None:
    """Send heartbeats of a member and ApiVersions alternately.

    For each line of stdin, print the longest delay since the last one as JSON.
    """
    from threading import Thread

    from quorate.codecs.api import ConsumerGroupHeartbeatRequest
    from tests.cluster.helpers.wire import Wire

    worst = {"held_ms": 0.0, "late_ms": 0.0, "count": 0}

    def heartbeats() -> None:
        with Wire(port, timeout_s=NO_RESPONSE_S, user=user) as wire:
            member = "AAAAAAAAAAAAAAAAAAAAAA"
            joined = wire.request(
                ConsumerGroupHeartbeatRequest(
                    group_id=GROUP,
                    member_id=member,
                    member_epoch=0,
                    rebalance_timeout_ms=300_000,
                    subscribed_topic_names=(next(iter(TOPICS)),),
                    topic_partitions=(),
                ),
                1,
            )
            assert joined.error_code == 0, joined
            beat = ConsumerGroupHeartbeatRequest(group_id=GROUP, member_id=member, member_epoch=joined.member_epoch)
            while True:
                for request, version in ((beat, 1), (ApiVersionsRequest(), 4)):
                    used, began = cpu_s(pid), time.perf_counter()
                    wire.request(request, version)
                    late_ms = (time.perf_counter() - began) * 1000
                    worst["late_ms"] = max(worst["late_ms"], late_ms)
                    worst["held_ms"] = max(worst["held_ms"], min(late_ms, (cpu_s(pid) - used) * 1000))
                    worst["count"] += 1
                time.sleep(TICK_S)

    beating = Thread(target=heartbeats, daemon=True)
    beating.start()
    for _ in sys.stdin:
        if not beating.is_alive():  # a request timed out
            return
        print(json.dumps(worst), flush=True)
        worst.update(held_ms=0.0, late_ms=0.0, count=0)


# ---- this process


class Child:
    """A process that prints a line of JSON for each line of stdin."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, __file__, *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise ChildProcessError(f"{self.process.args[2]} ended")
        found: dict[str, Any] = json.loads(line)
        return found

    def measurements(self) -> dict[str, Any]:
        stdin: IO[str] | None = self.process.stdin
        assert stdin is not None
        stdin.write("\n")
        stdin.flush()
        return self.read()

    def close(self) -> None:
        self.process.kill()
        self.process.communicate()


@dataclass
class Worst:
    """The number of requests of an API, and the longest delay."""

    count: int = 0
    held_ms: float = 0.0
    late_ms: float = 0.0
    kind: str = ""


@dataclass
class Found:
    worst: dict[str, Worst] = field(default_factory=dict)
    kinds: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)
    rss_mib: float = 0.0
    beats: int = 0


def send(port: int, attack: Attack, open_for_good: list[socket.socket], user: str | None = None) -> str | None:
    """Send an attack, and wait for the responses, or until the connection is closed.

    Returns a problem, or `None`.
    """
    from tests.cluster.helpers.wire import Wire

    connection = Wire(port, timeout_s=NO_RESPONSE_S, user=user).socket
    try:
        for at in range(0, len(attack.data), 1 << 20):
            connection.sendall(attack.data[at : at + (1 << 20)])
        if attack.unanswered:
            open_for_good.append(connection)
            return None
        connection.sendall(framed(ApiVersionsRequest(), 4, LAST))
        # Produce without acks has no response. The response to this last request comes last.
        correlation_id = 0
        while correlation_id != LAST:
            size = int.from_bytes(exactly(connection, 4), "big")
            correlation_id = int.from_bytes(exactly(connection, size)[:4], "big")
    except TimeoutError:
        return f"no response within {NO_RESPONSE_S} s"
    except (ConnectionError, EOFError):
        return None
    finally:
        if connection not in open_for_good:
            connection.close()
    return None


def exactly(connection: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        more = connection.recv(min(count - len(data), 1 << 20))
        if not more:
            raise EOFError
        data += more
    return bytes(data)


def play(
    seed: int, steps: list[Attack] | None, until: float, found: Found, folder: Path, limit_ms: float, count: int = STEPS
) -> None:
    """Play a round."""
    authorizer = seed % 2 == 1
    rights = ["--authorizer"] if authorizer else []
    server = Child("--serve", *rights)
    beats = None
    idle: list[socket.socket] = []
    try:
        port = server.read()["ports"][0]
        beats = Child("--probe", str(port), "--pid", str(server.process.pid), *rights)
        time.sleep(0.5)
        server.measurements(), beats.measurements()
        for step, attack in enumerate(steps if steps is not None else attacks(Random(seed), count)):
            if time.monotonic() > until:
                break
            problem = send(port, attack, idle, HOSTILE if authorizer else None)
            time.sleep(0.02)  # the server may still work on it
            turn, late = server.measurements(), beats.measurements()
            held_ms = max(turn["turn_ms"], late["held_ms"])
            found.kinds[attack.kind] += 1
            found.beats += late["count"]
            worst = found.worst.setdefault(attack.api, Worst())
            worst.count += 1
            name = f"{attack.api}-{seed}-{step}.bin"
            if held_ms > limit_ms:
                in_turn = f"{turn['turn_ms']:.0f} ms of CPU time in one turn: {turn['what']}"
                problem = f"delayed other connections by {held_ms:.0f} ms ({in_turn})"
            if turn["failures"]:
                problem = f"internal error: {turn['failures'][0].splitlines()[-1]}"
            if problem is not None:
                folder.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(
                    json.dumps(
                        {
                            "api": attack.api,
                            "kind": attack.kind,
                            "unanswered": attack.unanswered,
                        }
                    ).encode()
                    + b"\n"
                    + attack.data
                )
                what = f"{attack.api}, {attack.kind}, {len(attack.data):,} bytes"
                text = f"seed {seed}, step {step}: {what}: {problem}; saved as {folder / name}"
                found.problems.append(text)
                print(text, file=sys.stderr, flush=True)
            if held_ms > worst.held_ms:
                worst.held_ms, worst.late_ms, worst.kind = held_ms, late["late_ms"], attack.kind
            found.rss_mib = max(found.rss_mib, resident_mib(server.process.pid))
            if turn["failures"]:
                break
            if len(idle) > 20:
                for one in idle:
                    one.close()
                idle.clear()
    except (ChildProcessError, ConnectionRefusedError) as error:
        found.problems.append(f"seed {seed}: {error}")
        print(found.problems[-1], file=sys.stderr, flush=True)
    finally:
        for child in (beats, server):
            if child is not None:
                child.close()
        for one in idle:
            one.close()


def replayed(path: Path) -> Attack:
    head, _, data = path.read_bytes().partition(b"\n")
    return Attack(data=data, **json.loads(head))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60, help="for how long (default: 60)")
    parser.add_argument("--seed", type=int, help="seed of the first round (default: a new one)")
    parser.add_argument("--rounds", type=int, help="maximum number of rounds")
    parser.add_argument("--quick", action="store_true", help="half a minute")
    parser.add_argument(
        "--smoke", action="store_true", help="short rounds, which check for failures only, not for delays"
    )
    parser.add_argument("--replay", type=Path, nargs="+", help="send saved requests")
    parser.add_argument(
        "--keep", type=Path, default=Path("build/socket-fuzz"), help="the folder for requests that took too long"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    parser.add_argument("--authorizer", action="store_true", help="replay with an authorizer")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--probe", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--pid", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(authorizer=options.authorizer)
        return
    if options.probe is not None:
        probe(options.probe, options.pid, ADMIN if options.authorizer else None)
        return
    found = Found()
    minutes = 0.5 if options.quick else options.minutes
    if options.smoke:
        minutes, options.rounds, options.seed = 5, 2, SMOKE_SEED
    until = time.monotonic() + minutes * 60
    limit_ms = math.inf if options.smoke else LIMIT_MS
    first = int.from_bytes(os.urandom(3), "big") if options.seed is None else options.seed
    if options.replay:
        steps = [replayed(path) for path in options.replay]
        play(int(options.authorizer), steps, until, found, options.keep, limit_ms)
    else:
        print(f"seeds from {first}; --seed {first} repeats this run", file=sys.stderr)
        number = 0
        while time.monotonic() < until and (options.rounds is None or number < options.rounds):
            play(first + number, None, until, found, options.keep, limit_ms, 6 if options.smoke else STEPS)
            number += 1
    with suppress(BrokenPipeError):
        report(found, first, as_json=options.json or options.smoke, as_table=not options.json)
    sys.exit(1 if found.problems else 0)


def report(found: Found, seed: int, *, as_json: bool, as_table: bool) -> None:
    rows = sorted(found.worst.items(), key=lambda one: -one[1].held_ms)
    total = sum(one.count for one in found.worst.values())
    for api, one in rows if as_json else ():
        print(json.dumps({"case": api, "requests": one.count, "held_ms": round(one.held_ms, 1), "kind": one.kind}))
    if not as_table:
        return
    print(f"{'API':32} {'requests':>8} {'delay ms':>10} {'late ms':>8}  by")
    for api, one in rows:
        print(f"{api:32} {one.count:8,} {one.held_ms:10.1f} {one.late_ms:8.1f}  {one.kind}")
    print(
        f"seed {seed}: {total:,} requests of {len(rows)} APIs, {found.beats:,} heartbeats, "
        f"at most {found.rss_mib:,.0f} MiB, {len(found.problems)} problems"
    )


if __name__ == "__main__":
    main()
