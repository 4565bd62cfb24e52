"""Client-side assignors of KIP-848: members announce assignors, and one of them computes the group's target assignment.

No release of Kafka has them.

A plug-in (`extension`), off unless `group.consumer.client.assignors.enable`. `selection` says
whether all members can run one assignor, `turns` whose turn it is to run it (`computation`);
`prepare` and `install` handle that member's two requests, and `validation` checks what it hands in.
The fields on the wire and in the log are in `quorate.codecs.client_assignors`.

A member's side of it, for any assignor: `quorate.assignors.prepared`.
"""
