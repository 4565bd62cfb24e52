"""Runs the oracle's JSON lines with quorate (tests/oracle/README.md).

    python -m tests.differential.driver < SCRIPT.jsonl

This module knows the protocol: lines, ids, errors. The ops are in the modules `ops_*`. A new op is
a function there, with `@op("name")`.
"""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any

from tests.differential import ops_assign, ops_codecs, ops_server_assign, ops_shard, ops_streams
from tests.differential.ops import OPS, BadInput, Json

# These modules are imported for the ops that they register.
assert ops_codecs.OPS is ops_assign.OPS is ops_server_assign.OPS is ops_shard.OPS is ops_streams.OPS is OPS


def responses(lines: Iterable[str]) -> Iterator[Json]:
    """Yield one response per line that is not blank, until `quit`."""
    number = 0
    for line in lines:
        if not line.strip():
            continue
        number += 1
        response = _respond(line, number)
        yield response
        if response.get("op") == "quit":
            return


def _respond(line: str, number: int) -> Json:
    try:
        request = json.loads(line)
    except ValueError as error:
        return {"id": number, **driver_error(error)}
    return one(request, number)


def one(request: Any, default_id: int | str) -> Json:
    """Return the response to an op.

    An invalid op is an error of the driver, not of the code under test.
    """
    out: Json = {"id": default_id}
    try:
        if not isinstance(request, dict) or "op" not in request:
            raise BadInput("missing field 'op'")
        out["id"] = request.get("id", default_id)
        out["op"] = name = str(request["op"])
        if name == "many":
            ops = request["ops"]
            out["answers"] = [one(inner, f"{default_id}.{index}") for index, inner in enumerate(ops)]
        elif name in OPS:
            out |= OPS[name](request)
        else:
            raise BadInput(f"no op {name}")
    except (BadInput, KeyError, TypeError, ValueError) as error:
        out |= driver_error(error)
    return out


def driver_error(error: Exception) -> Json:
    """Return an error in the oracle's form."""
    return {
        "error": {
            "code": -1,
            "name": "UNKNOWN_SERVER_ERROR",
            "class": type(error).__name__,
            "message": str(error),
            "driver": True,
        }
    }


def main() -> None:
    """Read lines from standard input and write responses to standard output."""
    for response in responses(sys.stdin):
        sys.stdout.write(json.dumps(response) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
