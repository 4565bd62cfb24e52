"""Where the embedded cluster differs from Kafka and is to: each with a reason, and with requests that show it, so that the list stays true (`test_pair`)."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from quorate.codecs.api.broker import ApiVersionsRequest, DescribeConfigsRequest, IncrementalAlterConfigsRequest
from quorate.codecs.api.broker.describe_configs import DescribeConfigsResource
from quorate.codecs.api.broker.incremental_alter_configs import AlterableConfig, AlterConfigsResource
from tests.cluster.pair import Difference, Pair

__all__ = ["GAPS", "Gap", "undeclared"]

_BROKER = 4


@dataclass(frozen=True, slots=True)
class Gap:
    """A difference. `path`: a pattern of API and fields, as `Difference` has them; `shows`: asks for it."""

    path: str
    reason: str
    shows: Callable[[Pair], list[Difference]]

    def covers(self, difference: Difference) -> bool:
        return re.fullmatch(self.path, f"{difference.api} {difference.path}") is not None


def _versions(pair: Pair) -> list[Difference]:
    return pair.ask(ApiVersionsRequest(client_software_name="w", client_software_version="1"), 3)[2]


def _settings_of_broker(pair: Pair) -> list[Difference]:
    resource = DescribeConfigsResource(resource_type=_BROKER, resource_name="1", configuration_keys=None)
    return pair.ask(DescribeConfigsRequest(resources=(resource,)), 4)[2]


def _change_broker(pair: Pair) -> list[Difference]:
    config = AlterableConfig(name="log.retention.ms", config_operation=0, value="86400000")
    resource = AlterConfigsResource(resource_type=_BROKER, resource_name="1", configs=(config,))
    return pair.ask(IncrementalAlterConfigsRequest(resources=(resource,), validate_only=True), 1)[2]


GAPS: tuple[Gap, ...] = (
    Gap("ApiVersions api_keys#", "APIs that the embedded cluster does not answer are not told", _versions),
    Gap(
        r"DescribeConfigs results\[\]\.configs(#|\[\].*)",
        "of brokers' 340 settings those are shown that mean something here, or were given",
        _settings_of_broker,
    ),
    Gap(
        r"IncrementalAlterConfigs responses\[\]\.error_code",
        "settings of brokers are given when the cluster is made, and do not change",
        _change_broker,
    ),
)


def undeclared(differences: list[Difference]) -> list[Difference]:
    """What no gap covers. That about settings is only one for brokers' settings."""
    return [one for one in differences if not any(gap.covers(one) and _fits(one) for gap in GAPS)]


def _fits(difference: Difference) -> bool:
    resources = getattr(difference.request, "resources", None)
    return resources is None or any(one.resource_type == _BROKER for one in resources)
