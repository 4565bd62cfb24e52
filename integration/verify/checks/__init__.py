"""The catalogue: checks by suite, in the order in which they run.

Invalid requests come last: some brokers do not survive them.
"""

from collections.abc import Mapping

from quorate.integration.verify.check import Check
from quorate.integration.verify.checks import (
    admin,
    classic_groups,
    consumer_groups,
    fetch,
    offsets,
    produce,
    share_groups,
    transactions,
    versions,
)

__all__ = ["SUITES"]

SUITES: Mapping[str, tuple[Check, ...]] = {
    "groups": classic_groups.CHECKS + consumer_groups.CHECKS,
    "offsets": offsets.CHECKS,
    "transactions": transactions.CHECKS,
    "produce": produce.CHECKS,
    "fetch": fetch.CHECKS,
    "share": share_groups.CHECKS,
    "admin": admin.CHECKS,
    "versions": versions.CHECKS,
}
