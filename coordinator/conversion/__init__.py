"""Groups with members of both protocols, and how a group gets from one protocol to the other while its members are in it (KIP-848, "Migration").

A member of the new protocol that joins a classic group makes it a consumer group (`upgrade`). From
then on classic members are served by it: they join (`join`), get their assignments, and hear by
their heartbeats when to join again (`follow`), while the server assigns. When the last member of
the new protocol goes, or comes back as a classic one, the group becomes a classic group again
(`downgrade`). `embedded` has the messages inside the classic protocol, `waiting` the timers of
classic members.
"""
