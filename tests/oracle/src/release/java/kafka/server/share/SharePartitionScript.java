package kafka.server.share;

import oracle.Clock;
import oracle.Json;
import oracle.StepTimer;

import org.apache.kafka.clients.consumer.internals.ShareAcquireMode;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.message.FetchResponseData.AbortedTransaction;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.coordinator.group.ShareGroupAutoOffsetResetStrategy;
import org.apache.kafka.coordinator.group.modern.share.ShareGroupConfigProvider;
import org.apache.kafka.server.partition.PartitionListener;
import org.apache.kafka.server.share.PartitionMetadataProvider;
import org.apache.kafka.server.share.acknowledge.ShareAcknowledgementBatch;
import org.apache.kafka.server.share.dlq.ShareGroupDLQManager;
import org.apache.kafka.server.share.dlq.ShareGroupDLQRecordParameter;
import org.apache.kafka.server.share.fetch.InFlightBatch;
import org.apache.kafka.server.share.fetch.InFlightState;
import org.apache.kafka.server.share.fetch.ShareAcquiredRecords;
import org.apache.kafka.server.share.persister.NoOpStatePersister;
import org.apache.kafka.server.share.persister.PartitionFactory;
import org.apache.kafka.server.share.persister.PartitionStateBatchData;
import org.apache.kafka.server.share.persister.PersisterStateBatch;
import org.apache.kafka.server.share.persister.ReadShareGroupStateParameters;
import org.apache.kafka.server.share.persister.ReadShareGroupStateResult;
import org.apache.kafka.server.share.persister.TopicData;
import org.apache.kafka.server.share.persister.WriteShareGroupStateParameters;
import org.apache.kafka.server.share.persister.WriteShareGroupStateResult;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.storage.log.FetchPartitionData;
import org.apache.kafka.server.util.timer.TimerTaskEntry;
import org.apache.kafka.storage.internals.log.LogOffsetMetadata;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;

import java.nio.ByteBuffer;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalInt;
import java.util.OptionalLong;
import java.util.concurrent.CompletableFuture;

/** Runs a script of calls on Kafka's own SharePartition, with a clock, timer, persister and dead letter queue that are driven step by step. */
public final class SharePartitionScript {
    private static final TopicIdPartition PARTITION = new TopicIdPartition(new Uuid(1, 2), 0, "topic");

    private final Clock clock = new Clock(1_700_000_000_000L);
    private final StepTimer timer = new StepTimer(clock);
    private final JsonNode script;
    private final Deque<CompletableFuture<WriteShareGroupStateResult>> held = new ArrayDeque<>();
    private boolean holds;
    private int limit;
    private int locks;
    private int lockMs;
    private boolean renews;
    private boolean buries;
    private int notified;
    private int calls;
    private ArrayNode writes;
    private ArrayNode completed;
    private ArrayNode letters;

    private SharePartitionScript(JsonNode script) {
        this.script = script;
        configure(script);
    }

    public static ObjectNode run(JsonNode script) {
        return new SharePartitionScript(script).results();
    }

    private ObjectNode results() {
        ObjectNode out = Json.obj();
        ArrayNode results = out.putArray("results");
        SharePartition partition = new SharePartition(
            "g", PARTITION, 7, 2000, 5, 30000, timer, clock, new ScriptedPersister(), new Offsets(), key -> notified++, new Configs(),
            null, () -> true, new RecordedLetters());
        try {
            for (JsonNode step : script.get("steps")) {
                ObjectNode result = results.addObject();
                writes = Json.arr();
                completed = Json.arr();
                letters = Json.arr();
                notified = 0;
                try {
                    step(partition, step, result);
                } catch (RuntimeException e) {
                    result.put("thrown", e.toString());
                }
                result.set("writes", writes);
                result.set("completed", completed);
                result.set("letters", letters);
                result.put("notified", notified);
                describe(partition, result);
            }
        } finally {
            partition.markFenced();
            partition.close();
        }
        return out;
    }

