"""`quorate hash -b`: the hash that a real broker stored equals the computed one."""

import json
import time

import pytest

from tests.cli.assign.test_live import PATIENCE_S, consumer_members
from tests.cli.conftest import RACK


@pytest.mark.oracle
def test_the_stored_hash_of_a_live_group_equals_the_computed_one(quorate, racked):
    servers = racked.bootstrap_servers
    with consumer_members(racked, "hashed", 1):
        until = time.monotonic() + PATIENCE_S
        rows = []
        while [row["verdict"] for row in rows] != ["same"]:
            assert time.monotonic() < until, rows
            time.sleep(0.5)
            ended = quorate("hash", "group", "-b", servers, "--group", "hashed", "--json", "--check")
            rows = json.loads(ended.out) if ended.out else []
    topics = {row["topic"]: row for row in json.loads(quorate("hash", "topic", "-b", servers, "orders", "--json").out)}
    assert ended.status == 0
    assert rows[0]["stored_hash"] == rows[0]["computed_hash"] != 0
    assert rows[0]["topics"] == {"orders": topics["orders"]["hex"]}
    assert {rack for racks in topics["orders"]["racks"] for rack in racks} == {RACK}
