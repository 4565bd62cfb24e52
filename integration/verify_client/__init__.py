"""A judge for clients: run a consumer or producer in any language in scenarios, and judge it.

`verify_client` starts an embedded cluster for each scenario, and the client as a program. Something
goes wrong: a coordinator moves, a response is lost, a member is fenced. Then rules judge the
requests that the client has sent.
"""

from quorate.integration.verify_client.kinds import ClientKind
from quorate.integration.verify_client.report import client_report_json, client_report_junit
from quorate.integration.verify_client.rule import ClientRule
from quorate.integration.verify_client.rules import RULES
from quorate.integration.verify_client.runner import ClientReport, RuleOutcome, RuleResult, verify_client
from quorate.integration.verify_client.scenarios import SCENARIOS, ClientScenario
from quorate.integration.verify_client.stage import ClientLimits

__all__ = [
    "RULES",
    "SCENARIOS",
    "ClientKind",
    "ClientLimits",
    "ClientReport",
    "ClientRule",
    "ClientScenario",
    "RuleOutcome",
    "RuleResult",
    "client_report_json",
    "client_report_junit",
    "verify_client",
]
