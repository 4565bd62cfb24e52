"""Play scenarios with a client, and judge it by the rules."""

import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from enum import StrEnum

from quorate.cluster.errors import ClusterError
from quorate.integration.verify_client.kinds import ClientKind
from quorate.integration.verify_client.rule import ClientRule, Evidence, Findings
from quorate.integration.verify_client.rules import RULES
from quorate.integration.verify_client.scenarios import SCENARIOS, ClientScenario, applicable
from quorate.integration.verify_client.stage import ClientLimits, Stage

_FIRST = "plain"
_SHOWN = 3
"""How many scenarios a report shows for a rule, with the first problem of each."""


class RuleOutcome(StrEnum):
    """The result of a rule."""

    PASSED = "passed"
    DIFFERS = "differs"
    NOT_SEEN = "not seen"


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleResult:
    """The result of one rule in all scenarios.

    `kept`: how often it was kept. `broken`: scenario → how often it was broken there. `detail`: the
    first problem. `requests`: the exchanges that show the first problem of some scenarios, decoded,
    with times in seconds since the start of the scenario.
    """

    suite: str
    rule: ClientRule
    outcome: RuleOutcome
    kept: int
    broken: Mapping[str, int] = field(default_factory=dict)
    detail: str = ""
    requests: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientReport:
    """All results. `kinds`: what the client is. `scenarios`: those that were played."""

    command: Sequence[str]
    kinds: Sequence[ClientKind]
    scenarios: Sequence[str]
    results: Sequence[RuleResult]

    def count(self, outcome: RuleOutcome) -> int:
        """Return how many rules have an outcome."""
        return sum(result.outcome is outcome for result in self.results)


def verify_client(
    command: Sequence[str],
    *,
    scenarios: Sequence[str] = (),
    rules: Sequence[str] = (),
    limits: ClientLimits | None = None,
    jobs: int = 2,
    version: str | None = None,
    progress: Callable[[str, int], None] = lambda scenario, problems: None,
) -> ClientReport:
    """Run a client in scenarios on embedded clusters, and judge the requests that it sends.

    `command`: starts the client; `{bootstrap}`, `{topic}`, `{group}` and others in it are replaced.
    The client runs until SIGTERM, and is killed if it does not end. `scenarios`, `rules`: names,
    all by default. `jobs`: how many scenarios run at a time. `version`: the release of the brokers.
    `progress`: called after each scenario with its name and the number of problems.

    Raises `ClusterError` if the command cannot be run, ends early or never connects, and for
    unknown names.
    """
    _check_names("scenario", scenarios, SCENARIOS)
    names = [rule.name for those in RULES.values() for rule in those]
    _check_names("rule", rules, names)
    limits = limits or ClientLimits()
    judged: dict[str, dict[str, Findings]] = {}
    ended = threading.Event()

    def run(scenario: ClientScenario, feeds: bool, kinds: frozenset[ClientKind]) -> frozenset[ClientKind]:
        kinds, found = judged_scenario(
            command, scenario, limits, version=version, feeds=feeds, kinds=kinds, rules=rules, ended=ended
        )
        judged[scenario.name] = found
        progress(scenario.name, sum(len(one.problems) for one in found.values()))
        return kinds

    kinds = run(SCENARIOS[_FIRST], True, frozenset())
    feeds = ClientKind.READER in kinds
    chosen = [
        scenario
        for name, scenario in applicable(kinds).items()
        if name != _FIRST and (not scenarios or name in scenarios)
    ]
    with ThreadPoolExecutor(max_workers=jobs) as pool:
        try:
            for waiting in [pool.submit(run, scenario, feeds, kinds) for scenario in chosen]:
                waiting.result()
        except BaseException:  # also Ctrl-C
            pool.shutdown(wait=False, cancel_futures=True)
            ended.set()
            raise
    played = [name for name in SCENARIOS if name in judged]
    return ClientReport(
        command=tuple(command),
        kinds=[kind for kind in ClientKind if kind in kinds],
        scenarios=played,
        results=_results({name: judged[name] for name in played}),
    )


