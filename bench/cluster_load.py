"""Run 200 consumers in 20 groups on an embedded cluster for minutes, with faults.

Members crash, brokers change racks, and connections break (`tests/cluster/helpers/load.py`). All
records must be processed, no partition may be owned twice, no committed offset may decrease, and
memory must not grow. Prints the seed; the exit status is 1 if one of these checks fails.
"""

import argparse
import asyncio
import json
import resource
import sys
import time
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _report import SMOKE, first_seed
from confluent_kafka import Producer

from quorate.cluster import EmbeddedCluster
from tests.cluster.helpers.load import PROPERTIES, TOPIC, Broken, Load

GROWTH = 1.5
"""Limit of the memory at the end, relative to that after a third of the time. Memory grows slowly
because the log and the ledger of processed records are in memory.
"""


def resident_mib() -> float:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize() / (1 << 20)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=180)
    parser.add_argument("--seed", type=int, help="default: a new one")
    parser.add_argument("--quick", action="store_true", help="20 seconds")
    parser.add_argument("--smoke", action="store_true", help=f"{SMOKE}: one second, two groups of three")
    parser.add_argument("--json", action="store_true", help="one JSON object at the end")
    options = parser.parse_args()
    seed = first_seed(options)
    seconds = 1.0 if options.smoke else 20.0 if options.quick else options.seconds
    groups, members = (2, 3) if options.smoke else (20, 10)
    print(f"seed {seed}; --seed {seed} repeats the faults", file=sys.stderr)
    with EmbeddedCluster(brokers=3, racks=["a", "b", "c"], properties=PROPERTIES, seed=seed) as cluster:
        load = Load(cluster, groups=groups, members=members, partitions=12, seed=seed)
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )
        sent, started = 0, time.monotonic()
        memory = [resident_mib()]

        async def produce() -> None:
            nonlocal sent
            for _ in range(10):
                producer.produce(TOPIC, b"v", key=str(sent).encode())
                sent += 1
            producer.poll(0)
            if time.monotonic() - started > seconds / 30 * len(memory):
                memory.append(resident_mib())
            await asyncio.sleep(0.05)

        problem = None
        try:
            asyncio.run(load.run(seconds, produce))
        except Broken as broken:
            problem = str(broken)
        third = memory[len(memory) // 3]
        if problem is None and memory[-1] > GROWTH * third:
            problem = f"memory went from {third:.0f} to {memory[-1]:.0f} MiB"
        if problem is None and cluster.core.failures:
            problem = cluster.core.failures[0]
        found = {
            "seed": seed,
            "seconds": seconds,
            "records": sent,
            "processed": sum(len(one) for one in load.ledger.processed.values()),
            "commits": len(load.ledger.committed),
            "rejoined": load.ledger.rejoined,
            "troubles": load.troubles,
            "mib_at_a_third": round(third),
            "mib_at_the_end": round(memory[-1]),
            "problem": problem,
        }
    if options.json or options.smoke:
        print(json.dumps(found))
    if not options.json:
        print("\n".join(f"{name:15} {value}" for name, value in found.items()))
    sys.exit(1 if problem is not None else 0)


if __name__ == "__main__":
    main()
