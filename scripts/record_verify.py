"""Record what real brokers respond to the checks of `quorate verify`, into its recordings.jsonl.

    scripts/record_verify.py [RELEASE...]     (default: all releases with an image)

Each release runs in a container, with one broker, and gets all requests twice: a check with two
different recordings is reported, and the file is not written. Releases that are not named keep
their recordings.
"""

import sys
from pathlib import Path

from quorate.codecs.releases import KafkaVersion
from quorate.integration import KafkaCluster
from quorate.integration.verify.checks import SUITES
from quorate.integration.verify.recorder import record
from quorate.integration.verify.recordings import Recording, lines_of, recorded_releases, recordings_of
from quorate.integration.verify.target import VerifyTarget

RELEASES = ("3.9.2", "4.0.2", "4.3.1", "4.4.0")
FILE = Path(__file__).resolve().parents[1] / "integration" / "verify" / "recordings.jsonl"
PROPERTIES = {"offsets.topic.num.partitions": 4, "share.coordinator.state.topic.num.partitions": 4}


def record_release(release: str) -> Recording:
    """Record all checks on a release twice. Raises `SystemExit` if the results differ."""
    checks = [check for suite in SUITES.values() for check in suite]
    with KafkaCluster(racks=[None], version=release, properties=PROPERTIES) as kafka:
        target = VerifyTarget(kafka.bootstrap_servers, prefix="rv")
        first = record(target, "rv1-", checks)
        second = record(target, "rv2-", checks)
    unequal = [name for name, steps in first.items() if steps != second[name]]
    for name in unequal:
        print(f"{release}: {name} is not deterministic", file=sys.stderr)
        for left, right in zip(first[name], second[name], strict=False):
            if left != right:
                print(f"  {left}\n  {right}", file=sys.stderr)
    if unequal:
        raise SystemExit(1)
    supported = sum(bool(steps) for steps in first.values())
    print(f"{release}: {supported} of {len(first)} checks")
    return first


def main() -> None:
    """Record the releases of the command line, and write the file."""
    recordings: dict[str, Recording] = {}
    if FILE.exists():
        recordings = {str(release): recordings_of(release) for release in recorded_releases()}
    for release in sys.argv[1:] or RELEASES:
        recordings[release] = record_release(release)
    in_order = {release: recordings[release] for release in sorted(recordings, key=KafkaVersion.parse)}
    FILE.write_text("".join(f"{line}\n" for line in lines_of(in_order)), encoding="utf-8")


if __name__ == "__main__":
    main()
