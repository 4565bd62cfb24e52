"""Transactions (KIP-98, KIP-360, KIP-890): what the coordinator of a partition of `__transaction_state` knows and decides.

`shard` has the coordinator, `records` what it writes.
"""
