"""`CopiedTimeline` has the order of a map into which the texts are put step by step."""

import os
from itertools import product
from random import Random

import pytest

from quorate.assignors.java_order import JavaHashMap, TimelineMap, copied_timeline
from quorate.assignors.java_order.copied_timeline import CopiedTimeline
from quorate.assignors.java_order.few import map_of_timeline
from quorate.assignors.java_order.timeline_map import timeline_number
from tests.conftest import CI
from tests.extent import portion

START = 0 if CI else int.from_bytes(os.urandom(4), "big")
KINDS = {
    "numbered": [f"m{number}" for number in range(800)],
    "equal hashes": ["".join(parts) for parts in product(["Aa", "BB"], repeat=5)],
    "equal in small tables": [chr(step * number) for step in (16, 64, 128) for number in range(1, 300)],
    "early, and equal in a table of 64": [
        text for text in map(chr, range(64, 0xD800, 64)) if timeline_number(text) < 1 << 61
    ],
}


def _in_steps(members: TimelineMap[str, None], last: str) -> list[str]:
    made: JavaHashMap[str, None] = JavaHashMap()
    for text in (*members.ordered_keys(), last):
        made.put(text, None)
    return list(made)


@pytest.mark.parametrize("kind", KINDS)
def test_order_is_that_of_a_map(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    compared = in_full = 0

    def counted(members: TimelineMap[str, None], last: str) -> object:
        nonlocal in_full
        in_full += 1
        return map_of_timeline(members, last)

    monkeypatch.setattr(copied_timeline, "map_of_timeline", counted)
    for seed in range(START, START + portion(40)):
        rng = Random(seed)
        members: TimelineMap[str, None] = TimelineMap()
        texts = [
            *rng.sample(KINDS["numbered"], 330),
            *rng.sample(KINDS[kind], min(len(KINDS[kind]), rng.choice([14, 300]))),
        ]
        texts = [*dict.fromkeys(texts)]
        rng.shuffle(texts)
        copied: CopiedTimeline | None = None
        gone: list[str] = []
        most = rng.choice([10, 60, 400, 400])
        for text in texts[:most]:
            if copied is None:
                copied = CopiedTimeline(members) if rng.random() < 0.1 else None
            step = rng.random()
            if step < 0.05 and members:
                gone.append(rng.choice([*members]))
                del members[gone[-1]]
                if copied is not None:
                    copied.sort_again()
            elif step < 0.15 and members:
                members[rng.choice([*members])] = None  # may double the slots
            else:
                new = gone.pop() if gone and step < 0.2 else text
                members[new] = None
                if copied is not None:
                    copied.added(new)
            if copied is not None and rng.random() < 0.5:
                last = rng.choice(texts)
                assert copied.with_last(last) == _in_steps(members, last), f"seed {seed}, {len(members)} members"
                compared += 1
    assert 0 < in_full < compared


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("others", [0, 30, 60, 100, *range(190, 370, 10)])
def test_the_first_crowded_bucket_is_found(kind: str, others: int) -> None:
    members: TimelineMap[str, None] = TimelineMap()
    for text in KINDS["numbered"][100 : 100 + others]:
        members[text] = None
    copied = CopiedTimeline(members)
    for text in Random(others).sample(KINDS[kind][:100], 16):
        assert copied.with_last(text) == _in_steps(members, text)
        members[text] = None
        copied.added(text)
        assert copied.with_last(text) == _in_steps(members, text)
