"""Compares the responses of two programs to the same script.

What only one side can know is not compared: messages and causes of errors, the Java exception for
undecodable bytes, and all of `versions` except Kafka's.
"""

from dataclasses import dataclass
from typing import Any

Json = dict[str, Any]
_ABSENT = object()

_NAMED = {"UnknownRecordTypeException", "UnknownRecordVersionException"}
"""Decoding errors that Kafka's loader handles separately."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A path at which two responses differ.

    `line` counts the script's lines from 1; `ours` and `kafka` are JSON values or "(absent)".
    """

    line: int
    path: str
    ours: Any
    kafka: Any


def compare(line: int, ours: Json, kafka: Json) -> list[Difference]:
    """Return all differences between two responses to a line."""
    out: list[Difference] = []
    _compare(_comparable(ours), _comparable(kafka), line, "", out)
    return out


def _comparable(response: Any) -> Any:
    if isinstance(response, list):
        return [_comparable(item) for item in response]
    if not isinstance(response, dict):
        return response
    if response.get("op") == "versions":
        return {name: response[name] for name in ("id", "op", "kafka") if name in response}
    return {
        name: _error(item) if name in ("error", "rewriteError") and isinstance(item, dict) else _comparable(item)
        for name, item in response.items()
    }


def _error(error: Json) -> Json:
    if error.get("driver"):
        return {"driver": True}
    out = {name: item for name, item in error.items() if name in ("code", "name")}
    if error.get("class") in _NAMED:
        out["class"] = error["class"]
    return out


def _compare(ours: Any, kafka: Any, line: int, path: str, out: list[Difference]) -> None:
    if isinstance(ours, dict) and isinstance(kafka, dict):
        for name in list(dict.fromkeys([*kafka, *ours])):
            _compare(ours.get(name, _ABSENT), kafka.get(name, _ABSENT), line, f"{path}.{name}" if path else name, out)
    elif isinstance(ours, list) and isinstance(kafka, list):
        for index in range(max(len(ours), len(kafka))):
            pair = [side[index] if index < len(side) else _ABSENT for side in (ours, kafka)]
            _compare(pair[0], pair[1], line, f"{path}[{index}]", out)
    elif type(ours) is not type(kafka) or ours != kafka:
        out.append(Difference(line, path, *("(absent)" if side is _ABSENT else side for side in (ours, kafka))))
