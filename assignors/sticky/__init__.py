"""Kafka's client-side assignors `sticky` and `cooperative-sticky` (KIP-54, KIP-429, KIP-881)."""

from quorate.assignors.sticky.assignor import CooperativeStickyAssignor, StickyAssignor

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]
