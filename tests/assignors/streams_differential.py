"""Compares our task assignor of streams groups with Kafka's StickyTaskAssignor, over seeds.

In the rounds of a history members adopt Kafka's result, and members, processes and partitions
change.
"""

import json

from tests.assignors.differential import DIFFERS, Differential, Result
from tests.assignors.streams_cases import MID, SMALL, next_streams_round, smaller_streams_cases, streams_case
from tests.differential.ops_streams import streams_assign

SIZES = (*[SMALL] * 18, *[MID] * 2)
"""Sizes in turn: mostly small groups."""


def differ(mine: Result, theirs: Result) -> bool:
    """Return whether the results differ, or the order of members or subtopologies.

    The former is the order of the broker's records, the latter that of its responses.
    """
    if "error" in theirs:
        return mine.get("error") != {"class": "AssignorError", "message": theirs["error"]["message"]}
    return json.dumps(mine) != json.dumps(theirs)


_STREAMS = Differential(
    assign=streams_assign,
    case_of=lambda rng, _, seed: streams_case(rng, size=SIZES[seed % len(SIZES)]),
    following=lambda rng, case, assignment, *_: next_streams_round(rng, case, assignment),
    verdict=lambda _, mine, theirs: DIFFERS if differ(mine, theirs) else None,
    smaller=smaller_streams_cases,
)
ours, kafka, run, histories = _STREAMS.ours, _STREAMS.kafka, _STREAMS.run, _STREAMS.histories
