"""Rules that clients break (`quorate verify-client`): the table of how-to/verify-a-client.md.

`python bench/verify_clients.py [NAME…]` runs all clients, or those that are named. Java's clients
need the jars of `tests/oracle_4_3`, franz-go needs Go. `--smoke` runs one client in one scenario.
"""

import json
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

# Last: `codecs` stays the standard library's.
sys.path.append(str(Path(__file__).parent))

from _go import Unbuilt, built

from quorate.cluster import ClusterError
from quorate.integration.verify_client import RuleOutcome, verify_client
from quorate.integration.verify_client.clients import CLIENTS, client_command

JARS = Path(__file__).parent.parent / "tests" / "oracle_4_3" / "target" / "lib"
JAVA = [
    "java",
    "-XX:TieredStopAtLevel=1",
    "-Xmx200m",
    "-Dorg.slf4j.simpleLogger.defaultLogLevel=off",
    "-cp",
    f"{JARS}/*",
]
CONSOLE = [
    *JAVA,
    "org.apache.kafka.tools.consumer.ConsoleConsumer",
    *("--bootstrap-server", "{bootstrap}", "--topic", "{topic}", "--group", "{group}", "--from-beginning"),
    *("--consumer-property", "client.id={client_id}", "--consumer-property", "client.rack={rack}"),
    *("--consumer-property", "auto.commit.interval.ms=300"),
]
CLASSIC = ["--consumer-property", "session.timeout.ms=6000", "--consumer-property", "heartbeat.interval.ms=500"]
SERVERS = ["--bootstrap-server", "{bootstrap}", "--topic", "{topic}"]
VERIFIABLE = [*JAVA, "org.apache.kafka.tools.VerifiableConsumer", *SERVERS, "--group-id", "{group}"]
OF_JAVA: dict[str, Sequence[str]] = {
    "java-console": [*CONSOLE, "--consumer-property", "group.protocol=consumer"],
    "java-console-classic": [*CONSOLE, *CLASSIC],
    "java-verifiable": [*VERIFIABLE, "--group-protocol", "consumer", "--reset-policy", "earliest"],
    "java-verifiable-producer": [*JAVA, "org.apache.kafka.tools.VerifiableProducer", *SERVERS, "--throughput", "50"],
}
FRANZ = {
    "franz-go": "consume",
    "franz-go-classic": "consume-classic",
    "franz-go-producer": "produce",
    "franz-go-transactions": "transact",
}


def _commands(*, smoke: bool) -> Mapping[str, Sequence[str]]:
    found = {name: client_command(name) for name in CLIENTS}
    if smoke:
        return found
    if JARS.exists():
        found |= OF_JAVA
    try:
        program = str(built("franz"))
    except Unbuilt as reason:
        print(f"without franz-go: {reason}", file=sys.stderr)
    else:
        found |= {name: [program, action] for name, action in FRANZ.items()}
    return found


def main() -> None:
    smoke = sys.argv[1:] == ["--smoke"]
    commands = _commands(smoke=smoke)
    if unknown := set(sys.argv[1:]) - set(commands) - {"--smoke"}:
        sys.exit(f"error: no such client: {', '.join(sorted(unknown))}; there are {', '.join(commands)}")
    print("| client | passed | differs | rules that differ, and the scenarios |\n|---|---|---|---|")
    for name in ["kafka-python-producer"] if smoke else sys.argv[1:] or commands:
        began = time.monotonic()
        try:
            report = verify_client(commands[name], scenarios=["plain"] if smoke else (), jobs=6)
        except ClusterError as error:
            print(f"| {name} | | | {error.message} |", flush=True)
            continue
        broken = [result for result in report.results if result.outcome is RuleOutcome.DIFFERS]
        cells = [f"`{one.rule.name}` ({', '.join(one.broken)})" for one in broken]
        passed = report.count(RuleOutcome.PASSED)
        print(f"| {name} | {passed} | {len(broken)} | {', '.join(cells)} |", flush=True)
        if smoke:
            print(json.dumps({"client": name, "passed": passed, "differs": len(broken)}))
        for one in broken:
            print("\n".join([one.rule.name, *one.requests]), file=sys.stderr)
        print(f"{name}: {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
