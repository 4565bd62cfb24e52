"""A check: one rule of Kafka's protocol, with its source, and the requests that show it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from quorate.integration.verify.session import CheckSession


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One rule of the protocol.

    `source`: the KIP or Kafka issue. `rule`: one sentence. `script`: sends the requests. What the
    responses have to be is recorded from real brokers.
    """

    name: str
    source: str
    rule: str
    script: Callable[[CheckSession], None]


def check(source: str, rule: str) -> Callable[[Callable[[CheckSession], None]], Check]:
    """Turn a function into a check, which has its name."""

    def declare(script: Callable[[CheckSession], None]) -> Check:
        return Check(name=script.__name__.replace("_", "-"), source=source, rule=rule, script=script)

    return declare


def checks_in(module: Mapping[str, Any]) -> tuple[Check, ...]:
    """Return the checks of a module (its `globals()`), in the order of their definition."""
    return tuple(value for value in module.values() if isinstance(value, Check))
