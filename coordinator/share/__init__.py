"""Share groups of KIP-932: what a heartbeat does.

Members consume partitions together, so nothing has to be given up before somebody else may have it.

A heartbeat (`heartbeat`) is checked (`checks`), takes over what its member announces
(`subscriptions`), gives the group a new epoch if its subscriptions, its topics or the partitions
that may be consumed have changed, and a new target assignment if it is due (`target`), which the
member has at once. Partitions may be consumed once they have share state (`initialisation`, also
what is written before a group is deleted). `leaving` has the ways in which members leave, and the
timers that remove them.
"""
