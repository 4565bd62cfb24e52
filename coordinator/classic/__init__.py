"""Classic groups: JoinGroup, SyncGroup, Heartbeat, LeaveGroup, and rebalances.

The log has no record of a rebalance, only of its assignments, and of a group that became empty.
Groups are therefore `LiveGroup`s (`group`), which handlers change directly, with `Result.replay`
False. `states` has the states and their transitions.

A member joins (`join`; a static member that rejoins: `static_rejoin`), and its response is pending
until all members have joined (`rebalance`). Then all members send SyncGroup and wait for the
leader's assignment (`sync`). `rebalance` also has the session and rebalance timers, and starts
sessions after a load. `other_group_types` handles classic requests for other types of groups.
"""
