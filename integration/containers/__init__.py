"""Real Apache Kafka in containers: `KafkaCluster`, on testcontainers."""

from quorate.integration.containers.cluster import KafkaCluster
from quorate.integration.containers.images import DEFAULT_VERSION

__all__ = ["DEFAULT_VERSION", "KafkaCluster"]
