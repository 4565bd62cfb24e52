"""The share coordinator (KIP-932): the state of share-partitions, in `__share_group_state`."""
