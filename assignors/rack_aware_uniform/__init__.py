"""`rack-aware-uniform`: a rack-aware server-side assignor, which Kafka lacks.

Kafka's `uniform` has ignored racks since 4.0 (KAFKA-16694). `kinds` reduces a group to a small
problem, `balance` computes the best balance, `solve` the best flow (with `flow`), and `hand_out`
converts it to an assignment.
"""

from quorate.assignors.rack_aware_uniform.assignor import RackAwareUniformAssignor

__all__ = ["RackAwareUniformAssignor"]
