"""A judge for brokers: compare a cluster with Apache Kafka.

`verify` sends the requests of some hundred checks, each one rule of the protocol, to any cluster
that speaks Kafka's protocol. It compares the responses with those of real brokers, which were
recorded by release. Everything it creates has a prefix, and is removed at the end.
"""

from quorate.integration.verify.check import Check
from quorate.integration.verify.recordings import recorded_releases
from quorate.integration.verify.report import report_json, report_junit
from quorate.integration.verify.runner import CheckOutcome, CheckResult, VerifyReport, selected, verify

__all__ = [
    "Check",
    "CheckOutcome",
    "CheckResult",
    "VerifyReport",
    "recorded_releases",
    "report_json",
    "report_junit",
    "selected",
    "verify",
]
