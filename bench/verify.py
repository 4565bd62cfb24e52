"""Passed checks of `quorate verify`: an embedded cluster next to kfake, by suite.

The table of docs/how-to/verify-a-broker.md comes from here.
"""

from collections import Counter
from pathlib import Path

from _kfake import kfake
from _report import Report

from quorate.cluster import EmbeddedCluster
from quorate.integration.verify import CheckOutcome, VerifyReport, recorded_releases, verify
from quorate.integration.verify.checks import SUITES


def passed(report: VerifyReport) -> Counter[str]:
    return Counter(result.suite for result in report.results if result.outcome is CheckOutcome.PASSED)


def main() -> None:
    report = Report(Path(__file__).stem, __doc__ or "")
    suites = report.pick(list(SUITES), quick=list(SUITES), smoke=["produce"])
    newest = recorded_releases()[-1]
    with EmbeddedCluster(brokers=1) as embedded:
        ours = passed(verify(embedded.bootstrap_servers, release=newest, suites=suites))
    theirs: Counter[str] | None = None
    with kfake() as peer:
        if peer is not None:
            theirs = passed(verify(peer.address, release=newest, suites=suites))
    for suite in suites:
        found = None if theirs is None else theirs[suite] or 0.5  # a ratio needs a number above 0
        report.rate(f"{suite}, {len(SUITES[suite])} checks", ours[suite], found, "kfake", "passed")
    report.finish()


if __name__ == "__main__":
    main()
