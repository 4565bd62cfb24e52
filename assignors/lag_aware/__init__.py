"""`lag-aware`: partitions go where the least lag is (KIP-169, which Kafka never got), with options that the KIP does not have.

`rounds` is the KIP's rule, `deal` the same rule with options, `bounded` what happens when few
partitions may move.
"""

from quorate.assignors.lag_aware.assignor import LagAwareAssignor

__all__ = ["LagAwareAssignor"]
