"""Wrong clients: each planted fault breaks exactly the rule that is meant for it.

The clients are programs in `planted/`, which keep all rules if no fault is named.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

from quorate.integration.verify_client import RULES, SCENARIOS, ClientLimits
from quorate.integration.verify_client.kinds import ClientKind
from quorate.integration.verify_client.runner import judged_scenario
from tests.extent import sampled

pytestmark = pytest.mark.without_containers

FOLDER = Path(__file__).with_name("planted")
TOGETHER = 6


@dataclass(frozen=True, slots=True)
class Planted:
    """A fault: `program` is the client, `rule` the one that it breaks, in `scenario`."""

    program: str
    fault: str
    scenario: str
    rule: str
    watch_s: float = 2.0
    recover_s: float = 20.0
    close_s: float = 15.0

    @property
    def command(self) -> list[str]:
        file = "consumers.py" if self.program in ("consumer", "classic") else "producers.py"
        return [sys.executable, str(FOLDER / file), self.program, *([self.fault] if self.fault else [])]


PLANTED = (
    Planted("consumer", "old-epoch", "plain", "no-commit-with-an-old-epoch"),
    Planted("consumer", "no-heartbeats", "plain", "heartbeat-in-time", watch_s=5.5),
    Planted("consumer", "use-after-acknowledge", "second-member", "revoke-before-acknowledge"),
    Planted("consumer", "silent-callbacks", "second-member", "heartbeats-during-callbacks"),
    Planted("consumer", "rejoin-with-epoch", "fenced-member", "rejoin-with-epoch-0-after-being-fenced"),
    Planted("consumer", "new-member-id", "fenced-member", "member-id-is-kept"),
    Planted("consumer", "no-member-id", "plain", "member-id-is-generated-by-the-client"),
    Planted("consumer", "wrong-epoch", "plain", "heartbeat-has-the-last-epoch"),
    Planted("consumer", "partial-join", "plain", "join-with-all-fields"),
    Planted("consumer", "two-at-a-time", "plain", "one-heartbeat-at-a-time"),
    Planted("consumer", "no-acknowledge", "plain", "assignment-is-acknowledged", watch_s=6),
    Planted("consumer", "partial-after-loss", "lost-heartbeats", "all-fields-after-a-lost-response"),
    Planted("consumer", "no-leave", "plain", "leaves-at-close"),
    Planted("consumer", "after-leaving", "plain", "nothing-after-leaving"),
    Planted("consumer", "unsupported-version", "plain", "versions-within-api-versions"),
    Planted("consumer", "no-api-versions", "plain", "api-versions-come-first"),
    Planted("consumer", "hot-loop", "coordinator-loads", "retries-have-a-backoff"),
    Planted("consumer", "hot-connections", "requests-are-cut", "connections-have-a-backoff"),
    Planted("consumer", "give-up", "coordinator-loads", "retriable-errors-are-retried", watch_s=6),
    Planted("consumer", "no-metadata", "no-leader", "metadata-is-refreshed", watch_s=6),
    Planted("consumer", "ignore-throttle", "throttled", "throttle-time-is-honoured"),
    Planted("consumer", "crash", "coordinator-loads", "keeps-running"),
    Planted("consumer", "stuck", "plain", "closes-in-time", close_s=3),
    Planted("consumer", "rests", "no-leader", "works-again", recover_s=2),
    Planted("consumer", "skip", "plain", "no-record-is-skipped"),
    Planted("consumer", "commit-beyond", "plain", "no-commit-beyond-delivered-records"),
    Planted("consumer", "commit-back", "plain", "committed-offsets-never-go-back"),
    Planted("consumer", "stop-commits", "plain", "all-records-are-committed"),
    Planted("consumer", "old-coordinator", "coordinator-moves", "coordinator-is-looked-up"),
    Planted("consumer", "ignore-replica", "plain", "fetches-from-the-preferred-replica", watch_s=7),
    Planted("classic", "no-heartbeats", "plain", "heartbeat-within-the-session", watch_s=3),
    Planted("classic", "no-required-id", "plain", "join-with-the-required-member-id"),
    Planted("classic", "no-sync", "plain", "sync-after-join"),
    Planted("classic", "no-rejoin", "second-member", "rejoins-after-rebalance-in-progress"),
    Planted("classic", "keep-unknown-id", "unknown-member", "unknown-member-id-is-given-up"),
    Planted("classic", "old-generation", "plain", "no-commit-with-an-old-generation"),
    Planted("classic", "no-leave", "plain", "leave-group-at-close"),
    Planted("producer", "gap", "plain", "sequences-without-gap"),
    Planted("producer", "change-batch", "not-enough-replicas", "same-batch-is-sent-again"),
    Planted("producer", "forget-batch", "lost-acknowledgements", "failed-batch-is-sent-again", watch_s=6),
    Planted("producer", "flood", "plain", "at-most-5-requests-in-flight"),
    Planted("transactions", "continue-fenced", "fenced-producer", "stops-after-being-fenced"),
    Planted("transactions", "no-add", "plain", "partition-is-added-before-its-records"),
    Planted("transactions", "early-commit", "slow-responses", "commit-after-all-records"),
    Planted("transactions", "old-producer-epoch", "plain", "producer-has-its-newest-epoch"),
)
CORRECT = tuple(
    Planted(program, "", scenario, "")
    for program, scenarios in {
        "consumer": ("second-member", "fenced-member", "coordinator-moves", "requests-are-cut", "throttled"),
        "classic": ("second-member", "unknown-member", "lost-heartbeats"),
        "producer": ("lost-acknowledgements", "single-batches-fail"),
        "transactions": ("fenced-producer", "coordinator-moves"),
    }.items()
    for scenario in scenarios
)
PLAYED = (*sampled(PLANTED), *sampled(CORRECT))

Results = dict[Planted, Future[dict[str, list[str]]]]


@pytest.fixture(scope="module")
def results() -> Iterator[Results]:
    """Play all scenarios of this run, several at a time: they mostly wait."""
    with ThreadPoolExecutor(max_workers=TOGETHER) as pool:
        yield {planted: pool.submit(broken_rules, planted) for planted in PLAYED}
        pool.shutdown(cancel_futures=True)


def broken_rules(planted: Planted) -> dict[str, list[str]]:
    """Play a scenario, and return the rules that were broken, with the problems."""
    kind = {
        "consumer": ClientKind.CONSUMER,
        "classic": ClientKind.CLASSIC,
        "producer": ClientKind.PRODUCER,
        "transactions": ClientKind.TRANSACTIONAL,
    }[planted.program]
    limits = ClientLimits(watch_s=planted.watch_s, recover_s=planted.recover_s, close_s=planted.close_s)
    feeds = planted.program in ("consumer", "classic")
    scenario = SCENARIOS[planted.scenario]
    _, found = judged_scenario(planted.command, scenario, limits, feeds=feeds, kinds=frozenset({kind}))
    return {
        rule: ["\n".join([problem, *map(str, shown)]) for problem, shown in one.problems[:2]]
        for rule, one in found.items()
        if one.problems
    }


@pytest.mark.parametrize("planted", sampled(PLANTED), ids=lambda planted: f"{planted.program}-{planted.fault}")
def test_a_planted_fault_breaks_its_rule_and_no_other(results: Results, planted: Planted) -> None:
    broken = results[planted].result()
    assert list(broken) == [planted.rule], broken


@pytest.mark.parametrize("correct", sampled(CORRECT), ids=lambda correct: f"{correct.program}-{correct.scenario}")
def test_a_client_without_faults_keeps_all_rules(results: Results, correct: Planted) -> None:
    assert not results[correct].result()


def test_each_rule_has_a_planted_fault() -> None:
    rules = [rule.name for those in RULES.values() for rule in those]
    assert sorted(planted.rule for planted in PLANTED) == sorted(rules)
