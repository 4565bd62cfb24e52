"""UpdateFeatures v0–2.

KIP-584. v1 downgrade types, `validate_only` (KIP-778); v2 no result per feature (KIP-1022). All
versions are flexible.
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String


@struct
class FeatureUpdateKey(Message):
    """A feature's new level.

    `upgrade_type`: 1 upgrade, 2 safe downgrade, 3 unsafe downgrade. Version 0 has
    `allow_downgrade` instead.
    """

    feature: String = field(default="", map_key=True)
    max_version_level: Int16 = 0
    allow_downgrade: Bool = field(default=False, until=0)
    upgrade_type: Int8 = field(since=1, default=1)


@request(api_key=57, versions=range(0, 3), flexible_since=0)
class UpdateFeaturesRequest(Message):
    """The features to update."""

    timeout_ms: Int32 = 60_000
    feature_updates: Array[FeatureUpdateKey] = ()
    validate_only: Bool = field(since=1, default=False)


@struct
class UpdatableFeatureResult(Message):
    """The result for one feature."""

    feature: String = field(default="", map_key=True, until=1)
    error_code: Int16 = field(default=0, until=1)
    error_message: String | None = field(default="", until=1)


@response(UpdateFeaturesRequest)
class UpdateFeaturesResponse(Message):
    """The result for the request, and for each feature."""

    throttle_time_ms: Int32 = 0
    error_code: Int16 = 0
    error_message: String | None = ""
    results: Array[UpdatableFeatureResult] = field(default=(), until=1, ignorable=True)
