"""Run 200 consumers in 20 groups on an embedded cluster for minutes, with faults.

Members crash, brokers change racks, and connections break (`tests/cluster/helpers/load.py`). All
records must be processed, no partition may be owned twice, no committed offset may decrease, and
memory must not grow. Prints the seed; the exit status is 1 if one of these checks fails.
"""

import asyncio
import os
import sys
import time
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path += [str(Path(__file__).parent), str(Path(__file__).parents[1])]

from _measure import resident_mib
from _sweep import Sweep
from confluent_kafka import Producer

from quorate.cluster import EmbeddedCluster
from tests.cluster.helpers.load import PROPERTIES, TOPIC, Broken, Load

GROWTH = 1.5
"""Limit of the memory at the end, relative to that after a third of the time. Memory grows slowly
because the log and the ledger of processed records are in memory.
"""


def main() -> None:
    sweep = Sweep(__doc__ or "", "seconds", 180, quick=20, smoke=1)
    seed, seconds = sweep.first, sweep.count
    groups, members = (2, 3) if sweep.options.smoke else (20, 10)
    with EmbeddedCluster(brokers=3, racks=["a", "b", "c"], properties=PROPERTIES, seed=seed) as cluster:
        load = Load(cluster, groups=groups, members=members, partitions=12, seed=seed)
        producer = Producer(
            {"bootstrap.servers": cluster.bootstrap_servers, "enable.idempotence": True, "log_level": 0}
        )
        sent, started = 0, time.monotonic()
        memory = [resident_mib(os.getpid())]

        async def produce() -> None:
            nonlocal sent
            for _ in range(10):
                producer.produce(TOPIC, b"v", key=str(sent).encode())
                sent += 1
            producer.poll(0)
            if time.monotonic() - started > seconds / 30 * len(memory):
                memory.append(resident_mib(os.getpid()))
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
    sweep.results("A cluster with faults", [found])
    sys.exit(1 if problem is not None else 0)


if __name__ == "__main__":
    main()
