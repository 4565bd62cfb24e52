"""quorate's share-partition decides as Kafka's own SharePartition, in random scripts."""

from collections import Counter

import pytest

from tests.cluster.share.scripts import run_script
from tests.extent import portion
from tests.oracle.client import Oracle

SEEDS = portion(300)
"""bench/share_partition_differential.py runs more."""


@pytest.mark.oracle
def test_random_scripts_have_the_results_of_kafka(oracle: Oracle) -> None:
    seen: Counter[str] = Counter()
    for seed in range(SEEDS):
        script, difference = run_script(seed, oracle)
        assert difference is None, difference
        for step, result in zip(script.steps, script.results, strict=True):
            seen[step["do"]] += 1
            seen["acquired"] += bool(result.get("acquired"))
            seen["dead letters"] += len(result["letters"])
            seen["stored"] += len(result["writes"])
            seen["rolled back"] += step["do"] == "written" and bool(step["error"])
            seen["thrown"] += "thrown" in result
            seen["invalid state"] += sum(code == 121 for _, code, _ in result["completed"])
    # The scripts reach what they are about.
    often = min(seen["acquired"], seen["stored"], seen["invalid state"])
    rare = min(seen["advance"], seen["release"], seen["logStart"], seen["rolled back"], seen["dead letters"])
    assert often > 10 * SEEDS // 3
    assert min(rare, seen["thrown"]) > SEEDS // 6
