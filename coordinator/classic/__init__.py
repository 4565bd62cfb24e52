"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and what happens in between.

A rebalance is in no record: only what its leader gave out is, and that a group became empty. So
here groups are `LiveGroup`s (`group`), which handlers change directly, with `Result.replay` False;
`states` has the states and what may follow what. A member joins (`join`; a static one that comes
back: `returning`) and its response waits until the group is complete (`rebalance`); then all send
SyncGroup and wait for the leader's assignment (`sync`). `rebalance` also has the timers that remove
silent members, and what happens to groups when their log was loaded. `on_consumer_groups` is where
the classic protocol meets consumer groups.
"""
