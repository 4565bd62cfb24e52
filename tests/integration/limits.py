"""How long tests wait for what a cluster is expected to do."""

LIMIT_MS = 300_000
"""Not a measurement: with three JVMs on two busy cores a step of seconds has taken more than a
minute.
"""
