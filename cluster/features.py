"""The levels of features that a cluster agrees on (KIP-584), by the release that it is to be."""

from collections.abc import Mapping

from quorate.cluster.broker_configs import check_release
from quorate.codecs.releases import RELEASES, KafkaVersion, features_of
from quorate.coordinator.config import ConfigError

__all__ = ["INCOMPLETE", "check_levels", "finalized"]

INCOMPLETE: Mapping[str, str] = {"share.version": "ShareFetch", "streams.version": "StreamsGroupHeartbeat"}
"""Features that a new cluster has at level 0, and the API that each lacks: clients fail at once,
instead of when they need that. UpdateFeatures switches them on.
"""


def finalized(version: KafkaVersion) -> dict[str, int]:
    """The features that a new cluster of a release agrees on, with their levels: those of a new cluster of Kafka's, without `INCOMPLETE`."""
    features = features_of(version).items()
    return {name: level for name, (_, _, level) in features if level > 0 and name not in INCOMPLETE}


def check_levels(levels: Mapping[str, int], version: KafkaVersion) -> None:
    """Raises `ConfigError` for levels of features that are beyond what brokers of a release know, which do not start then (KIP-584)."""
    check_release(version)
    for name, level in levels.items():
        most = _most(version, name)
        if level > most:
            able = next((one for one in RELEASES if all(_most(one, name) >= levels[name] for name in levels)), None)
            later = "a later release" if able is None else f"{able.short} or later"
            knows = f"up to {most}" if most else "nothing of it"
            raise ConfigError(
                f"the cluster has {name} {level}, Kafka {version} knows {knows}; use {later}, or begin a cluster with {version}"
            )


def _most(version: KafkaVersion, feature: str) -> int:
    return features_of(version).get(feature, (0, 0, 0))[1]
