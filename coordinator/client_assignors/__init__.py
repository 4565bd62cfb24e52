"""Client-side assignors of KIP-848: members announce assignors, and one of them computes the group's target assignment. No release of Kafka has them.

Off unless `group.consumer.client.assignors.enable`. `selection` says whether all members can run one assignor, `turns` whose turn it is to run it; `prepare`
and `install` answer that member's two requests, and `validation` looks at what it hands in. `announced` is what members say of assignors in heartbeats. That a
target is to come from a member, and not from the server, is decided in `quorate.coordinator.consumer.progress`.

A member's side of it, for any assignor: `quorate.assignors.prepared`.
"""
