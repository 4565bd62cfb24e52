"""UpdateFeatures v0–2.

KIP-584. v1 kinds of downgrades, and only checking (KIP-778); v2 says nothing of each feature
(KIP-1022). All flexible.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String

__all__ = ["UpdateFeaturesRequest", "UpdateFeaturesResponse"]


@struct
class FeatureUpdateKey(Message):
    """A feature's new level.

    `upgrade_type`: 1 up only, 2 down where nothing is lost, 3 down in any case; `allow_downgrade`
    says so in version 0.
    """

    feature: String = field(default="", map_key=True)
    max_version_level: Int16 = 0
    allow_downgrade: Bool = field(default=False, until=0)
    upgrade_type: Int8 = field(since=1, default=1)


@request(api_key=57, versions=range(0, 3), flexible_since=0)
class UpdateFeaturesRequest(Message):
    """Features that are to get another level."""

    timeout_ms: Int32 = 60_000
    feature_updates: Array[FeatureUpdateKey] = ()
    validate_only: Bool = field(since=1, default=False)


@struct
class UpdatableFeatureResult(Message):
    """What became of one feature."""

    feature: String = field(default="", map_key=True, until=1)
    error_code: Int16 = field(default=0, until=1)
    error_message: String | None = field(default="", until=1)


@response(UpdateFeaturesRequest)
class UpdateFeaturesResponse(Message):
    """What became of the request, and of each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Array[UpdatableFeatureResult] = field(default=(), until=1, ignorable=True)