    private void step(SharePartition partition, JsonNode step, ObjectNode result) {
        holds = step.path("hold").asBoolean(false);
        switch (step.get("do").asText()) {
            case "initialize" -> watch(partition.maybeInitialize());
            case "acquire" -> acquire(partition, step, result);
            case "acknowledge" -> {
                List<ShareAcknowledgementBatch> batches = new ArrayList<>();
                for (JsonNode one : step.get("batches")) {
                    List<Byte> types = new ArrayList<>();
                    one.get(2).forEach(type -> types.add((byte) type.asInt()));
                    batches.add(new ShareAcknowledgementBatch(one.get(0).asLong(), one.get(1).asLong(), types));
                }
                watch(partition.acknowledge(step.get("member").asText(), batches));
            }
            case "release" -> watch(partition.releaseAcquiredRecords(step.get("member").asText()));
            case "logStart" -> partition.updateCacheAndOffsets(step.get("offset").asLong());
            case "advance" -> advance(step.get("ms").asLong());
            case "written" -> complete(held.poll(), step.path("error").asInt(0));
            case "configure" -> configure(step);
            case "fence" -> partition.markFenced();
            default -> throw new Json.BadInput("unknown step " + step);
        }
    }

    private void configure(JsonNode step) {
        limit = step.get("limit").asInt();
        locks = step.get("locks").asInt();
        lockMs = step.get("lockMs").asInt();
        renews = step.get("renews").asBoolean();
        buries = step.get("buries").asBoolean();
    }

    private void acquire(SharePartition partition, JsonNode step, ObjectNode result) {
        List<AbortedTransaction> aborted = new ArrayList<>();
        for (JsonNode one : step.get("aborted")) {
            aborted.add(new AbortedTransaction().setProducerId(one.get(0).asLong()).setFirstOffset(one.get(1).asLong()));
        }
        boolean committed = step.get("committed").asBoolean();
        MemoryRecords records = MemoryRecords.readableRecords(ByteBuffer.wrap(Json.unhex(step.get("records"))));
        FetchPartitionData fetched = new FetchPartitionData(
            Errors.NONE, 1L << 40, 0, records, Optional.empty(), OptionalLong.empty(), committed ? Optional.of(aborted) : Optional.empty(),
            OptionalInt.empty(), false);
        ShareAcquiredRecords acquired = partition.acquire(
            step.get("member").asText(), ShareAcquireMode.forId((byte) step.get("mode").asInt()), step.get("batchSize").asInt(),
            step.get("maxRecords").asInt(), step.get("fetchOffset").asLong(), fetched,
            committed ? FetchIsolation.TXN_COMMITTED : FetchIsolation.HIGH_WATERMARK);
        ArrayNode found = result.putArray("acquired");
        acquired.acquiredRecords().forEach(one -> found.addArray().add(one.firstOffset()).add(one.lastOffset()).add(one.deliveryCount()));
        result.put("count", acquired.count());
        if (!acquired.acquiredRecords().isEmpty()) {
            result.put("bytes", ShareFetchUtils.maybeSliceFetchRecords(records, acquired).sizeInBytes());
        }
    }

    private void advance(long ms) {
        long until = clock.milliseconds() + ms;
        TimerTaskEntry due;
        while ((due = timer.pollDue(until)) != null) {
            if (due.expirationMs > clock.milliseconds()) clock.set(due.expirationMs);
            due.timerTask.run();
        }
        clock.set(until);
    }

    private void watch(CompletableFuture<Void> future) {
        int call = calls++;
        future.whenComplete((result, error) -> {
            ArrayNode done = completed.addArray().add(call);
            done.add(error == null ? 0 : Errors.forException(error).code());
            done.add(error == null ? null : error.getMessage());
        });
    }

