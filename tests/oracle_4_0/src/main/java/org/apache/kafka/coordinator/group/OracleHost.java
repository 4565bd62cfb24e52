package org.apache.kafka.coordinator.group;

import oracle.Clock;
import oracle.DeniedTopics;
import oracle.MemoryLog;
import oracle.StepTimer;
import oracle.TaskQueue;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.common.internals.Topic;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntime;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRuntimeMetrics;
import org.apache.kafka.coordinator.common.runtime.DirectEventProcessor;
import org.apache.kafka.coordinator.group.metrics.GroupCoordinatorMetrics;
import org.apache.kafka.image.MetadataDelta;
import org.apache.kafka.image.MetadataImage;
import org.apache.kafka.image.TopicImage;

import com.yammer.metrics.core.MetricsRegistry;

import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutionException;

/** Kafka 4.0's coordinator, like OracleHost of the newest release: its clock, timer, executor and log are driven step by step. */
public final class OracleHost implements AutoCloseable {
    public final TopicPartition tp = new TopicPartition(Topic.GROUP_METADATA_TOPIC_NAME, 0);
    public final Clock clock;
    public final StepTimer timer;
    public final TaskQueue tasks = new TaskQueue();
    public final MemoryLog log;
    public final DirectEventProcessor processor;
    public final GroupCoordinatorService service;
    private final GroupCoordinatorConfig config;
    private final CoordinatorRuntime<GroupCoordinatorShard, CoordinatorRecord> runtime;
    public boolean holdCommits = false;

    public OracleHost(
        Map<String, String> configs, Map<String, String> logConfigs, long startMs, MetadataImage image, List<MemoryLog.Entry> entries
    ) {
        clock = new Clock(startMs);
        timer = new StepTimer(clock);
        log = new MemoryLog(logConfigs);
        log.entries.addAll(entries);
        processor = new DirectEventProcessor(log::end, clock::milliseconds);
        processor.afterEvent = () -> {
            if (!holdCommits) log.commit();
        };
        config = GroupCoordinatorConfig.fromProps(new HashMap<>(configs));
        GroupConfigManager configManager = new GroupConfigManager(Map.of());
        GroupCoordinatorMetrics metrics = new GroupCoordinatorMetrics(new MetricsRegistry(), new Metrics(clock));
        var logContext = Release.logContext();
        runtime = new CoordinatorRuntime.Builder<GroupCoordinatorShard, CoordinatorRecord>()
            .withTime(clock)
            .withTimer(timer)
            .withLogPrefix("oracle")
            .withLogContext(logContext)
            .withEventProcessor(processor)
            .withPartitionWriter(log)
            .withLoader(log)
            .withCoordinatorShardBuilderSupplier(() ->
                new GroupCoordinatorShard.Builder(config, configManager).withAuthorizer(DeniedTopics.configured()))
            .withDefaultWriteTimeOut(timeout())
            .withCoordinatorRuntimeMetrics((CoordinatorRuntimeMetrics) Proxy.newProxyInstance(
                CoordinatorRuntimeMetrics.class.getClassLoader(), new Class<?>[] {CoordinatorRuntimeMetrics.class},
                (proxy, method, args) -> null))
            .withCoordinatorMetrics(metrics)
            .withSerializer(new GroupCoordinatorRecordSerde())
            .withAppendLingerMs(0)
            .withExecutorService(tasks)
            .build();
        service = new GroupCoordinatorService(logContext, config, runtime, metrics, configManager);
        service.startup(() -> 1);
        if (!image.isEmpty()) update(new MetadataDelta.Builder().setImage(image).build(), image);
        service.onElection(0, 1);
    }

    /** Returns the names of all configs of the coordinator. */
    public static Set<String> configNames() {
        Set<String> names = new HashSet<>();
        for (ConfigDef def : List.of(
            GroupCoordinatorConfig.GROUP_COORDINATOR_CONFIG_DEF, GroupCoordinatorConfig.OFFSET_MANAGEMENT_CONFIG_DEF,
            GroupCoordinatorConfig.CLASSIC_GROUP_CONFIG_DEF, GroupCoordinatorConfig.CONSUMER_GROUP_CONFIG_DEF)) {
            names.addAll(def.names());
        }
        return names;
    }

    /** Notifies the coordinator of changed metadata, like a broker: first of deleted partitions, then of the rest. */
    public void update(MetadataDelta delta, MetadataImage image) {
        List<TopicPartition> deleted = new ArrayList<>();
        if (delta.topicsDelta() != null) {
            for (var id : delta.topicsDelta().deletedTopicIds()) {
                TopicImage topic = delta.image().topics().getTopic(id);
                topic.partitions().keySet().forEach(partition -> deleted.add(new TopicPartition(topic.name(), partition)));
            }
        }
        if (!deleted.isEmpty()) {
            try {
                service.onPartitionsDeleted(deleted, Release.NO_CACHING);
            } catch (ExecutionException | InterruptedException e) {
                throw new IllegalStateException(e);
            }
        }
        service.onNewMetadataImage(image, delta);
    }

    public void endTransaction(long producerId, short producerEpoch, int coordinatorEpoch, TransactionResult result, short transactionVersion) {
        service.completeTransaction(tp, producerId, producerEpoch, coordinatorEpoch, result, timeout());
    }

    public String state() {
        return DirectEventProcessor.stateOf(runtime, tp);
    }

    public CompletableFuture<Void> cleanup() {
        return runtime.scheduleWriteOperation("cleanup-group-metadata", tp, timeout(), GroupCoordinatorShard::cleanupGroupMetadata);
    }

    private Duration timeout() {
        return Duration.ofMillis(config.offsetCommitTimeoutMs());
    }

    @Override
    public void close() {
        service.shutdown();
    }
}
