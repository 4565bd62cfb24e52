"""Streams groups of KIP-1071: handling of StreamsGroupHeartbeat.

A streams group runs the tasks of a Kafka Streams application: one task per partition of each
subtopology.

`heartbeat` validates the request (`checks`) and applies the member's metadata (`members`). The
first member initializes the topology, which is configured with the partition counts of its topics
(`topology`). If the member, the topology, its topics or the configs of the assignment changed, the
group epoch is incremented. If due, a new target assignment is computed (`target`), and the member
takes one step towards it (`reconcile`). `endpoints` and `responses` make the response. `leaving`
removes members, and has their timers.
"""
