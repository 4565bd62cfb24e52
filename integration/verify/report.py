"""Reports of `verify`: as JSON, and as JUnit XML for CI systems."""

from typing import Any
from xml.etree import ElementTree

from quorate.integration.verify.runner import CheckOutcome, CheckResult, VerifyReport

__all__ = ["report_json", "report_junit"]


def report_json(report: VerifyReport) -> dict[str, Any]:
    """Return the report as plain values: the release, counts, and a row for each check."""
    return {
        "kafka_version": str(report.release),
        "counts": {str(outcome): report.count(outcome) for outcome in CheckOutcome},
        "missing_apis": list(report.missing),
        "not_removed": list(report.left),
        "checks": [
            {
                "suite": result.suite,
                "check": result.check.name,
                "outcome": str(result.outcome),
                "detail": result.detail,
                "rule": result.check.rule,
                "source": result.check.source,
                "apis": list(result.apis),
            }
            for result in report.results
        ],
    }


def report_junit(report: VerifyReport) -> bytes:
    """Return the report as JUnit XML; what is not supported is a skipped case."""
    root = ElementTree.Element("testsuites", name=f"quorate verify, Kafka {report.release}")
    for suite in dict.fromkeys(result.suite for result in report.results):
        results = [result for result in report.results if result.suite == suite]
        counts: dict[str, str] = {
            "tests": str(len(results)),
            "failures": str(sum(result.outcome is CheckOutcome.DIFFERS for result in results)),
            "skipped": str(sum(result.outcome is CheckOutcome.NOT_SUPPORTED for result in results)),
        }
        element = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
        for result in results:
            _add_case(element, result)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: ElementTree.Element, result: CheckResult) -> None:
    case = ElementTree.SubElement(suite, "testcase", name=result.check.name, classname=f"quorate.{result.suite}")
    text = f"{result.check.rule} ({result.check.source})"
    if result.outcome is CheckOutcome.DIFFERS:
        ElementTree.SubElement(case, "failure", message=_printable(result.detail)).text = text
    elif result.outcome is CheckOutcome.NOT_SUPPORTED:
        ElementTree.SubElement(case, "skipped", message=_printable(result.detail)).text = text


def _printable(text: str) -> str:
    """Replace characters that XML does not have."""
    return "".join(char if char.isprintable() else "?" for char in text)
