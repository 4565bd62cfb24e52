"""ApiVersions v0–4 (KIP-511, KIP-584): which APIs a broker answers, and in which versions, made from the table of answers.

A version that the broker lacks is answered in version 0 with UNSUPPORTED_VERSION and the list, so that the client can choose again. Produce is told from version 0 on,
as librdkafka wants (KAFKA-18659), and refused below version 3.
"""

import re
from functools import lru_cache
from typing import TYPE_CHECKING

from quorate.cluster.apis import ANSWERS, Context, answers
from quorate.codecs.api.broker import ApiVersionsRequest, ApiVersionsResponse, InitProducerIdRequest, ProduceRequest
from quorate.codecs.api.broker.api_versions import ApiVersion, FinalizedFeatureKey, SupportedFeatureKey
from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.message import Message

if TYPE_CHECKING:
    from quorate.cluster.broker import Broker
    from quorate.cluster.core import ClusterCore

__all__ = ["advertised", "unsupported"]

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")
_UNSTABLE: dict[type[Message], int] = {InitProducerIdRequest: 5}
"""APIs whose last version Kafka keeps to itself: the last one that it tells of."""
FEATURES = {"group.version": 1, "transaction.version": 2, "share.version": 1, "streams.version": 1}


@lru_cache(maxsize=8)
def _table(own: bool) -> dict[int, range]:
    table = {}
    for request, answer in ANSWERS.items():
        if answer.api.own and not own:
            continue
        versions = answer.api.versions
        table[answer.api.key] = range(versions.start, _UNSTABLE.get(request, versions[-1]) + 1)
    return table


def advertised(cluster: "ClusterCore") -> dict[int, range]:
    """API key → versions that clients may use. Those of KIP-848's client-side assignors only where they are enabled."""
    return _table(cluster.settings.coordinator.group_consumer_client_assignors_enable)


def _keys(cluster: "ClusterCore") -> tuple[ApiVersion, ...]:
    produce = ANSWERS[ProduceRequest].api.key
    return tuple(
        ApiVersion(
            api_key=key,
            min_version=0 if key == produce else each[0],
            max_version=each[-1],
        )
        for key, each in sorted(advertised(cluster).items())
    )


def unsupported(cluster: "ClusterCore") -> ApiVersionsResponse:
    """The answer to a version that the broker lacks, to be sent in version 0."""
    return ApiVersionsResponse(error_code=ErrorCode.UNSUPPORTED_VERSION, api_keys=_keys(cluster))


@answers(ApiVersionsRequest)
def api_versions(broker: "Broker", request: ApiVersionsRequest, context: Context) -> ApiVersionsResponse:
    """Tell the versions, and take the client's name."""
    if context.api_version >= 3:
        name, version = request.client_software_name, request.client_software_version
        if not (_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version)):
            return ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        context.connection.software = f"{name} {version}"
    return ApiVersionsResponse(
        api_keys=_keys(broker.cluster),
        supported_features=tuple(SupportedFeatureKey(name=name, max_version=most) for name, most in FEATURES.items()),
        finalized_features_epoch=0,
        finalized_features=tuple(
            FinalizedFeatureKey(name=name, max_version_level=most, min_version_level=most)
            for name, most in FEATURES.items()
        ),
    )
