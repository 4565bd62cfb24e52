"""Consumer groups of KIP-848: what a heartbeat does.

A heartbeat (`heartbeat`) is checked (`checks`), finds or makes its member (`members`), takes over
what the member announces (`subscriptions`, `regexes`), gives the group a new epoch if its
subscriptions or topics have changed, and a new target assignment if it is due (`target`), and moves
the member one step towards it (`reconcile`). `leaving` has all ways in which a member goes,
`sessions` the timers that make it go.

The classic protocol in these groups, and their conversion from and to classic groups, are in
`quorate.coordinator.conversion`. What follows from what a member announced is the same for both
protocols (`progress`). A plug-in adds to all of this by `ConsumerGroupExtension`
(`quorate.coordinator.shard`).
"""
