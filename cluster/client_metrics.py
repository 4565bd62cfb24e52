"""Configs of client metrics (KIP-714): metrics, push interval, and matching clients.

Pushed metrics are handled in `telemetry`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigKey, ConfigType, elements
from quorate.coordinator.consumer.patterns import Pattern, PatternError, compiled
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

INTERVAL_MS: Final = 300_000
"""Kafka's default push interval."""
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
"""Names that a `match` pattern may select clients by."""


def parsed(key: ConfigKey, value: str) -> str:
    """Return a config's value as brokers report it: without blanks and duplicate list elements."""
    return ",".join(dict.fromkeys(elements(value))) if key.type is ConfigType.LIST else key.parsed(value)


def matches(configs: Mapping[str, str], client: Mapping[str, str]) -> bool:
    """Return whether a subscription matches a client, given the client's known attributes."""
    return all(
        name in client and pattern.matches(client[name])
        for name, pattern in selectors(elements(configs.get("match", ""))).items()
    )


def selectors(texts: "Iterable[str]") -> dict[str, Pattern]:
    """Return attribute → regex, from texts such as `client_id=app.*`. Raises `ApiError`."""
    found: dict[str, Pattern] = {}
    for text in texts:
        parts = text.split("=")
        while parts and not parts[-1]:  # Java's split drops trailing empty strings
            parts.pop()
        name = parts[0].strip() if parts else ""
        try:
            if len(parts) != 2 or name not in _PROPERTIES:
                raise PatternError
            found[name] = compiled(parts[1].strip())
        except PatternError:
            raise ApiError(ErrorCode.INVALID_CONFIG, f"Illegal client matching pattern: {text}") from None
    return found
