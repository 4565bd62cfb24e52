"""The rules, by suite. A rule judges the exchanges of one scenario, and sends nothing."""

from collections.abc import Mapping, Sequence

from quorate.integration.verify_client.rule import ClientRule
from quorate.integration.verify_client.rules.classic_protocol import CLASSIC_PROTOCOL_RULES
from quorate.integration.verify_client.rules.consumer_protocol import CONSUMER_PROTOCOL_RULES
from quorate.integration.verify_client.rules.consuming import CONSUMING_RULES
from quorate.integration.verify_client.rules.producing import PRODUCING_RULES
from quorate.integration.verify_client.rules.requests import REQUEST_RULES

__all__ = ["RULES"]

RULES: Mapping[str, Sequence[ClientRule]] = {
    "requests": REQUEST_RULES,
    "consuming": CONSUMING_RULES,
    "consumer protocol": CONSUMER_PROTOCOL_RULES,
    "classic protocol": CLASSIC_PROTOCOL_RULES,
    "producing": PRODUCING_RULES,
}
"""Suite → its rules."""
