"""Finalized feature levels of a cluster (KIP-584), by release."""

from collections.abc import Mapping

from quorate.cluster.broker_configs import check_release
from quorate.codecs.releases import RELEASES, KafkaVersion, features_of
from quorate.coordinator.config import ConfigError


def finalized(version: KafkaVersion) -> dict[str, int]:
    """Return the finalized features of a new cluster."""
    return {name: level for name, (_, _, level) in features_of(version).items() if level > 0}


def check_levels(levels: Mapping[str, int], version: KafkaVersion) -> None:
    """Raise `ConfigError` for levels that brokers of a release do not support (KIP-584).

    Such brokers would not start.
    """
    check_release(version)
    for name, level in levels.items():
        most = _most(version, name)
        if level > most:
            able = next(
                (release for release in RELEASES if all(_most(release, name) >= levels[name] for name in levels)), None
            )
            later = "a later release" if able is None else f"{able.short} or later"
            knows = f"levels up to {most}" if most else "no such feature"
            raise ConfigError(
                f"the cluster has {name} {level}, Kafka {version} supports {knows}; "
                f"use {later}, or create a new cluster with {version}"
            )


def _most(version: KafkaVersion, feature: str) -> int:
    return features_of(version).get(feature, (0, 0, 0))[1]
