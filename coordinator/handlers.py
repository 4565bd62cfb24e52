"""Everything that a shard can do: importing this enters all handlers into the tables of `quorate.coordinator.shard`."""

from quorate.coordinator import describe, expiry, offsets

__all__ = ["describe", "expiry", "offsets"]
