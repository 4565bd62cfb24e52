"""Everything that a shard can do: importing this enters all handlers into the tables of `quorate.coordinator.shard`."""

from quorate.coordinator import describe, expiry

__all__ = ["describe", "expiry"]
