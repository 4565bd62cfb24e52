"""Writes bin/*.sh of a Kafka distribution: a launcher per command, for the main class in its jars.

python3 launchers.py LIBS BIN
"""

import sys
import zipfile
from pathlib import Path

# Command → its main classes over all releases, newest first.
COMMANDS = {
    "kafka-acls": ("org.apache.kafka.tools.AclCommand", "kafka.admin.AclCommand"),
    "kafka-broker-api-versions": (
        "org.apache.kafka.tools.BrokerApiVersionsCommand",
        "kafka.admin.BrokerApiVersionsCommand",
    ),
    "kafka-cluster": ("org.apache.kafka.tools.ClusterTool",),
    "kafka-configs": ("org.apache.kafka.tools.ConfigCommand", "kafka.admin.ConfigCommand"),
    "kafka-console-consumer": (
        "org.apache.kafka.tools.consumer.ConsoleConsumer",
        "kafka.tools.ConsoleConsumer",
    ),
    "kafka-console-producer": ("org.apache.kafka.tools.ConsoleProducer", "kafka.tools.ConsoleProducer"),
    "kafka-consumer-groups": ("org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",),
    "kafka-consumer-perf-test": ("org.apache.kafka.tools.ConsumerPerformance",),
    "kafka-delete-records": ("org.apache.kafka.tools.DeleteRecordsCommand",),
    "kafka-dump-log": ("org.apache.kafka.tools.DumpLogSegments", "kafka.tools.DumpLogSegments"),
    "kafka-features": ("org.apache.kafka.tools.FeatureCommand",),
    "kafka-get-offsets": ("org.apache.kafka.tools.GetOffsetShell",),
    "kafka-groups": ("org.apache.kafka.tools.GroupsCommand",),
    "kafka-leader-election": ("org.apache.kafka.tools.LeaderElectionCommand",),
    "kafka-log-dirs": ("org.apache.kafka.tools.LogDirsCommand",),
    "kafka-metadata-quorum": ("org.apache.kafka.tools.MetadataQuorumCommand",),
    "kafka-producer-perf-test": ("org.apache.kafka.tools.ProducerPerformance",),
    "kafka-reassign-partitions": ("org.apache.kafka.tools.reassign.ReassignPartitionsCommand",),
    "kafka-server-start": ("kafka.Kafka",),
    "kafka-share-groups": ("org.apache.kafka.tools.consumer.group.ShareGroupCommand",),
    "kafka-storage": ("kafka.tools.StorageTool", "org.apache.kafka.tools.StorageTool"),
    "kafka-topics": ("org.apache.kafka.tools.TopicCommand",),
    "kafka-transactions": ("org.apache.kafka.tools.TransactionsCommand",),
    "kafka-verifiable-consumer": ("org.apache.kafka.tools.VerifiableConsumer",),
    "kafka-verifiable-producer": ("org.apache.kafka.tools.VerifiableProducer",),
}

RUN_CLASS = """\
#!/bin/sh
# kafka-run-class.sh CLASS [ARGUMENT...]
# reads KAFKA_HEAP_OPTS, KAFKA_JVM_PERFORMANCE_OPTS, KAFKA_OPTS, KAFKA_LOG4J_OPTS and CLASSPATH.
libs=$(printf '%s:' /opt/kafka/libs/*.jar)  # always in the same order, which a class data archive requires
exec java ${KAFKA_HEAP_OPTS:--Xmx256M} ${KAFKA_JVM_PERFORMANCE_OPTS:-} \\
    ${KAFKA_LOG4J_OPTS:--Dorg.slf4j.simpleLogger.defaultLogLevel=warn} ${KAFKA_OPTS:-} \\
    -cp "${libs%:}${CLASSPATH:+:$CLASSPATH}" "$@"
"""

COMMAND = """\
#!/bin/sh
exec /opt/kafka/bin/kafka-run-class.sh {main} "$@"
"""

SERVER = """\
#!/bin/sh
# kafka-server-start.sh SERVER.PROPERTIES [--override NAME=VALUE...]
: "${{KAFKA_HEAP_OPTS:=-Xms256M -Xmx1G}}"
log="-Dorg.slf4j.simpleLogger"
log_format="yyyy-MM-dd'T'HH:mm:ss.SSS"
: "${{KAFKA_LOG4J_OPTS:=$log.defaultLogLevel=info $log.showDateTime=true $log.dateTimeFormat=$log_format}}"
export KAFKA_HEAP_OPTS KAFKA_LOG4J_OPTS
exec /opt/kafka/bin/kafka-run-class.sh {main} "$@"
"""


def main() -> None:
    """Find the main classes in the jars, and write the launchers."""
    libs, bin_folder = map(Path, sys.argv[1:])
    classes: set[str] = set()
    for jar in libs.glob("kafka*.jar"):
        with zipfile.ZipFile(jar) as archive:
            classes.update(name.removesuffix(".class").replace("/", ".") for name in archive.namelist())
    bin_folder.mkdir(parents=True, exist_ok=True)
    write(bin_folder / "kafka-run-class.sh", RUN_CLASS)
    for command, candidates in COMMANDS.items():
        found = next((name for name in candidates if name in classes), None)
        if found is not None:  # older releases do not have all commands
            template = SERVER if command == "kafka-server-start" else COMMAND
            write(bin_folder / f"{command}.sh", template.format(main=found))


def write(path: Path, text: str) -> None:
    """Write an executable file."""
    path.write_text(text, "utf-8")
    path.chmod(0o755)


if __name__ == "__main__":
    main()
