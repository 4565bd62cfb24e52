"""The `lag-aware` assignor: assigns by lag (KIP-169, not in Kafka), with options beyond the KIP.

`rounds` implements the KIP's rule, `deal` the same rule with options, and `bounded` the limit on
moves.
"""

from quorate.assignors.lag_aware.assignor import LagAwareAssignor

__all__ = ["LagAwareAssignor"]
