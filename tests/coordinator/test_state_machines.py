"""Random histories make all transitions of the state tables, and no others."""

import re
import runpy
from collections.abc import Callable
from enum import Enum
from pathlib import Path
from random import Random
from typing import Any

import pytest

from quorate.coordinator.classic.group import LiveGroup
from quorate.coordinator.classic.states import TRANSITIONS as CLASSIC
from quorate.coordinator.consumer.reconcile import TRANSITIONS as CONSUMER
from quorate.coordinator.share.states import TRANSITIONS as SHARE
from quorate.coordinator.state import ClassicState, CoordinatorState, MemberState
from quorate.coordinator.state.streams import TaskState
from quorate.coordinator.streams.reconcile import TRANSITIONS as STREAMS
from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.share_scripts import ShareHistory
from tests.coordinator.streams_scripts import StreamsHistory
from tests.differential.shard_side import ShardSide
from tests.extent import portion
from tests.oracle.client import Oracle

ROOT = Path(__file__).resolve().parents[2]
Moves = set[tuple[Any, Any]]


class Alone:
    """Runs our side alone.

    `moves`: states before and after each op, except loads, of members of `kind`.
    """

    def __init__(self, kind: str) -> None:
        self.side = ShardSide()
        self.kind = kind
        self.moves: Moves = set()
        self._before: dict[tuple[str, str], Any] = {}

    @property
    def ours(self) -> ShardSide:
        """The only side, under the name that it has in a duel."""
        return self.side

    def op(self, op: str, **fields: Any) -> dict[str, Any]:
        response = {"id": 0, **self.side.run({"op": op, "id": 0, **fields})}
        after = {
            (group_id, member_id): member
            for group_id, group in self.side.shard.state.groups.items()
            if group.kind == self.kind
            for member_id, member in group.members.items()  # type: ignore[attr-defined]
        }
        for where, member in after.items():
            before = self._before.get(where)
            if before is not None and before is not member and op == "request":
                self.moves.add((before.state, member.state))
        self._before = after
        return response

    def request(self, api: str, version: int | None = None, *, client_id: str = "client", **body: Any) -> Any:
        chosen = {} if version is None else {"version": version}
        return self.op("request", api=api, clientId=client_id, body=body, **chosen)


def test_consumer_group_members_follow_the_transition_table() -> None:
    seen: Moves = set()
    for seed in range(20):
        alone = Alone("Consumer")
        History(Random(seed), alone, regexes=0, statics=0.2).run(80)
        seen |= alone.moves
    # A member that rejoins or leaves temporarily is set to STABLE, which is no transition.
    assert seen == {(old, new) for old, news in CONSUMER.items() for new in news if old is not MemberState.UNKNOWN}


def test_share_group_members_follow_the_transition_table() -> None:
    seen: Moves = set()
    for seed in range(5):
        alone = Alone("Share")
        ShareHistory(Random(seed), alone).run(60)  # type: ignore[arg-type]
        seen |= alone.moves
    assert seen == {(MemberState.STABLE, MemberState.STABLE)}


def test_streams_group_members_follow_the_transition_table() -> None:
    seen: Moves = set()
    for seed in (0, 3, 9, 12, 35, 139):  # each is the first that makes another of the moves
        alone = Alone("Streams")
        StreamsHistory(Random(seed), alone).run(60)  # type: ignore[arg-type]
        seen |= alone.moves
    # Only a log can have a member in an unknown state.
    assert seen == {(old, new) for old, news in STREAMS.items() for new in news if old is not TaskState.UNKNOWN}


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("history", "seeds"),
    [
        (lambda rng, duel: ClassicHistory(rng, duel), portion(12, usual=6)),
        (lambda rng, duel: MixedHistory(rng, duel), portion(12, usual=6)),
    ],
    ids=["classic", "mixed"],
)
def test_classic_groups_follow_the_transition_table(
    oracle: Oracle, monkeypatch: pytest.MonkeyPatch, history: Callable[[Random, NamedDuel], Any], seeds: int
) -> None:
    seen: Moves = set()
    reported: Moves = set()
    put, move = LiveGroup.__setattr__, LiveGroup.transition_to

    def watched_put(group: LiveGroup, name: str, value: object) -> None:
        if name == "phase" and hasattr(group, "phase"):
            seen.add((group.phase, value))
        put(group, name, value)

    def watched_move(group: LiveGroup, state: ClassicState, now_ms: int) -> None:
        reported.add((group.phase, state))
        move(group, state, now_ms)

    monkeypatch.setattr(LiveGroup, "__setattr__", watched_put)
    monkeypatch.setattr(LiveGroup, "transition_to", watched_move)
    for seed in range(seeds):
        history(Random(seed), NamedDuel(oracle, note=f"seed {seed}")).run(60)
    # A loaded group, or one that was a consumer group, begins as stable or empty.
    begun = {(ClassicState.EMPTY, ClassicState.STABLE), (ClassicState.EMPTY, ClassicState.EMPTY)}
    assert seen <= reported | begun, "only transition_to changes the state"
    allowed = {(old, new) for old, news in CLASSIC.items() for new in news}
    assert reported <= allowed
    # A dead group is removed by its tombstone, so there is no transition to Dead.
    assert {one for one in allowed if ClassicState.DEAD not in one} <= reported


PAGES = {
    "classic-groups.md": ("classic.states", CLASSIC),
    "consumer-groups.md": ("consumer.reconcile", CONSUMER),
    "share-groups.md": ("share.states", SHARE),
}


@pytest.mark.parametrize("page", PAGES)
def test_documentation_has_the_table_and_its_diagram(page: str) -> None:
    module, transitions = PAGES[page]
    text = (ROOT / "docs/explanation" / page).read_text("utf-8")
    wanted = {name(state): {name(one) for one in transitions[state]} for state in transitions}
    rows = re.findall(r"^\| (\w+) \| ([\w, ]+) \|", text, re.MULTILINE)
    assert {old: set(news.split(", ")) for old, news in rows if old in wanted} == wanted
    assert f"<!-- states: {module} -->" in text
    drawn = runpy.run_path(str(ROOT / "scripts/docs_states.py"))["on_page_markdown"](text)
    arrows = re.findall(r"<title>(\w+) → (\w+)</title>", drawn)
    assert sorted(arrows) == sorted((old, new) for old, news in wanted.items() for new in news)


def name(state: Enum) -> str:
    return state.value if isinstance(state.value, str) else state.name


def test_states_in_records_are_in_the_tables() -> None:
    assert set(CONSUMER) == set(SHARE) == set(MemberState)
    assert set(CLASSIC) == set(ClassicState)
    assert not CoordinatorState().groups
