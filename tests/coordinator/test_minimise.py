"""Minimised scripts show the difference that was found."""

from typing import Any

from tests.coordinator.minimise import minimise
from tests.coordinator.scripts import Differs


class Sides:
    """Differ in `records` of a request after an image and a load, without an image in `response`.

    Other requests are equal.
    """

    def __init__(self, oracle: Any, *, note: str = "") -> None:
        self.oracle = oracle
        self.script: list[dict[str, Any]] = []

    def op(self, op: str, **fields: Any) -> dict[str, Any]:
        self.script.append({"op": op, **fields})
        seen = {line["op"] for line in self.script}
        field = "response.errorCode" if "image" not in seen else f"records[{len(seen)}].value"
        if op == "request" and ("image" not in seen or "load" in seen):
            names = [line["op"] for line in self.script]
            raise Differs(f"note\nline {len(names)}: {{}}\n  {field}\n    ours\n\n{names}")
        return {}


def test_a_shorter_script_differs_in_the_same_field() -> None:
    lines = [{"op": name} for name in ("config", "image", "advance", "load", "advance", "request")]
    oracle: Any = None
    found = minimise(oracle, lines, kind=Sides)
    assert str(found).endswith("['image', 'load', 'request']")
