"""The transaction coordinator of a partition of `__transaction_state` (KIP-98, KIP-360, KIP-890).

`shard` has the coordinator, `records` its records.
"""
