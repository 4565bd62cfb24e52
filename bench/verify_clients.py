"""Rules that clients break (`quorate verify-client`): the table of how-to/verify-a-client.md.

`python bench/verify_clients.py [NAME…]` runs all clients, or those that are named. Java's clients
need the jars of `tests/oracle_4_3`. `--smoke` runs one client in one scenario.
"""

import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path

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


def main() -> None:
    commands = {**{name: client_command(name) for name in CLIENTS}, **(OF_JAVA if JARS.exists() else {})}
    print("| client | passed | differs | rules that differ, and the scenarios |\n|---|---|---|---|")
    smoke = sys.argv[1:] == ["--smoke"]
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
