"""ApiVersions v0–4 (KIP-511, KIP-584, KIP-1022): which APIs a broker answers, in which versions, and which features the cluster has, by the release that it is to be.

What is told is what the table of answers has and brokers of the release tell, too. A version that the broker lacks is answered in version 0 with UNSUPPORTED_VERSION and
nothing but the versions of ApiVersions, as Kafka does. Produce is told from version 0 on, as librdkafka wants (KAFKA-18659), and refused below version 3.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import TYPE_CHECKING

from quorate.cluster.apis import ANSWERS, Context, answers
from quorate.cluster.apis.telemetry import has_plugin
from quorate.cluster.frames import API_VERSIONS_KEY
from quorate.codecs.api.broker import (
    ApiVersionsRequest,
    ApiVersionsResponse,
    GetTelemetrySubscriptionsRequest,
    ProduceRequest,
    PushTelemetryRequest,
)
from quorate.codecs.api.broker.api_versions import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from quorate.codecs.api.declare import api_of
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.releases import RELEASES, KafkaVersion, features_of, last_versions
from quorate.coordinator.config import ConfigError

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = ["INCOMPLETE", "TELEMETRY", "advertised", "check_levels", "finalized", "unsupported"]

INCOMPLETE: Mapping[str, str] = {"share.version": "ShareFetch", "streams.version": "StreamsGroupHeartbeat"}
"""Features that a new cluster has at level 0, and the API that each lacks: clients fail at once, instead of when they need that. UpdateFeatures switches them on."""

TELEMETRY: frozenset[int] = frozenset(
    api_of(one).key for one in (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)
)
"""Answered by all releases, and told only where a plugin takes what clients push."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


def _check_release(version: KafkaVersion) -> None:
    """Raises `ConfigError` for a release that a cluster cannot be."""
    if version.line not in RELEASES:
        known = ", ".join(one.short for one in RELEASES)
        raise ConfigError(
            f"an embedded cluster cannot be Kafka {version}: use {KafkaVersion.NEWEST}, or another of {known}"
        )


def finalized(version: KafkaVersion) -> dict[str, int]:
    """The features that a new cluster of a release agrees on, with their levels: those of a new cluster of Kafka's, without `INCOMPLETE`. Raises `ConfigError` for a release that a cluster cannot be."""
    _check_release(version)
    features = features_of(version).items()
    return {name: level for name, (_, _, level) in features if level > 0 and name not in INCOMPLETE}


def check_levels(levels: Mapping[str, int], version: KafkaVersion) -> None:
    """Raises `ConfigError` for levels of features that are beyond what brokers of a release know, which do not start then (KIP-584)."""
    _check_release(version)
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


@lru_cache(maxsize=16)
def _table(version: KafkaVersion, own: bool) -> dict[int, range]:
    last = last_versions(version)
    table = {}
    for answer in ANSWERS.values():
        api = answer.api
        if api.own:
            if own:
                table[api.key] = api.versions
        elif api.key in TELEMETRY:
            table[api.key] = api.versions
        elif api.key in last:
            table[api.key] = range(api.versions.start, min(api.versions[-1], last[api.key]) + 1)
    return table


def advertised(cluster: "ClusterCore") -> dict[int, range]:
    """API key → versions that clients may use, told or not. Those of KIP-848's client-side assignors only where they are enabled."""
    config = cluster.settings.coordinator
    return _table(config.kafka_version, config.group_consumer_client_assignors_enable)


def _keys(cluster: "ClusterCore") -> tuple[ApiVersion, ...]:
    produce = api_of(ProduceRequest).key
    hidden = frozenset() if has_plugin(cluster) else TELEMETRY
    return tuple(
        ApiVersion(api_key=key, min_version=0 if key == produce else each[0], max_version=each[-1])
        for key, each in sorted(advertised(cluster).items())
        if key not in hidden
    )


def unsupported(cluster: "ClusterCore") -> ApiVersionsResponse:
    """The answer to a version of this API that the broker lacks, to be sent in version 0."""
    own = advertised(cluster)[API_VERSIONS_KEY]
    return ApiVersionsResponse(
        error_code=ErrorCode.UNSUPPORTED_VERSION,
        api_keys=(ApiVersion(api_key=API_VERSIONS_KEY, min_version=own[0], max_version=own[-1]),),
    )


@answers(ApiVersionsRequest)
def api_versions(broker: "Broker", request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Tell the versions, and take the client's name."""
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.software = f"{name} {version}"
    cluster = broker.cluster
    supported = features_of(cluster.settings.kafka_version)
    return ApiVersionsResponse(
        api_keys=_keys(cluster),
        supported_features=tuple(
            SupportedFeatureKey(name=name, min_version=least, max_version=most)
            for name, (least, most, _) in supported.items()
            if least > 0 or context.api_version >= 4  # clients up to version 3 take 0 for damage (KAFKA-17011)
        ),
        finalized_features_epoch=cluster.features_epoch,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=level, min_version_level=level)
            for name, level in cluster.features.items()
        ),
    )
