"""Writes bin/*.sh of a Kafka distribution: a launcher per command, for the main class in its jars.

python3 launchers.py FOLDER

The jars are in libs/. Commands whose classes it lacks use all jars of tools/, if that exists.
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
# Always in the same order, which a class data archive requires.
libs=$(printf '%s:' /opt/kafka/"${KAFKA_LIBS:-libs}"/*.jar)
exec java ${KAFKA_HEAP_OPTS:--Xmx256M} ${KAFKA_JVM_PERFORMANCE_OPTS:-} \\
    ${KAFKA_LOG4J_OPTS:--Dorg.slf4j.simpleLogger.defaultLogLevel=warn} ${KAFKA_OPTS:-} \\
    -cp "${libs%:}${CLASSPATH:+:$CLASSPATH}" "$@"
"""

COMMAND = """\
#!/bin/sh
KAFKA_LIBS={libs} exec /opt/kafka/bin/kafka-run-class.sh {main} "$@"
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
    (folder,) = map(Path, sys.argv[1:])
    classes = {libs: classes_of(folder / libs) for libs in ("libs", "tools")}
    bin_folder = folder / "bin"
    bin_folder.mkdir(parents=True, exist_ok=True)
    write(bin_folder / "kafka-run-class.sh", RUN_CLASS)
    for command, candidates in COMMANDS.items():
        found = [(libs, name) for libs in classes for name in candidates if name in classes[libs]]
        if found:  # older releases do not have all commands
            libs, main_class = found[0]
            template = SERVER if command == "kafka-server-start" else COMMAND
            write(bin_folder / f"{command}.sh", template.format(main=main_class, libs=libs))


def classes_of(folder: Path) -> set[str]:
    """Return the names of all classes of Kafka in a folder of jars."""
    classes: set[str] = set()
    for jar in folder.glob("kafka*.jar"):
        with zipfile.ZipFile(jar) as archive:
            classes.update(name.removesuffix(".class").replace("/", ".") for name in archive.namelist())
    return classes


def write(path: Path, text: str) -> None:
    """Write an executable file."""
    path.write_text(text, "utf-8")
    path.chmod(0o755)


if __name__ == "__main__":
    main()
