"""Reports of `verify`: as JSON, and as JUnit XML for CI systems."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from xml.etree import ElementTree

from quorate.integration.verify.runner import CheckOutcome, VerifyReport


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
    cases = [
        JUnitCase(
            suite=result.suite,
            name=result.check.name,
            text=f"{result.check.rule} ({result.check.source})",
            failure=result.detail if result.outcome is CheckOutcome.DIFFERS else None,
            skipped=result.detail if result.outcome is CheckOutcome.NOT_SUPPORTED else None,
        )
        for result in report.results
    ]
    return junit_xml(f"quorate verify, Kafka {report.release}", cases)


@dataclass(frozen=True, slots=True, kw_only=True)
class JUnitCase:
    """A case of JUnit XML. `failure`, `skipped`: the message, if it failed or was skipped."""

    suite: str
    name: str
    text: str
    failure: str | None = None
    skipped: str | None = None


def junit_xml(title: str, cases: Sequence[JUnitCase]) -> bytes:
    """Return JUnit XML with an element for each suite."""
    root = ElementTree.Element("testsuites", name=title)
    for suite in dict.fromkeys(case.suite for case in cases):
        own = [case for case in cases if case.suite == suite]
        counts: dict[str, str] = {
            "tests": str(len(own)),
            "failures": str(sum(case.failure is not None for case in own)),
            "skipped": str(sum(case.skipped is not None for case in own)),
        }
        element = ElementTree.SubElement(root, "testsuite", {"name": suite, **counts})
        for case in own:
            _add_case(element, case)
    ElementTree.indent(root)
    text: bytes = ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)
    return text + b"\n"


def _add_case(suite: ElementTree.Element, case: JUnitCase) -> None:
    classname = f"quorate.{case.suite}".replace(" ", "-")
    element = ElementTree.SubElement(suite, "testcase", name=case.name, classname=classname)
    for kind, message in (("failure", case.failure), ("skipped", case.skipped)):
        if message is not None:
            ElementTree.SubElement(element, kind, message=_printable(message)).text = _printable(case.text)


def _printable(text: str) -> str:
    """Replace characters that XML does not have."""
    return "".join(char if char.isprintable() or char == "\n" else "?" for char in text)
