"""Consumer groups of KIP-848: handling of ConsumerGroupHeartbeat.

`heartbeat` validates the request (`checks`), finds or creates the member (`members`), and applies
its subscription (`subscriptions`, `regexes`). If subscriptions or topics changed, it increments the
group epoch. If due, it computes a new target assignment (`target`), and moves the member one step
towards it (`reconcile`). `leaving` removes members, `sessions` has their timers.

`quorate.coordinator.conversion` has the classic protocol in these groups, and conversion between
group types. Both protocols share `progress`. Plug-ins extend this through `ConsumerGroupExtension`
(`quorate.coordinator.shard`).
"""
