"""Features that a new embedded cluster has at level 0, because an API is missing: tests of what is there of them switch them on."""

from quorate.cluster import EmbeddedCluster
from quorate.cluster.features import INCOMPLETE
from quorate.codecs.releases import features_of

__all__ = ["switch_on"]


def switch_on(cluster: EmbeddedCluster) -> None:
    """Have the cluster agree on them as a new cluster of Kafka's does, where its release has them."""
    core = cluster.core
    release = features_of(core.broker_configs.kafka_version)
    levels = {name: release[name][2] for name in INCOMPLETE if name in release and release[name][2] > 0}
    cluster.call(lambda: core.change_features({**core.features, **levels}))
