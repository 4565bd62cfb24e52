"""Configs of client metrics (KIP-714): which metrics clients push, how often, and which clients.

What clients push is known to `telemetry`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from quorate.codecs.api.error_codes import ErrorCode
from quorate.codecs.configs import ConfigKey, ConfigType, elements
from quorate.coordinator.consumer.patterns import Pattern, PatternError, compiled
from quorate.coordinator.errors import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["INTERVAL_MS", "matches", "parsed", "selectors"]

INTERVAL_MS: Final = 300_000
"""How often clients push by default, in ms."""
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


def parsed(key: ConfigKey, value: str) -> str:
    """The value of a config as brokers report it: without blanks, and each element of a list once."""
    return ",".join(dict.fromkeys(elements(value))) if key.type is ConfigType.LIST else key.parsed(value)


def matches(configs: Mapping[str, str], client: Mapping[str, str]) -> bool:
    """Whether a subscription is for a client, of which `client` tells the properties that are known."""
    return all(
        name in client and pattern.matches(client[name])
        for name, pattern in selectors(elements(configs.get("match", ""))).items()
    )


def selectors(texts: "Iterable[str]") -> dict[str, Pattern]:
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
