"""Configs of client metrics (KIP-714): which metrics clients push, how often, and which clients. What clients push is known to `telemetry`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from quorate.cluster.topic_settings import Kind, Setting, elements
from quorate.codecs.api.error_codes import ErrorCode
from quorate.coordinator.consumer.patterns import Pattern, PatternError, compiled
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["CLIENT_METRICS", "INTERVAL_MS", "check_client_metrics", "matches", "parsed"]

INTERVAL_MS: Final = 300_000
"""How often clients push by default, in ms."""
_LEAST_MS, _MOST_MS = 100, 3_600_000
_PROPERTIES = frozenset(
    {
        "client_instance_id",
        "client_id",
        "client_software_name",
        "client_software_version",
        "client_source_address",
        "client_source_port",
    }
)
"""What a client may be selected by."""

CLIENT_METRICS: Mapping[str, Setting] = {
    one.name: one
    for one in (
        Setting(name="interval.ms", kind=Kind.INT, default=str(INTERVAL_MS), broker=None),
        Setting(name="match", kind=Kind.LIST, default="", broker=None),
        Setting(name="metrics", kind=Kind.LIST, default="", broker=None),
    )
}


def check_client_metrics(name: str, configs: Mapping[str, str | None]) -> None:
    """Raises `ApiError` for configs that a subscription cannot have, in the order of Kafka's ClientMetricsConfigs."""
    if nulls := [each for each, value in configs.items() if value is None]:
        listed = ",".join(nulls)
        raise ApiError(ErrorCode.INVALID_CONFIG, f"Null value not supported for client metrics configs: {listed}")
    if not name:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Subscription name can't be empty")
    values = {each: value for each, value in configs.items() if value is not None}
    for each in values:
        if each not in CLIENT_METRICS:
            raise ApiError(ErrorCode.INVALID_REQUEST, f"Unknown client metrics configuration: {each}")
    for each, value in values.items():
        if problem := CLIENT_METRICS[each].problem(value):
            raise ApiError(ErrorCode.INVALID_CONFIG, problem)
        if CLIENT_METRICS[each].kind is Kind.LIST and elements(value).count(""):
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Configuration '{each}' values must not be empty.")
    if "interval.ms" in values and not _LEAST_MS <= int(values["interval.ms"]) <= _MOST_MS:
        interval_ms = int(values["interval.ms"])
        raise ApiError(
            ErrorCode.INVALID_REQUEST,
            f"Invalid value {interval_ms} for interval.ms, interval must be between {_LEAST_MS} and {_MOST_MS} (1 hour)",
        )
    _selectors(elements(values.get("match", "")))


def parsed(name: str, value: str) -> str:
    """The value of a config as brokers tell it: without blanks, and each element of a list once."""
    if CLIENT_METRICS[name].kind is Kind.LIST:
        return ",".join(dict.fromkeys(elements(value)))
    return str(int(value))


def matches(configs: Mapping[str, str], client: Mapping[str, str]) -> bool:
    """Whether a subscription is for a client, of which `client` tells the properties that are known."""
    return all(
        name in client and pattern.matches(client[name])
        for name, pattern in _selectors(elements(configs.get("match", ""))).items()
    )


def _selectors(texts: "Iterable[str]") -> dict[str, Pattern]:
    """Property → regex, of texts such as `client_id=app.*`. Raises `ApiError`."""
    found: dict[str, Pattern] = {}
    for text in texts:
        parts = text.split("=")
        while parts and not parts[-1]:  # Java's split leaves out empty parts at the end
            parts.pop()
        name = parts[0].strip() if parts else ""
        try:
            if len(parts) != 2 or name not in _PROPERTIES:
                raise PatternError
            found[name] = compiled(parts[1].strip())
        except PatternError:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}") from None
    return found
