"""Features that a new embedded cluster disables because an API is missing; tests enable them."""

from quorate.cluster import EmbeddedCluster
from quorate.cluster.features import INCOMPLETE
from quorate.codecs.releases import features_of

__all__ = ["switch_on"]


def switch_on(cluster: EmbeddedCluster) -> None:
    """Finalize the features that a new cluster of Kafka's release has."""
    core = cluster.core
    release = features_of(core.broker_configs.kafka_version)
    levels = {name: release[name][2] for name in INCOMPLETE if name in release and release[name][2] > 0}
    cluster.call(lambda: core.change_features({**core.features, **levels}))
