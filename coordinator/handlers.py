"""Everything that a shard can do: importing this enters all handlers into the tables of `quorate.coordinator.shard`."""

from quorate.coordinator import classic, consumer, conversion, describe, expiry, offsets, share
from quorate.coordinator.client_assignors import install, prepare

__all__ = ["classic", "consumer", "conversion", "describe", "expiry", "install", "offsets", "prepare", "share"]
