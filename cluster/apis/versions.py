"""ApiVersions v0–4 (KIP-511, KIP-584, KIP-1022): which APIs a broker answers, in which versions, and which features the cluster has, by the release that it is to be.

What is told is what the table of answers has and brokers of the release tell, too. A version that the broker lacks is answered in version 0 with UNSUPPORTED_VERSION and
nothing but the versions of ApiVersions, as Kafka does. Produce is told from version 0 on, as librdkafka wants (KAFKA-18659), and refused below version 3.
"""

import re
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
from quorate.codecs.releases import KafkaVersion, features_of, last_versions

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.shared import SharedCluster

__all__ = ["TELEMETRY", "advertised", "unsupported"]

TELEMETRY: frozenset[int] = frozenset(
    api_of(one).key for one in (GetTelemetrySubscriptionsRequest, PushTelemetryRequest)
)
"""Answered by all releases, and told only where a plugin takes what clients push."""
_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")


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


def advertised(cluster: "SharedCluster") -> dict[int, range]:
    """API key → versions that clients may use, told or not. Those of KIP-848's client-side assignors only where they are enabled."""
    config = cluster.settings.coordinator
    return _table(config.kafka_version, config.group_consumer_client_assignors_enable)


def _keys(cluster: "SharedCluster") -> tuple[ApiVersion, ...]:
    produce = api_of(ProduceRequest).key
    hidden = frozenset() if has_plugin(cluster) else TELEMETRY
    return tuple(
        ApiVersion(api_key=key, min_version=0 if key == produce else each[0], max_version=each[-1])
        for key, each in sorted(advertised(cluster).items())
        if key not in hidden
    )


def unsupported(cluster: "SharedCluster") -> ApiVersionsResponse:
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
