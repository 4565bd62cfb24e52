"""`quorate verify-client`: its output, its errors and its exit status."""

import json
import sys
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from quorate.integration.verify_client import RULES, SCENARIOS, clients

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
        (("--", "/no/such/program"), "cannot run /no/such/program"),
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


def test_the_output_of_a_program_that_ends_is_shown(quorate: Callable) -> None:
    done = quorate("verify-client", "--", sys.executable, "-c", "exit('bootstrap is missing')")
    assert "its output ends with: bootstrap is missing" in done.err
