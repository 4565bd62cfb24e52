"""Handlers that only look: what groups there are, and what is in them, in the words of Kafka's Describe APIs. One module per API."""

from quorate.coordinator.describe import classic, consumer, failed, listing, share, streams

__all__ = ["classic", "consumer", "failed", "listing", "share", "streams"]
