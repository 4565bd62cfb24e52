"""Apache Kafka in containers: `KafkaCluster`, based on testcontainers."""

from quorate.integration.containers.cluster import KafkaCluster
from quorate.integration.containers.images import DEFAULT_VERSION

__all__ = ["DEFAULT_VERSION", "KafkaCluster"]
