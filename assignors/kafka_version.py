"""The former place of `KafkaVersion`, which is now in `quorate.codecs.releases`."""

from quorate.codecs.releases import KafkaVersion

__all__ = ["KafkaVersion"]
