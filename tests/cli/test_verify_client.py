"""`quorate verify-client`: its output, its errors and its exit status."""

import json
import sys
import threading
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from quorate.cluster import ClusterError
from quorate.integration.verify_client import RULES, SCENARIOS, ClientLimits, clients, runner, verify_client
from quorate.integration.verify_client.kinds import ClientKind
from quorate.integration.verify_client.rule import Findings
from quorate.integration.verify_client.scenarios import ClientScenario, applicable
from quorate.integration.verify_client.stage import Stage

PLAIN = ("--scenario", "plain")


def test_an_included_producer_passes(quorate: Callable, tmp_path) -> None:
    junit = tmp_path / "results.xml"
    done = quorate("verify-client", "--client", "confluent-kafka-producer", *PLAIN, "--json", "--junit", junit)
    assert done.status == 0, done.err
    report = json.loads(done.out)
    assert report["kinds"] == ["producer"]
    assert report["scenarios"] == ["plain"]
    outcomes = {row["rule"]: row["outcome"] for row in report["rules"]}
    assert outcomes["sequences-without-gap"] == "passed"
    assert outcomes["heartbeat-in-time"] == "not seen"
    cases = ElementTree.parse(junit).findall(".//testcase")
    assert {case.get("name") for case in cases} == set(outcomes)


def test_the_list_has_scenarios_and_rules(quorate: Callable) -> None:
    listed = json.loads(quorate("verify-client", "--list", "--json").out)
    assert [row["scenario"] for row in listed["scenarios"]] == list(SCENARIOS)
    assert [row["rule"] for row in listed["rules"]] == [rule.name for those in RULES.values() for rule in those]
    text = quorate("verify-client", "--list").out
    assert all(name in text for name in (*SCENARIOS, *listed["clients"]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "write the command"),
        (("--client", "aiokafka", "--", "true"), "either --client or a command"),
        (("--client", "missing"), "there is no included client missing"),
        (("--scenario", "nothing", "--", "true"), "there is no scenario nothing"),
        (("--rule", "nothing", "--", "true"), "there is no rule nothing"),
        (("--kafka-version", "new", "--", "true"), "new"),
        (("--", "/no/such/program"), "cannot run /no/such/program: no such program\n"),
        (("--", "no-such-program"), "cannot run no-such-program: no such program in PATH\n"),
        (("--", "/usr"), "cannot run /usr: it is a folder\n"),
        (("--", __file__), f"cannot run {__file__}: it is not executable\n"),
        (("--", sys.executable, "-c", "print('no config'); exit(3)"), "ended with status 3"),
        (("--start-timeout", "1", "--", sys.executable, "-c", "import time; time.sleep(60)"), "did not connect within"),
    ],
)
def test_the_command_names_what_is_wrong(quorate: Callable, arguments: tuple[str, ...], message: str) -> None:
    done = quorate("verify-client", *arguments)
    assert done.status == 1
    assert message in done.err


def test_a_client_that_is_not_installed_is_named(quorate: Callable, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clients, "find_spec", lambda _: None)
    done = quorate("verify-client", "--client", "aiokafka-producer", *PLAIN)
    assert done.status == 1
    assert "pip install 'quorate[aiokafka]'" in done.err
    assert "Traceback" not in done.err


def test_an_interrupt_ends_running_scenarios_and_starts_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def judged(
        command: object, scenario: ClientScenario, limits: object, *, ended: threading.Event, **_: object
    ) -> tuple[frozenset[ClientKind], dict[str, Findings]]:
        played.append(scenario.name)
        if len(played) == 2:
            raise KeyboardInterrupt
        if len(played) > 2:  # it began before the interrupt was noticed
            assert ended.wait(20)
        return frozenset({ClientKind.PRODUCER}), {}

    monkeypatch.setattr(runner, "judged_scenario", judged)
    with pytest.raises(KeyboardInterrupt):
        verify_client(["client"], jobs=1)
    assert len(played) <= 3 < len(applicable(frozenset({ClientKind.PRODUCER})))


def test_a_scenario_that_is_ended_waits_no_longer() -> None:
    ended = threading.Event()
    ended.set()
    with pytest.raises(ClusterError, match="the run was ended"):
        Stage(["client"], "plain", ClientLimits(), ended=ended).wait(lambda: False, 60)


def test_the_output_of_a_program_that_ends_is_shown(quorate: Callable) -> None:
    done = quorate("verify-client", "--", sys.executable, "-c", "exit('bootstrap is missing')")
    assert "its output ends with: bootstrap is missing" in done.err
