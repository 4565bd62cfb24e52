"""Reports of `verify_client`: as JSON, and as JUnit XML for CI systems."""

from typing import Any

from quorate.integration.verify.report import JUnitCase, junit_xml
from quorate.integration.verify_client.runner import ClientReport, RuleOutcome


def client_report_json(report: ClientReport) -> dict[str, Any]:
    """Return the report as plain values: the client, scenarios, counts, and a row for each rule."""
    return {
        "command": list(report.command),
        "kinds": [str(kind) for kind in report.kinds],
        "scenarios": list(report.scenarios),
        "counts": {str(outcome): report.count(outcome) for outcome in RuleOutcome},
        "rules": [
            {
                "suite": result.suite,
                "rule": result.rule.name,
                "outcome": str(result.outcome),
                "says": result.rule.rule,
                "source": result.rule.source,
                "kept": result.kept,
                "broken": dict(result.broken),
                "detail": result.detail,
                "requests": list(result.requests),
            }
            for result in report.results
        ],
    }


def client_report_junit(report: ClientReport) -> bytes:
    """Return the report as JUnit XML; a rule that was not seen is a skipped case."""
    cases = [
        JUnitCase(
            suite=result.suite,
            name=result.rule.name,
            text="\n".join([f"{result.rule.rule} ({result.rule.source})", *result.requests]),
            failure=result.detail if result.outcome is RuleOutcome.DIFFERS else None,
            skipped="no scenario showed it" if result.outcome is RuleOutcome.NOT_SEEN else None,
        )
        for result in report.results
    ]
    return junit_xml(f"quorate verify-client {' '.join(report.command)}", cases)
