"""ApiVersions v0–5.

v3 client software name, and flexible requests (KIP-511; the response's header never has tags);
features (KIP-584); v4 features of minimum version 0 (KIP-1022); v5 the cluster and node
that the client means to reach (KIP-1242).
"""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct, tagged
from quorate.codecs.wire import Array, Bool, Int16, Int32, Int64, String


@request(api_key=18, versions=range(0, 6), flexible_since=3)
class ApiVersionsRequest(Message):
    """A request for the broker's API versions, which clients send first."""

    client_software_name: String = field(since=3, default="", ignorable=True)
    client_software_version: String = field(since=3, default="", ignorable=True)
    cluster_id: String | None = field(since=5, default=None, ignorable=True)
    node_id: Int32 = field(since=5, default=-1, ignorable=True)


@struct
class ApiVersion(Message):
    """The versions of one API."""

    api_key: Int16 = field(default=0, map_key=True)
    min_version: Int16 = 0
    max_version: Int16 = 0


@struct
class SupportedFeatureKey(Message):
    """The versions of a feature that the broker supports."""

    name: String = field(since=3, default="", map_key=True)
    min_version: Int16 = field(since=3, default=0)
    max_version: Int16 = field(since=3, default=0)


@struct
class FinalizedFeatureKey(Message):
    """The finalized version of a feature."""

    name: String = field(since=3, default="", map_key=True)
    max_version_level: Int16 = field(since=3, default=0)
    min_version_level: Int16 = field(since=3, default=0)


@response(ApiVersionsRequest)
class ApiVersionsResponse(Message):
    """The versions of every API, and the cluster's features."""

    error_code: Int16 = 0
    api_keys: Array[ApiVersion] = ()
    throttle_time_ms: Int32 = field(since=1, default=0, ignorable=True)
    supported_features: Array[SupportedFeatureKey] = tagged(0, default=(), since=3, ignorable=True)
    finalized_features_epoch: Int64 = tagged(1, default=-1, since=3, ignorable=True)
    finalized_features: Array[FinalizedFeatureKey] = tagged(2, default=(), since=3, ignorable=True)
    zk_migration_ready: Bool = tagged(3, default=False, since=3, ignorable=True)
