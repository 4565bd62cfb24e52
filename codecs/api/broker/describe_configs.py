"""DescribeConfigs v1–4. v1 synonyms (KIP-226), v3 types and docs (KIP-569), v4 flexible."""

from quorate.codecs.api.declare import request, response
from quorate.codecs.message import Message, field, struct
from quorate.codecs.wire import Array, Bool, Int8, Int16, Int32, String


@struct
class DescribeConfigsResource(Message):
    """A resource and the names of its configs; null means all."""

    resource_type: Int8 = 0
    resource_name: String = ""
    configuration_keys: Array[String] | None = ()


@request(api_key=32, versions=range(1, 5), flexible_since=4)
class DescribeConfigsRequest(Message):
    """The resources whose configs to describe."""

    resources: Array[DescribeConfigsResource] = ()
    include_synonyms: Bool = field(since=1, default=False)
    include_documentation: Bool = field(since=3, default=False)


@struct
class DescribeConfigsSynonym(Message):
    """A synonym of a config."""

    name: String = field(since=1, default="")
    value: String | None = field(since=1, default="")
    source: Int8 = field(since=1, default=0)


@struct
class DescribeConfigsResourceResult(Message):
    """A config."""

    name: String = ""
    value: String | None = ""
    read_only: Bool = False
    config_source: Int8 = field(since=1, default=-1, ignorable=True)
    is_sensitive: Bool = False
    synonyms: Array[DescribeConfigsSynonym] = field(since=1, default=(), ignorable=True)
    config_type: Int8 = field(since=3, default=0, ignorable=True)
    documentation: String | None = field(since=3, default="", ignorable=True)


@struct
class DescribeConfigsResult(Message):
    """The configs of one resource."""

    error_code: Int16 = 0
    error_message: String | None = ""
    resource_type: Int8 = 0
    resource_name: String = ""
    configs: Array[DescribeConfigsResourceResult] = ()


@response(DescribeConfigsRequest)
class DescribeConfigsResponse(Message):
    """The configs."""

    throttle_time_ms: Int32 = 0
    results: Array[DescribeConfigsResult] = ()
