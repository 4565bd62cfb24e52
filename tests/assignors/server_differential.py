"""Compares our server-side assignors with Kafka's, over seeds.

The oracle's `serverAssign` and `shareAssign` return assignments and the records that the
coordinator writes, in order.
"""

from random import Random

from quorate.codecs import decode_record
from tests.assignors.differential import DIFFERS, Differential, Result
from tests.assignors.server_cases import (
    CROWDED,
    MID,
    SMALL,
    WIDE,
    Case,
    next_server_round,
    server_case,
    smaller_server_cases,
)
from tests.differential.ops_server_assign import server_assign, share_assign

ASSIGNORS = ("uniform", "range", "simple")
SIZES = (*[SMALL] * 44, *[MID] * 3, *[WIDE] * 2, CROWDED)
"""Sizes in turn: mostly small groups."""


def differ(mine: Result, theirs: Result) -> bool:
    """Return whether the results differ.

    Where Kafka's assignor throws, ours must raise an error that says why. Members without a record
    keep their target. The order of its partitions inside the assignor does not matter: it may have
    removed a partition from a set and added it again.
    """
    if "error" in theirs:
        return mine.get("error", {}).get("class") != "AssignorError"
    return mine != theirs and ("error" in mine or _without_passing_order(mine) != _without_passing_order(theirs))


def _without_passing_order(result: Result) -> Result:
    keys = [
        decode_record(bytes.fromhex(record["key"]), bytes.fromhex(record["value"])).key for record in result["records"]
    ]
    written = {getattr(key, "member_id", None) for key in keys}
    assignment = {
        member: topics if member in written else {topic: sorted(partitions) for topic, partitions in topics.items()}
        for member, topics in result["assignment"].items()
    }
    return {**result, "assignment": assignment}


def _case_of(rng: Random, assignor: str, seed: int) -> Case:
    return server_case(rng, assignor, size=SIZES[seed % len(SIZES)])


_SERVER = Differential(
    assign=lambda case: share_assign(case) if case["op"] == "shareAssign" else server_assign(case),
    case_of=_case_of,
    following=lambda rng, case, assignment, *_: next_server_round(rng, case, assignment),
    verdict=lambda _, mine, theirs: DIFFERS if differ(mine, theirs) else None,
    smaller=smaller_server_cases,
)
ours, kafka, run, histories = _SERVER.ours, _SERVER.kafka, _SERVER.run, _SERVER.histories