    private static void complete(CompletableFuture<WriteShareGroupStateResult> future, int error) {
        if (future == null) return;
        future.complete(new WriteShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(PARTITION.topicId(), List.of(
            PartitionFactory.newPartitionErrorData(0, (short) error, error == 0 ? null : "failed"))))).build());
    }

    private static void describe(SharePartition partition, ObjectNode out) {
        out.put("start", partition.startOffset());
        out.put("end", partition.endOffset());
        out.put("complete", partition.deliveryCompleteCount());
        out.put("canAcquire", partition.canAcquireRecords());
        out.put("next", partition.nextFetchOffset());
        out.put("status", partition.partitionState().name());
        ArrayNode batches = out.putArray("inFlight");
        for (Map.Entry<Long, InFlightBatch> entry : partition.cachedState().entrySet()) {
            InFlightBatch batch = entry.getValue();
            if (batch.offsetState() == null) {
                batches.addArray().add(batch.firstOffset()).add(batch.lastOffset()).add(batch.batchState().id()).add(batch.batchDeliveryCount())
                    .add(batch.batchMemberId()).add(batch.batchHasOngoingStateTransition()).add(batch.batchAcquisitionLockTimeoutTask() != null);
            } else {
                ArrayNode offsets = batches.addArray().add(batch.firstOffset()).add(batch.lastOffset()).addArray();
                for (InFlightState state : batch.offsetState().values()) {
                    offsets.addArray().add(state.state().id()).add(state.deliveryCount()).add(state.memberId())
                        .add(state.hasOngoingStateTransition()).add(state.acquisitionLockTimeoutTask() != null);
                }
            }
        }
    }

    private final class ScriptedPersister extends NoOpStatePersister {
        @Override
        public CompletableFuture<ReadShareGroupStateResult> readState(ReadShareGroupStateParameters parameters) {
            JsonNode stored = script.get("stored");
            List<PersisterStateBatch> batches = new ArrayList<>();
            for (JsonNode one : stored.get("batches")) {
                batches.add(new PersisterStateBatch(one.get(0).asLong(), one.get(1).asLong(), (byte) one.get(2).asInt(), (short) one.get(3).asInt()));
            }
            short error = (short) stored.get("error").asInt();
            return CompletableFuture.completedFuture(new ReadShareGroupStateResult.Builder().setTopicsData(List.of(new TopicData<>(
                PARTITION.topicId(), List.of(PartitionFactory.newPartitionAllData(
                    0, 3, stored.get("start").asLong(), error, error == 0 ? null : "failed", batches))))).build());
        }

        @Override
        public CompletableFuture<WriteShareGroupStateResult> writeState(WriteShareGroupStateParameters parameters) {
            PartitionStateBatchData data = parameters.groupTopicPartitionData().topicsData().get(0).partitions().get(0);
            ArrayNode write = writes.addArray().add(data.leaderEpoch()).add(data.stateEpoch()).add(data.startOffset()).add(data.deliveryCompleteCount());
            ArrayNode batches = write.addArray();
            data.stateBatches().forEach(one ->
                batches.addArray().add(one.firstOffset()).add(one.lastOffset()).add(one.deliveryState()).add(one.deliveryCount()));
            CompletableFuture<WriteShareGroupStateResult> future = new CompletableFuture<>();
            if (holds) held.add(future);
            else complete(future, 0);
            return future;
        }
    }

    /** A dead letter queue that takes each record at once. */
    private final class RecordedLetters implements ShareGroupDLQManager {
        @Override
        public CompletableFuture<Void> enqueue(ShareGroupDLQRecordParameter letter) {
            letters.addArray().add(letter.firstOffset()).add(letter.lastOffset()).add(letter.deliveryCount().orElseThrow())
                .add(letter.cause().map(Throwable::getMessage).orElse(null));
            return CompletableFuture.completedFuture(null);
        }

        @Override
        public void stop() {
        }
    }

    private final class Configs extends ShareGroupConfigProvider {
        Configs() {
            super(null);
        }

        @Override public int recordLockDurationMsOrDefault(String group, int other) { return lockMs; }
        @Override public int deliveryCountLimitOrDefault(String group, int other) { return limit; }
        @Override public int partitionMaxRecordLocksOrDefault(String group, int other) { return locks; }
        @Override public boolean isRenewAcknowledgeEnabled(String group) { return renews; }
        @Override public ShareGroupAutoOffsetResetStrategy autoOffsetReset(String group) { return ShareGroupAutoOffsetResetStrategy.EARLIEST; }
        @Override public Optional<String> errorsDLQTopicName(String group) { return buries ? Optional.of("letters") : Optional.empty(); }
    }

    private final class Offsets implements PartitionMetadataProvider {
        @Override public long offsetForEarliestTimestamp(TopicIdPartition partition, int epoch) { return script.get("reset").asLong(); }
        @Override public long offsetForLatestTimestamp(TopicIdPartition partition, int epoch) { throw new UnsupportedOperationException(); }
        @Override public long offsetForTimestamp(TopicIdPartition partition, long ms, int epoch) { throw new UnsupportedOperationException(); }
        @Override public LogOffsetMetadata endOffsetMetadata(TopicIdPartition partition, FetchIsolation isolation) { throw new UnsupportedOperationException(); }
        @Override public int leaderEpoch(TopicIdPartition partition) { return 7; }
        @Override public boolean addPartitionListener(TopicIdPartition partition, PartitionListener listener) { return true; }
        @Override public void removePartitionListener(TopicIdPartition partition, PartitionListener listener) { }
    }
}
