"""Client-side assignors of KIP-848: a member computes the group's target assignment.

No release of Kafka has them. They are a plug-in (`extension`), enabled by
`group.consumer.client.assignors.enable`. `selection` selects an assignor that all members support,
`computing_member` the member that runs it (`computation` has the state). `prepare` and `install`
handle that member's two requests, and `validation` checks its assignment.
`quorate.codecs.client_assignors` has the tagged fields of messages and records.

`quorate.assignors.prepared` is the member's side, for any assignor.
"""
