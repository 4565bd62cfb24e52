"""`KafkaVersion` by the name under which it was published first; its home is `quorate.codecs.releases`."""

from quorate.codecs.releases import KafkaVersion

__all__ = ["KafkaVersion"]
