"""Committed offsets: OffsetCommit, TxnOffsetCommit, OffsetFetch, OffsetDelete, DeleteGroups, and how offsets expire. One module per API."""

from quorate.coordinator.offsets import commit, delete, expiry, fetch, groups

__all__ = ["commit", "delete", "expiry", "fetch", "groups"]
