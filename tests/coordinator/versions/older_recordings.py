"""Recorded histories with the responses of the coordinators of Kafka 4.1.2 and 4.2.1.

    .venv/bin/python -P tests/coordinator/versions/older_recordings.py        # records them again

The file is tests/data/coordinator_histories_older.jsonl.gz. Test runs have oracles of 4.0, 4.3 and
the newest release only. For a recording, the oracles of the releases in between are built here from
the sources of those.
"""

import os
import re
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from random import Random

if __name__ == "__main__":
    sys.path.append(str(Path(__file__).parents[3]))

from tests.coordinator.classic_scripts import ClassicHistory, NamedDuel
from tests.coordinator.consumer_scripts import History
from tests.coordinator.mixed_scripts import MixedHistory
from tests.coordinator.recordings import FILE, Kinds, record
from tests.coordinator.scripts import Duel
from tests.oracle.client import HERE, OLDER, Oracle

FILE_OLDER = FILE.with_name("coordinator_histories_older.jsonl.gz")

STEPS = 40


def _run(kind: type[History | ClassicHistory | MixedHistory], oracle: Oracle, seed: int) -> Duel:
    duel = NamedDuel(oracle)
    kind(Random(seed), duel).run(STEPS)
    return duel


KINDS: Kinds = {
    "consumer": ((*range(6), 11), partial(_run, History)),
    "classic": (range(3), partial(_run, ClassicHistory)),
    "mixed": ((*range(6), 20, 28, 41), partial(_run, MixedHistory)),
}
"""The seeds after the first range are of rare cases: members that revoke again, a migration policy
that excludes classic members, groups that are downgraded to classic.
"""

HOST = "org/apache/kafka/coordinator/group/OracleHost.java"
MOVED = "org/apache/kafka/coordinator/group/Release.java"
NOTHING_MORE = [
    (
        r"private Release\(\) \{ \}",
        "public static java.util.concurrent.CompletableFuture<org.apache.kafka.common.protocol.ApiMessage> send("
        "GroupCoordinator g, org.apache.kafka.common.requests.AbstractRequest request, "
        "org.apache.kafka.common.requests.RequestContext context) { return null; }",
    )
]
"""Adds the method for requests that only the newest releases have."""
IN_BOTH = [
    (
        r"for \(ConfigDef def : List.of\(.*?\)\) \{\n.*?\}\n",
        "names.addAll(GroupCoordinatorConfig.CONFIG_DEF.names());\n",
    ),
    (r"\.withAuthorizer\(DeniedTopics\.configured\(\)\)", ".withAuthorizerPlugin(java.util.Optional.empty())"),
]
PERSISTER = "configManager, new org.apache.kafka.server.share.persister.NoOpStatePersister(), timer"
METADATA = "org.apache.kafka.coordinator.common.runtime.KRaftCoordinatorMetadata"
FETCHES = [
    (r"OffsetFetchRequest\.requestAllOffsets\(group\)", "group.topics() == null"),
    (r"g\.(fetchOffsets)(\(ctx, ask, r\.requireStable\(\)\))", r"(all ? g.fetchAllOffsets\2 : g.\1\2)"),
]
RELEASES = {
    "4.1.2": (
        [*IN_BOTH, (r"metrics, configManager\);", f"metrics, {PERSISTER});")],
        (OLDER["4.0"], [("short apiVersion", "int apiVersion")]),
    ),
    "4.2.1": (
        [
            *IN_BOTH,
            (r"metrics, configManager\);", f"metrics, {PERSISTER}, null);"),
            (r"withAppendLingerMs\(0\)", "withAppendLingerMs(java.util.OptionalInt.of(0))"),
            (
                r"onNewMetadataImage\(image, delta\)",
                f"onNewMetadataImage(new {METADATA}Image(image), new {METADATA}Delta(delta))",
            ),
            (r"result, timeout\(\)", "result, transactionVersion, timeout()"),
        ],
        (HERE, [(r"record\.internal\.", "record.")]),
    ),
}
"""Release → edits of the host of 4.0's oracle; the oracle whose log is used, and edits of that."""


def main() -> None:
    """Record the histories on each release."""
    with tempfile.TemporaryDirectory() as temporary:
        oracles = {}
        for release in RELEASES:
            folder = oracles[f"Kafka {release}"] = Path(temporary, release)
            build(release, folder)
        record(
            FILE_OLDER, KINDS, {name: ["env", f"ORACLE_DIR={folder}", HERE / "run"] for name, folder in oracles.items()}
        )


def build(release: str, folder: Path) -> None:
    """Build the oracle of a release in a folder."""
    host, (log_of, log) = RELEASES[release]
    sources = folder / "src"
    ours = OLDER["4.0"] / "src/main/java"
    newest = HERE / "src/main/java"
    edited(ours / HOST, sources / HOST, host)
    edited(log_of / "src/main/java/oracle/MemoryLog.java", sources / "oracle/MemoryLog.java", log)
    edited(newest / "oracle/ReleaseRequests.java", sources / "oracle/ReleaseRequests.java", FETCHES)
    edited(ours / MOVED, sources / MOVED, NOTHING_MORE)
    edited(newest / "oracle/Wire.java", sources / "oracle/Wire.java", [])
    edited(ours / "oracle/OneShots.java", sources / "oracle/OneShots.java", [])
    (folder / "pom.xml").write_text(re.sub("4\\.0\\.2", release, (OLDER["4.0"] / "pom.xml").read_text()))
    copy = ["mvn", "-q", "dependency:copy-dependencies", "-DoutputDirectory=target/lib", "-DincludeScope=runtime"]
    subprocess.run(copy, cwd=folder, check=True)
    files = [
        *sources.rglob("*.java"),
        *(HERE / "src/shared/java").rglob("*.java"),
        *(HERE / "src/by_name/java").rglob("*.java"),
    ]
    compiler = ["javac", "-proc:none", "-nowarn", "-d", "target/classes", "-cp", "target/lib/*"]
    subprocess.run([*compiler, *map(str, files)], cwd=folder, check=True, env=os.environ)


def edited(source: Path, target: Path, edits: list[tuple[str, str]]) -> None:
    """Write a copy of a source file with replacements. Exits if a pattern is not found."""
    text = source.read_text()
    for pattern, other in edits:
        text, count = re.subn(pattern, other, text, flags=re.DOTALL)
        if not count:
            raise SystemExit(f"{source} does not match {pattern!r}; adapt the edits in older_recordings.py")
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)


if __name__ == "__main__":
    main()
