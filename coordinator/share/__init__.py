"""Share groups of KIP-932: handling of ShareGroupHeartbeat.

Members share partitions, so no partition is revoked before another member gets it.

`heartbeat` validates the request (`checks`) and applies its subscription (`subscriptions`). If
subscriptions, topics or assignable partitions changed, it increments the group epoch. If due, it
computes a new target assignment (`target`), which the member gets at once. Partitions are
assignable once they have share state (`initialisation`, also for deleted groups). `leaving` removes
members, and has their session timers.
"""
