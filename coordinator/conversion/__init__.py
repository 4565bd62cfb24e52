"""Migration between the classic and the consumer protocol, with members of both (KIP-848).

A member of the new protocol that joins a classic group upgrades it to a consumer group (`upgrade`).
The coordinator then assigns partitions to classic members, too: they join (`join`), receive their
assignments, and learn from heartbeats when to rejoin (`sync_and_heartbeat`). When its last member
of the new protocol leaves, or is replaced by a static classic member, the group is downgraded
(`downgrade`).

`embedded` has the consumer protocol's subscriptions and assignments inside classic requests,
`timers` the timers of classic members.
"""