def _check_names(what: str, names: Sequence[str], known: Sequence[str] | Mapping[str, object]) -> None:
    missing = [name for name in names if name not in known]
    if missing:
        raise ClusterError(f"there is no {what} {missing[0]}", "`quorate verify-client --list` lists them")


def judged_scenario(
    command: Sequence[str],
    scenario: ClientScenario,
    limits: ClientLimits,
    *,
    version: str | None = None,
    feeds: bool,
    kinds: frozenset[ClientKind],
    rules: Sequence[str] = (),
    ended: threading.Event | None = None,
) -> tuple[frozenset[ClientKind], dict[str, Findings]]:
    """Play one scenario, and return what the client is, and the findings of each rule.

    `feeds`: whether records are written for consumers. `kinds`: what the client is known to be.
    `ended`: ends the scenario when it is set.

    Raises `ClusterError` as `verify_client`, and if `ended` is set.
    """
    if scenario.older:
        version = "4.0.2" if ClientKind.CONSUMER in kinds else "3.9.2"
    with Stage(command, scenario.name, limits, version=version, feeds=feeds, ended=ended) as stage:
        stage.callback_ms = scenario.callback_ms
        stage.start()
        if stage.works():
            scenario.play(stage)
        elif scenario.name == _FIRST:
            raise _useless(stage, command)
        else:
            stage.gave_up()
        evidence = stage.finish()
        return stage.kinds, _judge(evidence, rules)


def _useless(stage: Stage, command: Sequence[str]) -> ClusterError:
    """Return why the client does not work although nothing went wrong."""
    name, status = command[0], stage.status
    said = [f"its output ends with: {line}" if not number else line for number, line in enumerate(stage.output)]
    if status is not None:
        return ClusterError(f"{name} ended with status {status} before it consumed or produced", *said)
    if all(link.own for link in list(stage.log.links)):
        where = "the address of the cluster is in {bootstrap} and QUORATE_BOOTSTRAP"
        return ClusterError(f"{name} did not connect within {stage.limits.start_s:g} s", where, *said)
    sent = ", ".join(dict.fromkeys(one.api for one in stage.log.exchanges)) or "nothing"
    return ClusterError(
        f"{name} did not consume or produce within {stage.limits.start_s:g} s",
        f"it sent: {sent}",
        "consumers have to subscribe to {topic} from the earliest offset; producers have to write to it",
        *said,
    )


def _judge(evidence: Evidence, names: Sequence[str]) -> dict[str, Findings]:
    found: dict[str, Findings] = {}
    for those in RULES.values():
        for rule in those:
            if not names or rule.name in names:
                found[rule.name] = findings = Findings()
                rule.judge(evidence, findings)
    return found


def _results(judged: Mapping[str, Mapping[str, Findings]]) -> list[RuleResult]:
    results = []
    for suite, those in RULES.items():
        for rule in those:
            found = {scenario: each[rule.name] for scenario, each in judged.items() if rule.name in each}
            if found:
                results.append(_result(suite, rule, found))
    return results


def _result(suite: str, rule: ClientRule, found: Mapping[str, Findings]) -> RuleResult:
    kept = sum(one.kept for one in found.values())
    broken = {scenario: len(one.problems) for scenario, one in found.items() if one.problems}
    problems = [(scenario, *one.problems[0]) for scenario, one in found.items() if one.problems]
    requests: list[str] = []
    for scenario, problem, exchanges in problems[:_SHOWN]:
        requests += [f"{scenario}: {problem}", *map(str, exchanges)]
    outcome = RuleOutcome.DIFFERS if broken else RuleOutcome.PASSED if kept else RuleOutcome.NOT_SEEN
    detail = f"{problems[0][1]} ({problems[0][0]})" if problems else ""
    return RuleResult(
        suite=suite, rule=rule, outcome=outcome, kept=kept, broken=broken, detail=detail, requests=tuple(requests)
    )
