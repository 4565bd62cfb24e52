"""`rack-aware-uniform`: a server-side assignor that Kafka lacks.

Its own `uniform` has not looked at racks since 4.0 (KAFKA-16694).

`kinds` makes a group small, `balance` finds how even it can be, `solve` the best flow in it (by
`flow`), and `hand_out` makes an assignment of that.
"""

from quorate.assignors.rack_aware_uniform.assignor import RackAwareUniformAssignor

__all__ = ["RackAwareUniformAssignor"]
