"""Runs a script with quorate and with Kafka's classes, and compares the responses.

    python -m tests.differential tests/differential/codecs.jsonl          (from the repository root)

Exit status 1 if anything differs or cannot be run.
"""

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path

from tests.differential.compare import Difference, compare
from tests.oracle.client import Json, Oracle, OracleError

ROOT = Path(__file__).resolve().parents[2]
OURS = [sys.executable, "-m", "tests.differential.driver"]


def main() -> int:
    """Run the command line, and return the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.differential", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("script", type=Path, help="JSON lines as tests/oracle/README.md describes them")
    side = parser.add_mutually_exclusive_group()
    side.add_argument("--ours", action="store_true", help="print quorate's responses without comparison")
    side.add_argument("--oracle", action="store_true", help="print Kafka's responses without comparison")
    parser.add_argument(
        "--show", type=int, default=10, metavar="N", help="how many differing lines to show (default: %(default)s)"
    )
    options = parser.parse_args()
    try:
        lines = [line for line in options.script.read_text(encoding="utf-8").splitlines() if line.strip()]
        if options.ours or options.oracle:
            for response in responses_of(lines, ours=options.ours):
                print(json.dumps(response, ensure_ascii=False))
            return 0
        differing = run(lines)
    except (OSError, UnicodeDecodeError, OracleError) as error:
        print(f"error: {options.script}: {error}", file=sys.stderr)
        return 1
    for text in report(lines, differing, options.show):
        print(text)
    return 1 if differing else 0


def responses_of(lines: list[str], *, ours: bool) -> list[Json]:
    """Return the responses of one side to all lines."""
    with Oracle(OURS if ours else None, cwd=ROOT) as program:
        return program.exchange(lines)


def run(lines: list[str]) -> dict[int, list[Difference]]:
    """Return the differences by line number, from 1; empty if both sides agree."""
    pairs = zip(responses_of(lines, ours=True), responses_of(lines, ours=False), strict=True)
    found = {number: compare(number, ours, kafka) for number, (ours, kafka) in enumerate(pairs, start=1)}
    return {number: differences for number, differences in found.items() if differences}


def report(lines: list[str], differing: dict[int, list[Difference]], show: int) -> Iterable[str]:
    """Yield the lines of the report: each line that differs, and where its responses differ."""
    for number, differences in list(differing.items())[:show]:
        yield f"line {number}: {_short(lines[number - 1], 300)}"
        for difference in differences[:20]:
            yield f"    {difference.path}"
            yield f"        ours   {_short(json.dumps(difference.ours, ensure_ascii=False), 2000)}"
            yield f"        kafka  {_short(json.dumps(difference.kafka, ensure_ascii=False), 2000)}"
        if len(differences) > 20:
            yield f"    and {len(differences) - 20} more places"
    if len(differing) > show:
        yield f"and {len(differing) - show} more lines"
    yield f"{len(lines)} lines, {len(differing)} with differences"


def _short(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[:limit]}… ({len(text)} characters)"


if __name__ == "__main__":
    sys.exit(main())
